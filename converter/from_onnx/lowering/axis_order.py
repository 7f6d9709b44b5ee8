"""The order of a tensor's axes: moving an axis, and layers that have the channels first."""

from __future__ import annotations

from collections.abc import Callable

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output
from ir_runtime.rewriting import layers


def move_axis(ctx: Context, x: Output, source: int, target: int) -> Output:
    """Move the axis ``source`` of a tensor to ``target``; the others keep their order."""
    rank = ctx.rank(x, "the data")
    order = list(range(rank))
    order.insert(target % rank, order.pop(source % rank))
    return layers.transpose(ctx, x, ctx.constant(order))


def channels_first(ctx: Context, x: Output, translate: Callable[[Output], Output]) -> Output:
    """Apply ``translate``, which maps ``[n, c, ...]`` to the same layout, to ``[n, ..., c]``, and keep that layout."""
    return move_axis(ctx, translate(move_axis(ctx, x, -1, 1)), 1, -1)
