"""Values made from shapes and numbers."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import concat, int64_list, known_list, reshape, scalar
from converter.to_onnx.registry import writes
from ir_runtime.graph import element_types
from ir_runtime.operations.generation import CumSum3, Eye9, Range1, Range4, ShapeOf1, ShapeOf3

writes("Shape", ShapeOf1, ShapeOf3)


@ir_op(Range1, Range4)
def range_(ctx: Context, op: Range1 | Range4, start: Value, stop: Value, step: Value) -> Value:
    """Range, in float32 where a bound is a float, else in int64 or int32"""
    result_types = {bound.element_type for bound in (start, stop, step)}
    if any(element_type is element_types.f64 for element_type in result_types):
        work = element_types.f64
    elif any(element_type.is_real for element_type in result_types):
        work = element_types.f32
    else:
        work = element_types.i32 if result_types == {element_types.i32} else element_types.i64
    bounds = [scalar(ctx, ctx.cast(bound, work)) for bound in (start, stop, step)]
    return ctx.emit("Range", *bounds)


@ir_op(CumSum3)
def cum_sum(ctx: Context, op: CumSum3, x: Value, axis: Value) -> Value:
    """CumSum"""
    at = scalar(ctx, axis if axis.element_type in (element_types.i32, element_types.i64) else _int64(ctx, axis))
    return ctx.emit("CumSum", x, at, exclusive=int(op.exclusive) or None, reverse=int(op.reverse) or None)


def _int64(ctx: Context, value: Value) -> Value:
    return ctx.cast(value, element_types.i64)


@ir_op(Eye9)
def eye(ctx: Context, op: Eye9, rows: Value, columns: Value, diagonal: Value, batch: Value | None = None) -> Value:
    """Equal of the column's number and the row's plus the diagonal, and Expand to the batch"""
    zero, step_one = ctx.constant(0), ctx.constant(1)
    counts = [reshape(ctx, _int64(ctx, count), []) for count in (rows, columns)]
    down, across = (ctx.emit("Range", zero, count, step_one) for count in counts)
    shifted = ctx.emit("Add", down, reshape(ctx, _int64(ctx, diagonal), [1]))
    eye_matrix = ctx.cast(ctx.emit("Equal", ctx.emit("Unsqueeze", shifted, ctx.constant([1])), across), op.output_type)
    if batch is None or known_list(ctx, batch) == []:
        return eye_matrix
    return ctx.emit("Expand", eye_matrix, concat(ctx, [int64_list(ctx, batch), ctx.emit("Shape", eye_matrix)], 0))
