"""Order: the greatest elements, the different ones, and places among sorted ones."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import int64_list, known_list, list_of, reshape
from ir_runtime.graph import element_types
from ir_runtime.operations.sorting import TopK1, TopK3, TopK11, Unique10


@ir_op(TopK1, TopK3, TopK11)
def top_k(ctx: Context, op: TopK11, x: Value, k: Value) -> list[Value]:
    """TopK; sorted by index with a second TopK of the indices; ArgMax or ArgMin where the first index alone is read"""
    uses = [output.is_used for output in ctx.node.outputs]  # nothing is used of a layer that is in no model yet
    if known_list(ctx, k) == [1] and uses == [False, True]:
        first = ctx.emit("ArgMax" if op.mode == "max" else "ArgMin", x, axis=op.axis, keepdims=1)
        return [x, ctx.cast(first, op.index_element_type)]
    count = reshape(ctx, int64_list(ctx, k), [1])
    result_types = [x.element_type, element_types.i64]
    best, indices = ctx.emit_many(
        "TopK", x, count, count=2, types=result_types, axis=op.axis, largest=int(op.mode == "max"), sorted=1
    )
    if op.sort == "index":
        both = [element_types.i64, element_types.i64]
        indices = ctx.emit_many("TopK", indices, count, count=2, types=both, axis=op.axis, largest=0, sorted=1)[0]
        best = ctx.emit("GatherElements", x, indices, axis=op.axis)
    return [best, ctx.cast(indices, op.index_element_type)]


@ir_op(Unique10)
def unique(ctx: Context, op: Unique10, x: Value, axis: Value | None = None) -> list[Value]:
    """Unique"""
    at = None
    if axis is not None:
        numbers = list_of(ctx, axis, "the axis")
        at = numbers[0]
    result_types = [x.element_type, *[element_types.i64] * 3]
    values, first, inverse, counts = ctx.emit_many(
        "Unique", x, count=4, types=result_types, axis=at, sorted=int(op.sorted)
    )
    return [
        values,
        ctx.cast(first, op.index_element_type),
        ctx.cast(inverse, op.index_element_type),
        ctx.cast(counts, op.count_element_type),
    ]
