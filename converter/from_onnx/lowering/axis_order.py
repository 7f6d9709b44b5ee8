"""The order of a tensor's axes: one of them moved, or the channels first for layers that have them there."""

from __future__ import annotations

from collections.abc import Callable

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output
from ir_runtime.rewriting import layers


def move_axis(ctx: Context, x: Output, source: int, target: int) -> Output:
    """The tensor with its axis ``source`` moved to ``target``; the others keep their order."""
    rank = ctx.rank(x, "the data")
    order = list(range(rank))
    order.insert(target % rank, order.pop(source % rank))
    return layers.transpose(ctx, x, ctx.constant(order))


def channels_first(ctx: Context, x: Output, translate: Callable[[Output], Output]) -> Output:
    """Apply ``translate``, which takes and gives ``[n, c, ...]``, to a tensor ``[n, ..., c]``; so is the result."""
    return move_axis(ctx, translate(move_axis(ctx, x, -1, 1)), 1, -1)
