"""Leave out layers that change nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output
from ir_runtime.operations import elementwise
from ir_runtime.operations.indexing import Gather
from ir_runtime.operations.movement import Broadcast, Concat1, Reshape1, Squeeze1, Tile1, Unsqueeze1
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes

_END = 2**31 - 1
"""Exporters write this number, or a larger one, for the end."""


def _negative(node: Node) -> Output | None:
    before = node.inputs[0].node
    return before.inputs[0] if isinstance(before.op, elementwise.Negative1) else None


def _slice(node: Node) -> Output | None:
    lists = [source.type.constant for source in node.inputs[1:4]]
    if any(values is None for values in lists):
        return _computed_slice(node)
    start, stop, step = (values.reshape(-1) for values in lists if values is not None)
    whole = ((start == 0) | (start <= -_END)).all() and (stop >= _END).all() and (step == 1).all()
    return node.inputs[0] if whole else None


def _computed_slice(node: Node) -> Output | None:
    """The input of a slice from 0 to stops that are computed from its shape."""
    shapes, x = symbolic_shapes(), node.inputs[0]
    dims, lists = shapes.dims(x), [shapes.elements(source) for source in node.inputs[1:]]
    if dims is None or any(bounds is None for bounds in lists):
        return None
    starts, stops, steps, *named = [bounds.reshape(-1).tolist() for bounds in lists if bounds is not None]
    axes = [element.value for element in named[0]] if named else range(len(starts))
    for start, stop, step, axis in zip(starts, stops, steps, axes):
        if axis is None or start.value != 0 or step.value != 1 or not shapes.reaches_end(stop, dims[axis]):
            return None
    return x


def _squeeze(node: Node) -> Output | None:
    before = node.inputs[0].node
    if not isinstance(before.op, Unsqueeze1) or len(node.inputs) < 2:
        return None
    first, second = before.inputs[1].type.constant, node.inputs[1].type.constant
    if first is None or second is None or not second.size:
        return None
    return before.inputs[0] if sorted(first.reshape(-1).tolist()) == sorted(second.reshape(-1).tolist()) else None


def _tile(node: Node) -> Output | None:
    x, repeats = node.inputs
    constant = repeats.type.constant
    once = constant is not None and bool((constant == 1).all()) and x.shape.has_rank and constant.size <= x.shape.rank
    return x if once else None


def _broadcast(node: Node) -> Output | None:
    return None if node.op.mode == "explicit" else _if_same_shape(node)  # type: ignore[attr-defined]


def _pad(node: Node) -> Output | None:
    widths = [source.type.constant for source in node.inputs[1:3]]
    return node.inputs[0] if all(width is not None and not width.any() for width in widths) else None


def _gather(node: Node) -> Output | None:
    x, (index, axis) = node.inputs[0], (source.type.constant for source in node.inputs[1:3])
    if index is None or axis is None or axis.size != 1 or index.ndim != 1 or not x.shape.has_rank:
        return None
    # A Gather with dimensions of a batch has an index of rank 2 at least.
    if (index != np.arange(index.size)).any():
        return None
    dims = symbolic_shapes().dims(x)
    return x if dims is not None and dims[int(axis.reshape(-1)[0])].value == index.size else None


def _if_same_shape(node: Node) -> Output | None:
    """The input, where the output has its dimensions for whatever shapes."""
    x = node.inputs[0]
    if x.shape.merge(node.outputs[0].shape) is None:
        return None  # most Reshapes need no closer look
    dims = symbolic_shapes().dims(x)
    return x if dims is not None and dims == symbolic_shapes().dims(node.outputs[0]) else None


_IDLE: dict[type, Callable[[Node], Output | None]] = {
    Concat1: lambda node: node.inputs[0] if len(node.inputs) == 1 else None,
    Gather: _gather,
    elementwise.Negative1: _negative,
    Slice8: _slice,
    Reshape1: _if_same_shape,
    Squeeze1: _squeeze,
    Tile1: _tile,
    Broadcast: _broadcast,
    Pad: _pad,
}


@passes.replaces("idle_layers", *_IDLE)
def idle_layer(builder: Builder, node: Node) -> Replacement:
    """Let what reads the result of a layer that changes nothing read what it is made from.

        x -> Concat                                            becomes      x
        x -> Negative -> Negative                              becomes      x
        x -> Slice(everything, or 0 to ShapeOf(x))             becomes      x
        x -> Reshape(its own shape)                            becomes      x
        x -> Unsqueeze(axes) -> Squeeze(axes)                  becomes      x
        x -> Tile(1, 1, 1)                                     becomes      x
        x -> Broadcast(1, 1, 1, or its own shape)              becomes      x
        x -> Pad(0, 0, 0)                                      becomes      x
        x [2, 4] -> Gather([0, 1, 2, 3], axis 1)               becomes      x

    Shapes are those of ``x`` for whatever shapes of the inputs.
    """
    look = next(function for operation, function in _IDLE.items() if isinstance(node.op, operation))
    return look(node) or fail("it changes its input, or may do so")


_NEUTRAL = {
    elementwise.Add1: 0,
    elementwise.Subtract1: 0,
    elementwise.Multiply1: 1,
    elementwise.Divide1: 1,
    elementwise.Power1: 1,
    elementwise.LogicalAnd1: True,
    elementwise.LogicalOr1: False,
}
_MAX_BYTES = 1 << 16
"""Larger constants are not read: they are weights."""


@passes.replaces("neutral_elements", *_NEUTRAL)
def neutral_element(builder: Builder, node: Node) -> Replacement:
    """Leave out additions of 0, multiplications by 1, powers of 1, and conditions that decide nothing.

        x -> Add(0)                becomes      x
        x -> Multiply(1)           becomes      x
        x -> LogicalAnd(true)      becomes      x
        x -> LogicalOr(false)      becomes      x

    tf2onnx adds biases of zeros to convolutions, and others scale by 1; attention masks begin with true.
    A constant that widens ``x`` stays.
    """
    neutral = _NEUTRAL[type(node.op)]
    for x, other in node.orders:
        if _is_everywhere(other, neutral):
            if not keeps_shape(x, other, node.outputs[0]):
                return fail("the constant may change the shape")
            return x
    return fail(f"no operand is {neutral} everywhere")


def _is_everywhere(value: Output, neutral: int) -> bool:
    tensor = value.tensor
    if tensor is None or tensor.byte_size > _MAX_BYTES or value.element_type.dtype.hasobject:
        return False
    values = tensor.array()
    return values.size > 0 and values.reshape(-1)[0] == neutral and bool((values == neutral).all())


def keeps_shape(x: Output, constant: Output, result: Output) -> bool:
    """True if broadcasting with the constant leaves every shape that ``x`` may have as it is."""
    if x.element_type is not result.element_type:
        return False
    if constant.shape.rank == 0:
        return True
    if not x.shape.has_rank or x.shape.rank < constant.shape.rank:
        return False
    behind = x.shape.dims[x.shape.rank - constant.shape.rank :]
    return all(wide.value == 1 or wide == own for wide, own in zip(constant.shape.dims, behind))
