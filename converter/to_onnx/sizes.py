"""Arithmetic with dimensions: numbers where they are known, else lists of one int64 that are computed at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from .context import Context
from .graph import Value
from .layers import concat, dimension, int64_list, known_list, reshape

Size = Union[int, Value]
"""A number, or a list of one int64."""


def size_of(ctx: Context, x: Value, axis: int) -> Size:
    """One dimension of a tensor."""
    if x.shape.has_rank and x.shape[axis].is_static:
        return x.shape[axis].value
    return dimension(ctx, x, axis)


def size_from(ctx: Context, value: Value) -> Size:
    """The whole number that a tensor of one element holds."""
    numbers = known_list(ctx, value)
    if numbers is not None:
        return numbers[0]
    return reshape(ctx, int64_list(ctx, value), [1])


def as_list(ctx: Context, size: Size) -> Value:
    """A size as a list of one int64."""
    return size if isinstance(size, Value) else ctx.constant([size])


def as_scalar(ctx: Context, size: Size) -> Value:
    """A size as an int64 without dimensions."""
    return reshape(ctx, size, []) if isinstance(size, Value) else ctx.constant(size)


def shape_list(ctx: Context, sizes: Sequence[Size]) -> Value:
    """Sizes as one list of int64."""
    if all(isinstance(size, int) for size in sizes):
        return ctx.constant(list(sizes))
    return concat(ctx, [as_list(ctx, size) for size in sizes], 0)


def subtract(ctx: Context, a: Size, b: Size) -> Size:
    """The difference."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else ctx.emit("Sub", as_list(ctx, a), as_list(ctx, b))


def multiply(ctx: Context, a: Size, b: Size) -> Size:
    """The product."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 1 in (a, b):
        return b if a == 1 else a
    return ctx.emit("Mul", as_list(ctx, a), as_list(ctx, b))


def divide(ctx: Context, a: Size, b: Size) -> Size:
    """The quotient of numbers that are not negative, rounded down."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a if b == 1 else ctx.emit("Div", as_list(ctx, a), as_list(ctx, b))


def positions(ctx: Context, count: Size) -> Value:
    """The numbers from 0 up to a count."""
    if isinstance(count, int):
        return ctx.constant(list(range(count)))
    return ctx.emit("Range", ctx.constant(0), as_scalar(ctx, count), ctx.constant(1))
