"""Order: the greatest elements, the different ones, and places among sorted ones."""

from __future__ import annotations

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import int64_list, known_list, reshape, unsqueeze
from converter.to_onnx.registry import ir_op
from ir_runtime.graph import element_types
from ir_runtime.operations.sorting import Bucketize3, SearchSorted15, TopK1, TopK3, TopK11, Unique10


@ir_op(TopK1, TopK3, TopK11)
def top_k(ctx: Context, op: TopK11, x: Value, k: Value) -> list[Value]:
    """TopK; sorted by index with a second TopK of the indices"""
    count = reshape(ctx, int64_list(ctx, k), [1])
    kinds = [x.element_type, element_types.i64]
    best, places = ctx.emit_many(
        "TopK", x, count, count=2, types=kinds, axis=op.axis, largest=int(op.mode == "max"), sorted=1
    )
    if op.sort == "index":
        both = [element_types.i64, element_types.i64]
        places = ctx.emit_many("TopK", places, count, count=2, types=both, axis=op.axis, largest=0, sorted=1)[0]
        best = ctx.emit("GatherElements", x, places, axis=op.axis)
    return [best, ctx.cast(places, op.index_element_type)]


@ir_op(Unique10)
def unique(ctx: Context, op: Unique10, x: Value, axis: Value | None = None) -> list[Value]:
    """Unique"""
    at = None
    if axis is not None:
        known = known_list(ctx, axis)
        if known is None:
            ctx.fail("the axis must be known")
        at = known[0]
    kinds = [x.element_type, *[element_types.i64] * 3]
    values, first, inverse, counts = ctx.emit_many("Unique", x, count=4, types=kinds, axis=at, sorted=int(op.sorted))
    return [
        values,
        ctx.cast(first, op.index_element_type),
        ctx.cast(inverse, op.index_element_type),
        ctx.cast(counts, op.count_element_type),
    ]


def _places(ctx: Context, ordered: Value, values: Value, right: bool) -> Value:
    """The number of the sorted numbers that are less than each value, or at most equal to it."""
    below = ctx.emit("LessOrEqual" if right else "Less", ordered, unsqueeze(ctx, values, [-1]))
    return ctx.emit("ReduceSum", ctx.cast(below, element_types.i64), ctx.constant([-1]), keepdims=0)


@ir_op(SearchSorted15, local_function=True)
def search_sorted(ctx: Context, op: SearchSorted15, ordered: Value, values: Value) -> Value:
    """ReduceSum of Less: how many of the sorted numbers come before each value"""
    if not ordered.shape.has_rank:
        ctx.fail("the rank of the sorted numbers must be known")
    if ordered.shape.rank > 1:
        ordered = unsqueeze(ctx, ordered, [-2])
    return ctx.cast(_places(ctx, ordered, values, op.right_mode), op.output_type)


@ir_op(Bucketize3, local_function=True)
def bucketize(ctx: Context, op: Bucketize3, values: Value, boundaries: Value) -> Value:
    """ReduceSum of Less: how many boundaries come before each value"""
    if values.element_type is not boundaries.element_type:
        kind = (
            element_types.f64 if values.element_type.is_real or boundaries.element_type.is_real else element_types.i64
        )
        values, boundaries = ctx.cast(values, kind), ctx.cast(boundaries, kind)
    return ctx.cast(_places(ctx, boundaries, values, not op.with_right_bound), op.output_type)
