"""Removal of initial states of zeros from recurrent nodes, whose default they are."""

from __future__ import annotations

from converter.onnx_file.graph import operator_of
from converter.to_onnx.graph import listed_inputs
from ir_runtime.graph import Model, Output

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


def drop_zero_states(graph: Model) -> bool:
    """Remove the initial states of zeros from recurrent nodes; return whether there were any."""
    is_changed = False
    for node in graph.nodes():
        indices = _STATES.get(node.op.type, ())
        inputs = listed_inputs(node) if indices else []
        states = {index: inputs[index] for index in indices if index < len(inputs)}
        omitted = {index for index, state in states.items() if state is not None and _is_zero(state)}
        if omitted:
            inputs = [None if index in omitted else value for index, value in enumerate(inputs)]
            while inputs[-1] is None:  # trailing inputs without a name are omitted altogether
                inputs.pop()
            node.op = operator_of(node).replace(slots=[value is not None for value in inputs])
            node.inputs = tuple(value for value in inputs if value is not None)
            is_changed = True
    return is_changed


def _is_zero(value: Output) -> bool:
    """True if all elements of a tensor are certainly zero; its shape may be dynamic."""
    while not value.node.op.role:
        node, op = value.node, operator_of(value.node)
        if op.type == "ConstantOfShape":
            fill = None if op.proto is None else op.read(op.proto)
            return fill is None or not fill.array().any()
        if op.type == "Concat":
            return all(map(_is_zero, node.inputs))
        if op.type not in _MOVEMENTS:
            return False
        value = node.inputs[0]
    tensor = value.node.op.data
    if tensor is None or not tensor.element_type.is_real or tensor.byte_size > _MAX_BYTES:
        return False
    return not tensor.array().any()
