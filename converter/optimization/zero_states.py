"""Recurrent nodes without initial states of zeros: these are the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import NodeProto, TensorProto
from converter.onnx_file.reader import OnnxFile

_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""Operator -> the inputs that are initial states."""
_MOVING = (
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
"""Operators whose results are values of the first input: zeros stay zeros."""
_MAX_BYTES = 1 << 20


def without_zero_states(
    file: OnnxFile, nodes: Sequence[NodeProto], values: Mapping[str, TensorProto]
) -> list[NodeProto]:
    """Return the nodes, of which recurrent ones read no states of zeros; ``values`` are the initializers."""
    if not any(node.op_type in _STATES for node in nodes):
        return list(nodes)
    zeros = _Zeros(file, nodes, values)
    result = []
    for node in nodes:
        places = [] if normalize_domain(node.domain) else _STATES.get(node.op_type, ())
        left_out = [place for place in places if place < len(node.input) and zeros.is_zero(node.input[place])]
        if left_out:
            inputs = ["" if place in left_out else name for place, name in enumerate(node.input)]
            while not inputs[-1]:
                inputs.pop()
            node = node.with_fields(input=inputs)
        result.append(node)
    return result


class _Zeros:
    """Which tensors hold nothing but zeros."""

    def __init__(self, file: OnnxFile, nodes: Sequence[NodeProto], values: Mapping[str, TensorProto]) -> None:
        self._file = file
        self._values = values
        self._producers = {name: node for node in nodes for name in node.output}

    def is_zero(self, name: str) -> bool:
        """True if a tensor is known to be zeros, of whatever shape."""
        while name not in self._values:
            node = self._producers.get(name)
            if node is None or normalize_domain(node.domain):
                return False
            values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
            if node.op_type == "ConstantOfShape":
                return not values or self._is_filled(values[0])
            if node.op_type == "Constant":
                return len(values) == 1 and self._is_filled(values[0])
            if node.op_type == "Concat":
                return all(map(self.is_zero, node.input))
            if node.op_type not in _MOVING:
                return False
            name = node.input[0]
        return self._is_filled(self._values[name])

    def _is_filled(self, proto: TensorProto) -> bool:
        if proto.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE):
            return False
        tensor = self._file.tensor(proto)
        return tensor.byte_size <= _MAX_BYTES and not tensor.array().any()
