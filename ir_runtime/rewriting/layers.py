"""The most frequent layers, a function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ir_runtime.graph import ElementType, Operation, Output
from ir_runtime.operations import elementwise, indexing, movement, slicing
from ir_runtime.rewriting.builder import Builder

Layer = Callable[..., Output]


def _layer(op: Callable[[], Operation]) -> Layer:
    """A function that emits a layer without attributes of its own."""

    def emit(ctx: Builder, *inputs: Output) -> Output:
        return ctx.emit(op(), *inputs)

    return emit


divide = _layer(elementwise.Divide1)
maximum = _layer(elementwise.Maximum1)
minimum = _layer(elementwise.Minimum1)
equal = _layer(elementwise.Equal1)
not_equal = _layer(elementwise.NotEqual1)
less = _layer(elementwise.Less1)
less_equal = _layer(elementwise.LessEqual1)
greater = _layer(elementwise.Greater1)
greater_equal = _layer(elementwise.GreaterEqual1)
logical_and = _layer(elementwise.LogicalAnd1)
logical_or = _layer(elementwise.LogicalOr1)
logical_not = _layer(elementwise.LogicalNot1)
select = _layer(elementwise.Select1)
negative = _layer(elementwise.Negative1)
absolute = _layer(elementwise.Abs1)
exponential = _layer(elementwise.Exp1)
square_root = _layer(elementwise.Sqrt1)
power = _layer(elementwise.Power1)
squeeze = _layer(movement.Squeeze1)
transpose = _layer(movement.Transpose1)
gather = _layer(indexing.Gather8)


def in_type(ctx: Builder, value: Output, element_type: ElementType) -> Output:
    """``value`` in another element type; itself where it already has it."""
    return (
        value
        if value.element_type is element_type
        else ctx.emit(elementwise.Convert1(destination_type=element_type), value)
    )


def add(ctx: Builder, a: Output, b: Output | None) -> Output:
    return a if b is None else ctx.emit(elementwise.Add1(), a, b)


def multiply(ctx: Builder, a: Output, b: Output) -> Output:
    return ctx.emit(elementwise.Multiply1(), a, b)


def subtract(ctx: Builder, a: Output, b: Output) -> Output:
    return ctx.emit(elementwise.Subtract1(), a, b)


def reshape(ctx: Builder, x: Output, shape: Sequence[int]) -> Output:
    """0 keeps a dimension."""
    return ctx.emit(movement.Reshape1(special_zero=True), x, ctx.constant(list(shape)))


def unsqueeze(ctx: Builder, x: Output, *axes: int) -> Output:
    return ctx.emit(movement.Unsqueeze1(), x, ctx.constant(list(axes)))


def truncated_quotient(ctx: Builder, a: Output, b: Output) -> Output:
    """Of integers, rounded towards zero."""
    return ctx.emit(elementwise.Divide1(m_pythondiv=False), a, b)


def take(ctx: Builder, x: Output, index: int, axis: int) -> Output:
    return ctx.emit(indexing.Gather8(), x, ctx.constant(index), ctx.constant(axis))


def cut(ctx: Builder, x: Output, start: int, stop: int | None, axis: int, step: int = 1) -> Output:
    end = np.iinfo(np.int64).max if stop is None else stop
    return ctx.emit(slicing.Slice8(), x, *(ctx.constant([value]) for value in (start, end, step, axis)))


def concat(ctx: Builder, axis: int, *parts: Output) -> Output:
    return ctx.emit(movement.Concat1(axis=axis), *parts)
