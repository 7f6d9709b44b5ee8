"""Elements chosen by indices, by their order, and the different ones."""

from __future__ import annotations

from typing import Union

from converter.to_onnx import Context, Value, ir_op, layers
from converter.to_onnx.parts_of_lists import pair_of, part_of_shape
from converter.to_onnx.registry import writes
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import indexing as ir
from ir_runtime.operations.elementwise import Add1, Less1, Select1
from ir_runtime.operations.sorting import TopK1, TopK3, TopK11, Unique10
from ir_runtime.rewriting import Match, anything, layer, number

_INDEX = anything("index")
_WRAPPED = layer(Add1, _INDEX, layer(Select1, layer(Less1, _INDEX, number(0)), anything("size"), number(0)))

_Gather = Union[ir.Gather1, ir.Gather7, ir.Gather8]


@ir_op(ir.Gather1, ir.Gather7, ir.Gather8)
def gather(ctx: Context, op: _Gather, x: Value, indices: Value, axis: Value) -> Value:
    """Gather; GatherND within shared first dimensions; Shape of neighbouring dimensions (opset 15)"""
    sizes = part_of_shape(ctx)
    if sizes is not None:
        return sizes
    at = layers.list_of(ctx, axis, "the axis")
    batch = getattr(op, "batch_dims", 0)
    if batch:
        batch = batch % layers.rank_of(ctx, indices, "the indices")
    if not batch:
        return ctx.emit("Gather", x, indices, axis=at[0])
    rank, count = layers.rank_of(ctx, x, "the data"), layers.rank_of(ctx, indices, "the indices")
    index = at[0] % rank
    # The axis comes directly behind the shared dimensions, and what stood between them behind the indices.
    moved = layers.transpose(ctx, x, [*range(batch), index, *[i for i in range(batch, rank) if i != index]])
    places = layers.unsqueeze(ctx, ctx.cast(indices, element_types.i64), [-1])
    gathered = ctx.emit("GatherND", moved, places, batch_dims=batch)
    between = list(range(count, count + index - batch))
    return layers.transpose(
        ctx,
        gathered,
        [*range(batch), *between, *range(batch, count), *range(count + index - batch, rank + count - 1 - batch)],
    )


writes("GatherElements", ir.GatherElements6, axis="axis")


@ir_op(ir.GatherND5, ir.GatherND8)
def gather_nd(ctx: Context, op: ir.GatherND5 | ir.GatherND8, x: Value, indices: Value) -> Value:
    """GatherND; of the first revision with the batch dimensions of the output as one"""
    gathered = ctx.emit("GatherND", x, ctx.cast(indices, element_types.i64), batch_dims=op.batch_dims)
    if isinstance(op, ir.GatherND8) or op.batch_dims < 2:
        return gathered
    tail = ctx.emit("Slice", ctx.emit("Shape", gathered), ctx.constant([op.batch_dims]), ctx.constant([1 << 30]))
    return ctx.emit("Reshape", gathered, layers.concat(ctx, [ctx.constant([-1]), tail], 0))


def _before_wrap(index: Output, size: Output) -> Output | None:
    """The index that is ``index`` where negative ones count from the end: i + Select(i < 0, size, 0)."""
    match = _WRAPPED.match(index)
    return match["index"] if isinstance(match, Match) and match["size"] is size else None


@ir_op(ir.OneHot1, ir.OneHot16)
def one_hot(ctx: Context, op: ir.OneHot1 | ir.OneHot16, indices: Value, depth: Value, on: Value, off: Value) -> Value:
    """OneHot; negative indices, which count from the end there, are put out of range"""
    ignores_negative = getattr(op, "negative_indices_mode", "ignore_negative") == "ignore_negative"
    before = _before_wrap(*ctx.node.inputs[:2]) if ignores_negative else None
    indices = ctx.cast(indices if before is None else ctx.value(before), element_types.i64)
    depth = layers.scalar(ctx, ctx.cast(depth, element_types.i64))
    bounds = indices.type.known_bounds
    may_be_negative = bounds is None or bool((bounds.lower < 0).any())
    if may_be_negative and ignores_negative and before is None:
        indices = ctx.emit("Where", ctx.emit("Less", indices, ctx.constant(0)), depth, indices)
    pair = pair_of(ctx.node.inputs[3], ctx.node.inputs[2])
    values = (
        layers.concat(ctx, [layers.reshape(ctx, off, [1]), layers.reshape(ctx, on, [1])], 0)
        if pair is None
        else ctx.value(pair)
    )
    if ctx.node.inputs[0].shape.has_rank and ctx.node.inputs[0].shape.rank == 0:  # onnx's inference takes no scalars
        return layers.squeeze(ctx, ctx.emit("OneHot", layers.unsqueeze(ctx, indices, [0]), depth, values, axis=-1), [0])
    return ctx.emit("OneHot", indices, depth, values, axis=op.axis)


@ir_op(ir.NonZero3)
def non_zero(ctx: Context, op: ir.NonZero3, x: Value) -> Value:
    """NonZero; of a scalar as a list"""
    if layers.rank_of(ctx, x, "the data") == 0:
        x = layers.unsqueeze(ctx, x, [0])
    return ctx.emit("NonZero", x)


@ir_op(TopK1, TopK3, TopK11)
def top_k(ctx: Context, op: TopK11, x: Value, k: Value) -> list[Value]:
    """TopK; sorted by index with a second TopK of the indices; ArgMax or ArgMin where the first index alone is read"""
    uses = [output.is_used for output in ctx.node.outputs]  # nothing is used of a layer that is in no model yet
    if layers.known_list(ctx, k) == [1] and uses == [False, True]:
        return [x, ctx.emit("ArgMax" if op.mode == "max" else "ArgMin", x, axis=op.axis, keepdims=1)]
    count = layers.reshape(ctx, layers.int64_list(ctx, k), [1])
    largest = int(op.mode == "max")
    best, indices = ctx.emit_many("TopK", x, count, count=2, axis=op.axis, largest=largest, sorted=1)
    if op.sort == "index":
        indices = ctx.emit_many("TopK", indices, count, count=2, axis=op.axis, largest=0, sorted=1)[0]
        best = ctx.emit("GatherElements", x, indices, axis=op.axis)
    return [best, indices]


@ir_op(Unique10)
def unique(ctx: Context, op: Unique10, x: Value, axis: Value | None = None) -> list[Value]:
    """Unique"""
    at = None if axis is None else layers.list_of(ctx, axis, "the axis")[0]
    return ctx.emit_many("Unique", x, count=4, axis=at, sorted=int(op.sorted))
