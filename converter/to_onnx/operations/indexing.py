"""Elements chosen by indices."""

from __future__ import annotations

from typing import Union

from converter.to_onnx import Context, Value, ir_idiom, ir_op
from converter.to_onnx.compressed_weights import CompressedWeights, compressed_weights
from converter.to_onnx.layers import concat, list_of, rank_of, reshape, scalar, squeeze, transpose, unsqueeze
from converter.to_onnx.operator_rows import writes
from converter.to_onnx.undone import before_wrap, pair_of
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import indexing as ir
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.movement import Squeeze1
from ir_runtime.operations.sorting import TopK11

_Gather = Union[ir.Gather1, ir.Gather7, ir.Gather8]


@ir_op(ir.Gather1, ir.Gather7, ir.Gather8)
def gather(ctx: Context, op: _Gather, x: Value, indices: Value, axis: Value) -> Value:
    """Gather; GatherND within shared first dimensions"""
    at = list_of(ctx, axis, "the axis")
    batch = getattr(op, "batch_dims", 0)
    if batch:
        batch = batch % rank_of(ctx, indices, "the indices")
    if not batch:
        weights = compressed_weights(ctx.node.inputs[0])
        if weights is not None and weights.is_by_row and weights.codes.element_type.bits == 8 and at[0] in (0, -2):
            return _looked_up(ctx, weights, indices)
        return ctx.emit("Gather", x, indices, axis=at[0])
    rank, count = rank_of(ctx, x, "the data"), rank_of(ctx, indices, "the indices")
    place = at[0] % rank
    # The axis comes directly behind the shared dimensions, and what stood between them behind the indices.
    moved = transpose(ctx, x, [*range(batch), place, *[i for i in range(batch, rank) if i != place]])
    places = unsqueeze(ctx, ctx.cast(indices, element_types.i64), [-1])
    gathered = ctx.emit("GatherND", moved, places, batch_dims=batch)
    between = list(range(count, count + place - batch))
    return transpose(
        ctx,
        gathered,
        [*range(batch), *between, *range(batch, count), *range(count + place - batch, rank + count - 1 - batch)],
    )


def _looked_up(ctx: Context, weights: CompressedWeights, indices: Value) -> Value:
    """Rows of a table of codes, of which only those that are looked up become floats."""
    element_type = weights.element_type
    rows = ctx.cast(ctx.emit("Gather", ctx.initializer(weights.codes), indices, axis=0), element_type)
    if weights.zero is not None:
        points = ctx.constant(weights.zero, weights.codes.element_type)
        rows = ctx.emit("Sub", rows, ctx.cast(ctx.emit("Gather", points, indices, axis=0), element_type))
    scales = ctx.emit("Gather", ctx.initializer(weights.scale), indices, axis=0)
    return ctx.emit("Mul", rows, ctx.cast(scales, element_type))


writes("GatherElements", ir.GatherElements6, axis="axis")


@ir_op(ir.GatherND8)
def gather_nd(ctx: Context, op: ir.GatherND8, x: Value, indices: Value) -> Value:
    """GatherND"""
    return ctx.emit("GatherND", x, ctx.cast(indices, element_types.i64), batch_dims=op.batch_dims)


@ir_op(ir.GatherND5)
def gather_nd_5(ctx: Context, op: ir.GatherND5, x: Value, indices: Value) -> Value:
    """GatherND, with the batch dimensions of the output as one"""
    gathered = ctx.emit("GatherND", x, ctx.cast(indices, element_types.i64), batch_dims=op.batch_dims)
    if op.batch_dims < 2:
        return gathered
    tail = ctx.emit("Slice", ctx.emit("Shape", gathered), ctx.constant([op.batch_dims]), ctx.constant([1 << 30]))
    return ctx.emit("Reshape", gathered, concat(ctx, [ctx.constant([-1]), tail], 0))


@ir_idiom(ir.OneHot1)
def hardmax(ctx: Context, op: ir.OneHot1) -> Value | None:
    """Hardmax, where the index is that of the first greatest element and the depth the dimension that it is of"""
    index, depth, on, off = ctx.node.inputs
    best = index.node.inputs[0] if isinstance(index.node.op, Squeeze1) else index
    top_k = best.node.op
    if not isinstance(top_k, TopK11) or best.index != 1 or index is best:
        return None
    x, count = best.node.inputs
    values = [value.type.constant for value in (count, on, off)]
    if not x.shape.has_rank or any(value is None for value in values) or on.element_type is not x.element_type:
        return None
    axis = top_k.axis % x.shape.rank
    is_first = top_k.mode == "max" and top_k.stable and [float(value.reshape(-1)[0]) for value in values] == [1, 1, 0]  # type: ignore[union-attr]
    is_along = op.axis % x.shape.rank == axis and index.shape.has_rank and index.shape.rank == x.shape.rank - 1
    return (
        ctx.emit("Hardmax", ctx.value(x), axis=axis) if is_first and is_along and _is_length(depth, x, axis) else None
    )


def _is_length(value: Output, x: Output, axis: int) -> bool:
    """True if a value is the dimension of ``x`` along the axis."""
    constant = value.type.constant
    if constant is not None:
        return x.shape[axis].is_static and int(constant.reshape(-1)[0]) == x.shape[axis].value
    if not isinstance(value.node.op, ir.Gather):
        return False
    shape, position = value.node.inputs[0].node, value.node.inputs[1].type.constant
    return (
        isinstance(shape.op, ShapeOf)
        and shape.inputs[0] is x
        and position is not None
        and int(position.reshape(-1)[0]) % x.shape.rank == axis
    )


@ir_op(ir.OneHot1, ir.OneHot16)
def one_hot(ctx: Context, op: ir.OneHot1 | ir.OneHot16, indices: Value, depth: Value, on: Value, off: Value) -> Value:
    """OneHot; negative indices, which count from the end there, are put out of range"""
    ignores_negative = getattr(op, "negative_indices_mode", "ignore_negative") == "ignore_negative"
    before = before_wrap(*ctx.node.inputs[:2]) if ignores_negative else None
    indices = ctx.cast(indices if before is None else ctx.value(before), element_types.i64)
    depth = scalar(ctx, ctx.cast(depth, element_types.i64))
    bounds = indices.type.known_bounds
    may_be_negative = bounds is None or bool((bounds.lower < 0).any())
    if may_be_negative and ignores_negative and before is None:
        indices = ctx.emit("Where", ctx.emit("Less", indices, ctx.constant(0)), depth, indices)
    pair = pair_of(ctx.node.inputs[3], ctx.node.inputs[2])
    values = concat(ctx, [reshape(ctx, off, [1]), reshape(ctx, on, [1])], 0) if pair is None else ctx.value(pair)
    if ctx.node.inputs[0].shape.has_rank and ctx.node.inputs[0].shape.rank == 0:  # onnx's inference takes no scalars
        return squeeze(ctx, ctx.emit("OneHot", unsqueeze(ctx, indices, [0]), depth, values, axis=-1), [0])
    return ctx.emit("OneHot", indices, depth, values, axis=op.axis)


@ir_op(ir.NonZero3)
def non_zero(ctx: Context, op: ir.NonZero3, x: Value) -> Value:
    """NonZero; of a scalar as a list"""
    if rank_of(ctx, x, "the data") == 0:
        x = unsqueeze(ctx, x, [0])
    return ctx.cast(ctx.emit("NonZero", x), op.output_type)
