"""Sparse matrices."""

from __future__ import annotations

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reshape, slice_along, squeeze, transpose
from converter.to_onnx.registry import ir_op
from converter.to_onnx.segments import segment_sizes
from converter.to_onnx.sizes import size_from
from ir_runtime.graph import element_types
from ir_runtime.operations.sparse import SparseFillEmptyRows16


@ir_op(SparseFillEmptyRows16, local_function=True)
def sparse_fill_empty_rows(
    ctx: Context, op: SparseFillEmptyRows16, values: Value, sizes: Value, places: Value, default: Value
) -> list[Value]:
    """NonZero of the empty rows, whose places are added, and TopK, which sorts all places"""
    kind = places.element_type
    sizes, places = (ctx.cast(one, element_types.i64) for one in (sizes, places))
    rows, columns = (slice_along(ctx, sizes, 0, place, place + 1) for place in range(2))
    owners = squeeze(ctx, slice_along(ctx, places, 1, 0, 1), [1])
    empty = ctx.emit("Equal", segment_sizes(ctx, owners, size_from(ctx, rows)), ctx.constant(0))
    added = transpose(ctx, ctx.emit("NonZero", empty), [1, 0])
    every = concat(ctx, [places, ctx.emit("Pad", added, ctx.constant([0, 0, 0, 1]))], 0)
    fills = ctx.emit("Expand", reshape(ctx, default, [1]), slice_along(ctx, ctx.emit("Shape", added), 0, 0, 1))
    filled = concat(ctx, [values, fills], 0)
    # The places in the order of rows and columns.
    row, column = (squeeze(ctx, slice_along(ctx, every, 1, place, place + 1), [1]) for place in range(2))
    number = ctx.emit("Add", ctx.emit("Mul", row, columns), column)
    kinds = [element_types.i64, element_types.i64]
    _, order = ctx.emit_many("TopK", number, ctx.emit("Shape", number), count=2, types=kinds, largest=0, sorted=1)
    return [
        ctx.cast(ctx.emit("Gather", every, order, axis=0), kind),
        ctx.emit("Gather", filled, order, axis=0),
        empty,
    ]
