"""The most frequent layers, each in one word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.translation.context import Context
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise, indexing, movement, slicing


def in_type(ctx: Context, value: Output, kind: ElementType) -> Output:
    """``value`` in another element type; itself where it already has it."""
    return value if value.element_type is kind else ctx.emit(elementwise.Convert1(destination_type=kind), value)


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
