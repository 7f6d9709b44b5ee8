"""Preprocessing in the weights of the first convolutions, instead of layers of its own.

x -> Subtract(m) -> Multiply(1 / s) -> Convolution(w)      becomes      x -> Convolution(w / s) -> Add(-sum of w m / s)
x -> Gather([2, 1, 0]) -> Subtract(m) -> Convolution(w)    becomes      x -> Subtract(m turned) -> Convolution(w turned)

A convolution with pads puts zeros around what it reads. Behind the division these are the mean, and in front of it they
are black: there the mean stays a layer, and the scale alone becomes part of the weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from converter.errors import ConversionError
from converter.passes.channel_factors import scaled
from ir_runtime.graph import Array, Model, Node, Output, Tensor, make_node
from ir_runtime.operations.convolution import Convolution1
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Multiply1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting import UniqueNames

from .resolution import Resolved


def fold(model: Model, value: Output, resolved_steps: Resolved) -> Resolved:
    """Put mean and scale of an input, which is ``value`` so far, into the weights; the steps that are left.

    Raises :class:`ConversionError`, and changes nothing, where a layer that reads the input is no convolution with
    constant weights.
    """
    steps = resolved_steps.steps
    axis = None if resolved_steps.channel_axis is None else resolved_steps.order.index(resolved_steps.channel_axis)
    readers = value.uses
    for node in readers:
        _check(node, value, resolved_steps.name, axis)
    mean, scale = (cast("tuple[float, ...] | None", numbers) for numbers in (steps.mean, steps.scale))
    factors = 1 / np.asarray((1.0,) if scale is None else scale, np.float64)
    is_mean_folded = mean is not None and not any(map(_is_padded, readers))
    shifts = np.asarray(mean if is_mean_folded and mean is not None else (0.0,), np.float64) * factors
    folded = {
        node: scaled(cast(Tensor, node.inputs[1].node.op.data), (1,), factors, is_requested=True) for node in readers
    }
    for node, weights in folded.items():
        if isinstance(weights, str):
            raise ConversionError(f"input '{resolved_steps.name}' cannot be folded into '{node.name}': {weights}")
    unique = UniqueNames(model)
    for node, weights in folded.items():
        old = node.inputs[1]
        data = cast(Tensor, old.node.op.data)
        bias = -_sums(data.array(), shifts)
        node.replace_inputs([value, _constant(cast(Tensor, weights), old.node.name)])
        if is_mean_folded:
            _add(node, bias, data, unique)
    return replace(
        resolved_steps, steps=replace(steps, scale=None, mean=None if is_mean_folded else steps.mean, fold=False)
    )


def _check(node: Node, value: Output, name: str, axis: int | None) -> None:
    needed = (
        f"input '{name}' cannot be folded: that needs a Convolution for every layer that reads it, but '{node.name}'"
    )
    if not isinstance(node.op, Convolution1) or node.inputs[0] is not value:
        raise ConversionError(f"{needed} is a {node.op.type}")
    if node.inputs[1].node.op.data is None:
        raise ConversionError(f"{needed} has weights that are not constant")
    if axis not in (None, 1):
        raise ConversionError(f"{needed} has its channels in another dimension than mean and scale")


def _is_padded(node: Node) -> bool:
    op = cast(Convolution1, node.op)
    return op.auto_pad in ("same_upper", "same_lower") or (
        op.auto_pad != "valid" and any([*op.pads_begin, *op.pads_end])
    )


def _sums(weights: Array, shifts: Array) -> Array:
    """Return the increase of each output channel where every input channel is ``shifts`` larger."""
    by_channel = weights.astype(np.float64).reshape(*weights.shape[:2], -1).sum(-1)
    total: Array = (by_channel * shifts).sum(1)
    return total


def _add(node: Node, bias: Array, weights: Tensor, unique: UniqueNames) -> None:
    """Add ``bias``, computed from ``weights``, to the channels behind a convolution: to its own bias if it has one."""
    output = node.outputs[0]
    readers = output.uses
    shaped = bias.reshape(1, -1, *[1] * (output.shape.rank - 2))
    if len(readers) == 1 and isinstance(readers[0].op, Add1):
        place = 1 - readers[0].inputs.index(output)
        constant = readers[0].inputs[place].type.constant
        if constant is not None and constant.shape == shaped.shape:
            source = readers[0].inputs[place]
            total = (constant.astype(np.float64) + shaped).astype(constant.dtype)
            tensor = Tensor.from_array(total, source.element_type).derived("shifted", source.tensor, weights)
            readers[0].replace_input(place, _constant(tensor, source.node.name))
            return
    tensor = Tensor.from_array(shaped.astype(output.element_type.dtype), output.element_type)
    tensor.derived("shifted", weights)
    layer = make_node(Add1(), [output, _constant(tensor, unique(f"{node.name}/bias"))], unique(f"{node.name}/Add"))
    layer.origin = node.origin
    output.replace_by(layer.outputs[0])


def _constant(tensor: Tensor, name: str) -> Output:
    return make_node(Const1(value=tensor), (), name).outputs[0]


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
