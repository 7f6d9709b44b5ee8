"""What attention is put together from: heads split and merged, masks cut and joined.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.context import Context
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise, indexing, movement, slicing


def add(ctx: Context, a: Output, b: Output | None) -> Output:
    return a if b is None else ctx.emit(elementwise.Add1(), a, b)


def multiply(ctx: Context, a: Output, b: Output) -> Output:
    return ctx.emit(elementwise.Multiply1(), a, b)


def subtract(ctx: Context, a: Output, b: Output) -> Output:
    return ctx.emit(elementwise.Subtract1(), a, b)


def reshape(ctx: Context, x: Output, shape: Sequence[int]) -> Output:
    """0 keeps an extent."""
    return ctx.emit(movement.Reshape1(special_zero=True), x, ctx.constant(list(shape)))


def unsqueeze(ctx: Context, x: Output, *axes: int) -> Output:
    return ctx.emit(movement.Unsqueeze1(), x, ctx.constant(list(axes)))


def take(ctx: Context, x: Output, index: int, axis: int) -> Output:
    return ctx.emit(indexing.Gather8(), x, ctx.constant(index), ctx.constant(axis))


def cut(ctx: Context, x: Output, start: int, stop: int | None, axis: int, step: int = 1) -> Output:
    end = np.iinfo(np.int64).max if stop is None else stop
    return ctx.emit(slicing.Slice8(), x, *(ctx.constant([value]) for value in (start, end, step, axis)))


def concat(ctx: Context, axis: int, *parts: Output) -> Output:
    return ctx.emit(movement.Concat1(axis=axis), *parts)


def swap(ctx: Context, x: Output) -> Output:
    """``[b, s, n, h]`` as ``[b, n, s, h]``, and back."""
    return ctx.emit(movement.Transpose1(), x, ctx.constant([0, 2, 1, 3]))


def split_heads(ctx: Context, x: Output, count: int, name: str) -> Output:
    """``[b, s, n h]`` as ``[b, n, s, h]``."""
    if ctx.rank(x, name) != 3:
        raise ctx.invalid(f"{name} must have 3 dimensions, but has the shape {x.shape}")
    width = x.shape[2]
    if count < 1 or (width.is_static and width.value % count):
        raise ctx.invalid(f"{name} of the shape {x.shape} cannot be split into {count} heads")
    # -1 would be ambiguous where there is nothing to split.
    return swap(ctx, reshape(ctx, x, [0, 0, count, width.value // count if width.is_static else -1]))


def merge_heads(ctx: Context, x: Output) -> Output:
    """``[b, n, s, h]`` as ``[b, s, n h]``."""
    return reshape(ctx, swap(ctx, x), [0, 0, -1])


def repeat_heads(ctx: Context, x: Output, heads: int, group: int) -> Output:
    """Each head of ``[b, n, t, h]`` as often as there are queries for it."""
    if group == 1:
        return x
    return ctx.emit(indexing.Gather8(), x, ctx.constant(np.repeat(np.arange(heads), group)), ctx.constant(1))
