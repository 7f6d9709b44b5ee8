"""Order: the greatest elements, the different ones, and places among sorted ones."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import int64_list, known_list, list_of, reshape
from ir_runtime.operations.sorting import TopK1, TopK3, TopK11, Unique10


@ir_op(TopK1, TopK3, TopK11)
def top_k(ctx: Context, op: TopK11, x: Value, k: Value) -> list[Value]:
    """TopK; sorted by index with a second TopK of the indices; ArgMax or ArgMin where the first index alone is read"""
    uses = [output.is_used for output in ctx.node.outputs]  # nothing is used of a layer that is in no model yet
    if known_list(ctx, k) == [1] and uses == [False, True]:
        return [x, ctx.emit("ArgMax" if op.mode == "max" else "ArgMin", x, axis=op.axis, keepdims=1)]
    count = reshape(ctx, int64_list(ctx, k), [1])
    largest = int(op.mode == "max")
    best, indices = ctx.emit_many("TopK", x, count, count=2, axis=op.axis, largest=largest, sorted=1)
    if op.sort == "index":
        indices = ctx.emit_many("TopK", indices, count, count=2, axis=op.axis, largest=0, sorted=1)[0]
        best = ctx.emit("GatherElements", x, indices, axis=op.axis)
    return [best, indices]


@ir_op(Unique10)
def unique(ctx: Context, op: Unique10, x: Value, axis: Value | None = None) -> list[Value]:
    """Unique"""
    at = None if axis is None else list_of(ctx, axis, "the axis")[0]
    return ctx.emit_many("Unique", x, count=4, axis=at, sorted=int(op.sorted))
