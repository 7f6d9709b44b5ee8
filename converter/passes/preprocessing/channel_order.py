"""Reversed channels in the weights of the first convolutions: the data stay as they are.

x -> Gather([2, 1, 0]) -> Subtract(m) -> Convolution(w)

becomes    x -> Subtract(m reversed) -> Convolution(w reversed)
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Model, Node, Output, Tensor, make_node
from ir_runtime.operations.convolution import Convolution1
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Multiply1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1

_BY_CHANNEL = (Add1, Subtract1, Multiply1, Divide1)
_WIDENING = (Convert1, Subtract1, Multiply1)
"""The layers that compressed weights go through."""


def reverse_in_weights(model: Model, value: Output, axis: int) -> list[str] | None:
    """Reverse the constants that the channels of ``value``, along ``axis``, meet; the layers whose constants those are.

    None, and nothing is changed, where not every layer that reads the value has such constants.
    """
    axes_of_readers: dict[Node, int] = {}
    if axis != 1 or not _collect(value, axes_of_readers):
        return None
    for node, place in axes_of_readers.items():
        _reverse_constant(node, place)
    return [node.name for node in axes_of_readers]


def reverse_back(model: Model, names: list[str]) -> bool:
    """Undo :func:`reverse_in_weights`, in place, by what it returned.

    False, and nothing is changed, where a later change has taken such a layer away or put others before its constant.
    """
    axes_of_readers = dict[Node, int]()
    for node in model.nodes():
        if node.name not in names:
            continue
        if isinstance(node.op, Convolution1):
            place, is_known = 1, _is_constant(node)
        elif isinstance(node.op, _BY_CHANNEL):
            place = 1 if _is_widened(node.inputs[1]) else 0
            is_known = _is_widened(node.inputs[place])
        else:
            return False
        if not is_known:
            return False
        axes_of_readers[node] = place
    if len(axes_of_readers) != len(set(names)):
        return False
    for node, place in axes_of_readers.items():
        _reverse_constant(node, place)
    return True


def _collect(value: Output, axes_of_readers: dict[Node, int]) -> bool:
    """Collect the inputs of layers to reverse; False where a layer cannot have that."""
    readers = value.uses
    for node in readers:
        if not value.shape.has_rank or node.inputs.count(value) != 1 or node in axes_of_readers:
            return False
        place = 1 - node.inputs.index(value)
        if isinstance(node.op, Convolution1):
            if place != 1 or not _is_constant(node):
                return False
            axes_of_readers[node] = place
        elif isinstance(node.op, _BY_CHANNEL):
            constant = node.inputs[place].node.op.data
            if constant is None or len(constant.shape) > value.shape.rank:
                return False
            own = 1 - (value.shape.rank - len(constant.shape))
            if own >= 0 and constant.shape[own] != 1:
                if own != 1:  # the walk back goes by the second dimension
                    return False
                axes_of_readers[node] = place
            if not _collect(node.outputs[0], axes_of_readers):
                return False
        else:
            return False
    return bool(readers)


def _is_widened(value: Output) -> bool:
    """True if a value is a constant, or one that was stored in fewer bits."""
    source = value.node
    return source.op.data is not None or (isinstance(source.op, Convert1) and source.inputs[0].node.op.data is not None)


def _is_constant(node: Node) -> bool:
    """True if weights are a constant, or one that is widened by channels of the output alone."""
    value = node.inputs[1]
    while value.node.op.data is None:
        before = value.node
        if not isinstance(before.op, _WIDENING) or value.only_user is None:
            return False
        for other in before.inputs[1:]:
            if not other.shape.is_static or (other.shape.rank > 1 and other.shape[1].value != 1):
                return False
        value = before.inputs[0]
    return len(value.node.op.data.shape) >= 3


def _reverse_constant(node: Node, place: int) -> None:
    """Let the constant behind an input of ``node`` be reversed by channels; its other readers keep theirs."""
    while node.inputs[place].node.op.data is None:
        node, place = node.inputs[place].node, 0
    old = node.inputs[place]
    data = old.node.op.data
    assert data is not None
    turned = Tensor.from_array(np.ascontiguousarray(np.flip(data.array(), 1)), data.element_type)
    turned.derived("reversed channels", data)
    new = make_node(Const1(value=turned), (), old.node.name)
    new.origin, new.runtime_info = old.node.origin, old.node.runtime_info
    new.outputs[0].names = list(old.names)
    node.replace_input(place, new.outputs[0])
