"""Shapes, orders and repetition."""

from __future__ import annotations

from converter.onnx_file.graph import operator_of
from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import (
    concat,
    int64_list,
    known_axes,
    known_list,
    list_of,
    rank_of,
    reshape,
    reshape_exactly,
    squeeze,
    unsqueeze,
)
from converter.to_onnx.layers import transpose as turned
from converter.to_onnx.registry import writes
from ir_runtime.graph import element_types
from ir_runtime.operations import movement as ir


@ir_op(ir.Reshape1)
def reshape_(ctx: Context, op: ir.Reshape1, x: Value, shape: Value) -> Value:
    """Reshape; where a 0 is a dimension of 0 with allowzero=1 (opset 14), or of data that have such dimensions, too"""
    numbers = known_list(ctx, shape)
    if numbers is not None:
        static = ctx.node.outputs[0].shape
        is_empty = static.is_static and 0 in static.static()
        if not is_empty and (op.special_zero or 0 not in numbers):
            return reshape(ctx, x, numbers)
        if is_empty:  # of nothing, -1 and 0 tell nothing
            return reshape_exactly(ctx, x, ctx.constant(list(static.static())), len(static.static()))
    bounds = shape.type.known_bounds
    is_positive = bounds is not None and bool((bounds.lower > 0).all())
    target = ctx.constant(numbers) if numbers is not None else int64_list(ctx, shape)
    if op.special_zero or is_positive:
        return ctx.emit("Reshape", x, target)
    count = shape.shape.element_count()
    if count.is_static and not ctx.at_least(14) and not _keeps_zeros(ctx):
        return reshape_exactly(ctx, x, target, count.value)
    if not count.is_static:
        ctx.opsets.require(14, "a Reshape whose 0 is a dimension of 0 and whose rank is unknown")
    return ctx.emit("Reshape", x, target, allowzero=1 if ctx.at_least(14) else None)


def _keeps_zeros(ctx: Context) -> bool:
    """True if a dimension that the layer makes 0 is 0 in the data, too."""
    data, target = ctx.node.inputs
    dims, elements = ctx.dims(data), ctx.elements(target)
    if dims is None or elements is None:
        return False
    return all(
        ctx.is_never_zero(size) or (index < len(dims) and size == dims[index]) for index, size in enumerate(elements)
    )


@ir_op(ir.Transpose1)
def transpose(ctx: Context, op: ir.Transpose1, x: Value, order: Value) -> Value:
    """Transpose, whose order must be known"""
    numbers = list_of(ctx, order, "the order of the dimensions")
    return turned(ctx, x, numbers) if numbers else ctx.emit("Transpose", x)


@ir_op(ir.Squeeze1, ir.Squeeze15)
def squeeze_(ctx: Context, op: ir.Squeeze1, x: Value, axes: Value | None = None) -> Value:
    """Squeeze; without axes of all dimensions that are 1"""
    numbers = None if axes is None else known_list(ctx, axes)
    if getattr(op, "allow_axis_skip", False) and axes is not None:
        rank = rank_of(ctx, x)
        dims = x.shape.dims
        chosen = known_axes(ctx, axes, rank)
        if chosen is None or any(dims[axis].contains(1) and not dims[axis].is_static for axis in chosen):
            ctx.fail("with allow_axis_skip the axes, and whether their dimensions are 1, must be known")
        return squeeze(ctx, x, [axis for axis in chosen if dims[axis].is_static and dims[axis].value == 1])
    if axes is None or numbers == []:
        return ctx.emit("Squeeze", x)
    before = operator_of(x.node)
    if before.type in ("ArgMax", "ArgMin") and before.values["keepdims"] and numbers:
        (source,), axis = x.node.inputs, before.values["axis"]
        is_same = x.shape.has_rank and numbers[0] % x.shape.rank == axis % x.shape.rank
        if len(numbers) == 1 and is_same and len(ctx.node.inputs[0].uses) == 1:
            return ctx.emit(before.type, source, axis=axis, keepdims=0)
    return ctx.emit("Squeeze", x, int64_list(ctx, axes))


@ir_op(ir.Unsqueeze1)
def unsqueeze_(ctx: Context, op: ir.Unsqueeze1, x: Value, axes: Value) -> Value:
    """Unsqueeze"""
    if known_list(ctx, axes) == []:
        return x
    return ctx.emit("Unsqueeze", x, int64_list(ctx, axes))


writes("Concat", ir.Concat1, axis="axis")


@ir_op(ir.Broadcast1, ir.Broadcast3)
def broadcast(ctx: Context, op: ir.Broadcast3, x: Value, shape: Value, axes: Value | None = None) -> Value:
    """Expand; in the mode explicit the dimensions are moved to their axes first"""
    if op.mode == "explicit":
        assert axes is not None
        placed, target = known_list(ctx, axes), shape.shape
        if placed is None or not target.is_static:
            ctx.fail("in the mode explicit the axes and the rank of the target must be known")
        rank = target.element_count().value
        x = unsqueeze(ctx, x, [axis for axis in range(rank) if axis not in placed])
    return ctx.emit("Expand", x, int64_list(ctx, shape))


@ir_op(ir.Tile1)
def tile(ctx: Context, op: ir.Tile1, x: Value, repeats: Value) -> Value:
    """Tile; the shorter of shape and repeats is filled up with ones in front"""
    rank = rank_of(ctx, x, "the data")
    count = repeats.shape.element_count()
    if not repeats.shape.has_rank or not count.is_static:
        ctx.fail("the number of repeats must be known")
    times = int64_list(ctx, repeats)
    if count.value < rank:
        ones = ctx.constant([1] * (rank - count.value), element_types.i64)
        times = concat(ctx, [ones, times], 0)
    return ctx.emit("Tile", unsqueeze(ctx, x, list(range(count.value - rank))), times)
