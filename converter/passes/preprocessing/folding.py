"""Mean and scale as part of the first convolutions, instead of layers of their own.

x -> Subtract(m) -> Multiply(1 / s) -> Convolution(w)

becomes    x -> Convolution(w / s) -> Add(-sum of w m / s)

A convolution with pads puts zeros around what it reads. Behind the division these are the mean, and in front of it they
are black: there the mean stays a layer, and the scale alone becomes part of the weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from converter.errors import ConversionError
from converter.passes.channel_factors import scaled
from converter.passes.preprocessing.resolution import Resolved
from ir_runtime.graph import Array, Model, Node, Output, Tensor, make_node
from ir_runtime.operations.convolution import Convolution1
from ir_runtime.operations.elementwise import Add1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.rewriting import UniqueNames


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
