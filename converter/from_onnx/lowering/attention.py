"""Heads of attention, split and merged, and the masks of its scores.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
A mask is numbers that are added to the scores before Softmax.
"""

from __future__ import annotations

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import movement
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import reshape, unsqueeze
from ir_runtime.rewriting.shape_layers import concat_lists, dim_of


def swap(ctx: Context, x: Output) -> Output:
    """``[b, s, n, h]`` as ``[b, n, s, h]``, and back."""
    return layers.transpose(ctx, x, ctx.constant([0, 2, 1, 3]))


def split_heads(ctx: Context, x: Output, count: int, name: str) -> Output:
    """``[b, s, n h]`` as ``[b, n, s, h]``."""
    ctx.rank(x, name, 3)
    width = x.shape[2]
    if count < 1 or (width.is_static and width.value % count):
        raise ctx.invalid(f"{name} of the shape {x.shape} cannot be split into {count} heads")
    # -1 would be ambiguous where there is nothing to split.
    return swap(ctx, reshape(ctx, x, [0, 0, count, width.value // count if width.is_static else -1]))


def merge_heads(ctx: Context, x: Output) -> Output:
    """``[b, n, s, h]`` as ``[b, s, n h]``."""
    return reshape(ctx, swap(ctx, x), [0, 0, -1])


def repeat_heads(ctx: Context, x: Output, heads: int, group: int) -> Output:
    """Each head of ``[b, n, t, h]`` as often as there are queries for it.

    Runtimes know these layers as grouped heads, and repeat nothing.
    """
    if group == 1:
        return x
    wide = ctx.emit(movement.Broadcast3(mode="bidirectional"), unsqueeze(ctx, x, 2), ctx.constant([1, 1, group, 1, 1]))
    size = x.shape[3]
    if size.is_static and size.value:
        return reshape(ctx, wide, [0, heads * group, -1, size.value])
    sizes = [ctx.constant([0, heads * group]), dim_of(ctx, x, 2), dim_of(ctx, x, 3)]
    return ctx.emit(movement.Reshape1(special_zero=True), wide, concat_lists(ctx, sizes))


_LOWEST = {element_types.f16: -65504.0}
_LOWEST_OF_OTHERS = -3.3e38


def mask_of(ctx: Context, allowed: Output, like: Output, value: float | None = None) -> Output:
    """0 where ``allowed``, elsewhere ``value`` or the lowest finite number, in the type of ``like``."""
    hidden = lowest(like) if value is None else value
    return layers.select(ctx, allowed, ctx.like(0, like), ctx.like(hidden, like))


def lowest(like: Output) -> float:
    """The lowest finite number of a type, or about that."""
    return _LOWEST.get(like.element_type, _LOWEST_OF_OTHERS)
