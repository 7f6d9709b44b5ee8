"""The last layers of YOLO networks."""

from __future__ import annotations

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, rank_of, reshape_to, transpose
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import divide, multiply, sizes_of
from ir_runtime.operations.yolo import RegionYolo1, ReorgYolo2

_MAX = 1 << 62


@ir_op(RegionYolo1, local_function=True)
def region_yolo(ctx: Context, op: RegionYolo1, x: Value) -> Value:
    """Sigmoid of places and scores, and Sigmoid or Softmax of the classes, in a Reshape by regions"""
    batch, channels, height, width = sizes_of(ctx, x)
    parts = reshape_to(ctx, x, [batch, op.regions(), op.coords + 1 + op.classes, height, width])

    def between(first: int, last: int) -> Value:
        return ctx.emit("Slice", parts, ctx.constant([first]), ctx.constant([last]), ctx.constant([2]))

    places = min(2, op.coords)
    pieces = [ctx.emit("Sigmoid", between(0, places))] if places else []
    if op.coords > places:
        pieces.append(between(places, op.coords))
    if op.do_softmax:
        pieces.append(ctx.emit("Sigmoid", between(op.coords, op.coords + 1)))
        pieces.append(ctx.emit("Softmax", between(op.coords + 1, _MAX), axis=2))
    else:
        pieces.append(ctx.emit("Sigmoid", between(op.coords, _MAX)))
    made = concat(ctx, pieces, 2)
    if not op.do_softmax:
        return reshape_to(ctx, made, [batch, channels, height, width])
    first, last = op.axis % 4, op.end_axis % 4
    sizes = [batch, channels, height, width]
    return reshape_to(ctx, made, [*sizes[:first], ctx.constant([-1]), *sizes[last + 1 :]])


@ir_op(ReorgYolo2, local_function=True)
def reorg_yolo(ctx: Context, op: ReorgYolo2, x: Value) -> Value:
    """Reshape, Transpose and Reshape"""
    rank_of(ctx, x, "the data")
    step = op.stride[0]
    batch, channels, height, width = sizes_of(ctx, x)
    parts = [batch, divide(ctx, channels, step * step), height, step, width, step]
    moved = transpose(ctx, reshape_to(ctx, x, parts), [0, 3, 5, 1, 2, 4])
    sizes = [multiply(ctx, channels, step * step), divide(ctx, height, step), divide(ctx, width, step)]
    return reshape_to(ctx, moved, [batch, *sizes])
