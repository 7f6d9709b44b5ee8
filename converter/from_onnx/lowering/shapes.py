"""Lists and axes as ONNX's operators take them: held against the schema, of the declared length; axes moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

import numpy as np

from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output
from ir_runtime.operations import movement, scatter
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import as_list, of_length, others, shape_of


@overload
def given_list(ctx: Context, value: Output, subject: str) -> Output: ...


@overload
def given_list(ctx: Context, value: Output | None, subject: str) -> Output | None: ...


def given_list(ctx: Context, value: Output | None, subject: str) -> Output | None:
    """Return ``value`` as a list: a scalar is a list of that number, which the schema does not allow."""
    if value is None or not value.shape.has_rank or value.shape.rank == 1:
        return value
    if value.shape.rank:
        raise ctx.invalid(f"{subject} must be a list, but has the shape {value.shape}")
    ctx.tolerate(f"{subject} must be a list, but is a scalar")
    return as_list(ctx, value)


def each_axis_once(ctx: Context, axes: Output, data: Output) -> Output:
    """Constant axes of ``data`` without those that name a dimension again: that adds nothing, as in onnxruntime."""
    constant = axes.type.constant
    if constant is None or not data.shape.has_rank:
        return axes
    rank = data.shape.rank
    once = {axis % rank if rank and -rank <= axis < rank else axis: axis for axis in reversed(constant.tolist())}
    if len(once) == constant.size:
        return axes
    ctx.tolerate(f"the axes {constant.tolist()} name a dimension twice")
    return ctx.constant(np.array([*once.values()][::-1], constant.dtype))


def of_declared_length(ctx: Context, values: Output) -> Output:
    """A list, of the length that the file declares: another length is refused.

    For lists whose length decides which layers are needed, as that of axes does.
    """
    length = ctx.declared(values).shape.element_count()
    if values.shape.element_count().is_static or not length.is_static:
        return values
    return of_length(ctx, values, length.value)


def as_scalar(ctx: Context, value: Output, subject: str) -> Output:
    """A tensor of one element, as a scalar."""
    if value.shape.has_rank and value.shape.rank == 0:
        return value
    if not value.shape.element_count().contains(1):
        raise ctx.invalid(f"{subject} must be a single number, but has the shape {value.shape}")
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([]))


def drop_dimensions(ctx: Context, data: Output, axes: Output) -> Output:
    """``data`` without the dimensions ``axes`` of run time; the rank stays known if it can."""
    axes = of_declared_length(ctx, axes)
    count = axes.shape.element_count()
    if not data.shape.has_rank or not count.is_static or count.value > data.shape.rank:
        return layers.squeeze(ctx, data, axes)
    left = others(ctx, axes, data.shape.rank, count.value)
    shape = layers.gather(ctx, shape_of(ctx, data), left, ctx.constant(0))
    return ctx.emit(movement.Reshape1(special_zero=False), data, shape)


def insert_dimensions(ctx: Context, data: Output, axes: Output) -> Output:
    """``data`` with dimensions of 1 inserted at ``axes`` of run time; the rank stays known if it can."""
    axes = of_declared_length(ctx, axes)
    count = axes.shape.element_count()
    if not data.shape.has_rank or not count.is_static:
        return ctx.emit(movement.Unsqueeze1(), data, axes)
    rank = data.shape.rank + count.value
    # Each place that is not inserted takes the next dimension of the data.
    left = others(ctx, axes, rank, count.value)
    ones = ctx.constant(np.ones(rank, np.int64))
    if not data.shape.rank:
        return ctx.emit(movement.Reshape1(special_zero=False), data, ones)
    shape = ctx.emit(scatter.ScatterUpdate3(), ones, left, shape_of(ctx, data), ctx.constant(0))
    return ctx.emit(movement.Reshape1(special_zero=False), data, shape)


def known_axes(ctx: Context, axes: Output | None, subject: str = "axes") -> list[int] | None:
    """The values of a list of axes; None where it is left out. Unsupported where they are computed."""
    axes = given_list(ctx, axes, subject)
    return None if axes is None else [int(axis) for axis in ctx.known(axes, subject).reshape(-1)]


def move_axis(ctx: Context, x: Output, source: int, target: int) -> Output:
    """Move the axis ``source`` of a tensor to ``target``; the others keep their order."""
    rank = ctx.rank(x, "the data")
    order = list(range(rank))
    order.insert(target % rank, order.pop(source % rank))
    return layers.transpose(ctx, x, ctx.constant(order))


def channels_first(ctx: Context, x: Output, translate: Callable[[Output], Output]) -> Output:
    """Apply ``translate``, which maps ``[n, c, ...]`` to the same layout, to ``[n, ..., c]``, and keep that layout."""
    return move_axis(ctx, translate(move_axis(ctx, x, -1, 1)), 1, -1)
