"""Removal of initial states of zeros from recurrent nodes, whose default they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import NodeProto, TensorProto
from converter.onnx_file.reader import OnnxFile

_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""Operator -> the indices of the inputs that are initial states."""
_MOVEMENTS = (
    "Cast",
    "Expand",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
"""Operators whose results consist of elements of the first input, so that zeros stay zeros."""
_MAX_BYTES = 1 << 20
"""Maximum size of constants that are compared with zero."""


def without_zero_states(
    file: OnnxFile, nodes: Sequence[NodeProto], values: Mapping[str, TensorProto]
) -> list[NodeProto]:
    """Return the nodes, the recurrent ones without initial states of zeros; ``values`` are the initializers by name."""
    if not any(node.op_type in _STATES for node in nodes):
        return list(nodes)
    zeros = _Zeros(file, nodes, values)
    result = []
    for node in nodes:
        indices = [] if normalize_domain(node.domain) else _STATES.get(node.op_type, ())
        omitted = [index for index in indices if index < len(node.input) and zeros.is_zero(node.input[index])]
        if omitted:
            inputs = ["" if index in omitted else name for index, name in enumerate(node.input)]
            while not inputs[-1]:  # trailing inputs without a name are omitted altogether
                inputs.pop()
            node = node.with_fields(input=inputs)
        result.append(node)
    return result


class _Zeros:
    """Recognizes tensors of zeros alone, which nodes may compute from constants."""

    def __init__(self, file: OnnxFile, nodes: Sequence[NodeProto], values: Mapping[str, TensorProto]) -> None:
        self._file = file
        self._values = values
        self._producers = {name: node for node in nodes for name in node.output}

    def is_zero(self, name: str) -> bool:
        """True if all elements of a tensor are certainly zero; its shape may be dynamic."""
        while name not in self._values:
            node = self._producers.get(name)
            if node is None or normalize_domain(node.domain):
                return False
            values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
            if node.op_type == "ConstantOfShape":
                return not values or self._is_zero_constant(values[0])
            if node.op_type == "Constant":
                return len(values) == 1 and self._is_zero_constant(values[0])
            if node.op_type == "Concat":
                return all(map(self.is_zero, node.input))
            if node.op_type not in _MOVEMENTS:
                return False
            name = node.input[0]
        return self._is_zero_constant(self._values[name])

    def _is_zero_constant(self, proto: TensorProto) -> bool:
        """True if a small floating-point constant is zero."""
        if proto.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
            return False
        tensor = self._file.tensor(proto)
        return tensor.byte_size <= _MAX_BYTES and not tensor.array().any()
