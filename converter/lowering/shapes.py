"""Computing with shapes: extents, lists, axes, dimensions dropped and inserted.

Shapes are i64 lists. Every helper folds to a constant as far as the shape is known, and keeps the
rank of what it makes known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import overload

import numpy as np

from converter.lowering import layers
from converter.translation.context import Context
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Output
from ir_runtime.operations import generation, movement, reduction, scatter, slicing, sorting

from .layers import in_type


def as_i64(ctx: Builder, value: Output) -> Output:
    """``value`` as i64."""
    return in_type(ctx, value, element_types.i64)


def as_list(ctx: Builder, value: Output) -> Output:
    """A scalar or a list, as a list."""
    if value.shape.has_rank and value.shape.rank == 1:
        return value
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([-1]))


@overload
def given_list(ctx: Context, value: Output, what: str) -> Output: ...
@overload
def given_list(ctx: Context, value: Output | None, what: str) -> Output | None: ...
def given_list(ctx: Context, value: Output | None, what: str) -> Output | None:
    """What must be a list, as one: a scalar is a list of that number, which the schema does not allow."""
    if value is None or not value.shape.has_rank or value.shape.rank == 1:
        return value
    if value.shape.rank:
        raise ctx.invalid(f"{what} must be a list, but has the shape {value.shape}")
    ctx.tolerate(f"{what} must be a list, but is a scalar")
    return as_list(ctx, value)


def each_axis_once(ctx: Context, axes: Output, data: Output) -> Output:
    """Constant axes of ``data`` without those that name a dimension again: that adds nothing, as in onnxruntime."""
    known = axes.type.constant
    if known is None or not data.shape.has_rank:
        return axes
    rank = data.shape.rank
    once = {axis % rank if rank and -rank <= axis < rank else axis: axis for axis in reversed(known.tolist())}
    if len(once) == known.size:
        return axes
    ctx.tolerate(f"the axes {known.tolist()} name a dimension twice")
    return ctx.constant(np.array([*once.values()][::-1], known.dtype))


def of_stated_length(ctx: Context, values: Output) -> Output:
    """A list, of the length that the file states: another length is refused.

    For lists whose length decides which layers are needed, as that of axes does.
    """
    length = ctx.stated(values).shape.element_count()
    if values.shape.element_count().is_static or not length.is_static:
        return values
    return of_length(ctx, values, length.value)


def of_length(ctx: Builder, values: Output, length: int) -> Output:
    """A list that is refused if it has another length.

    A split into one part, because OpenVINO's ``reshape`` makes a Reshape to one dimension take any length.
    """
    return ctx.emit(slicing.VariadicSplit1(), values, ctx.constant(0), ctx.constant([length]))


def as_scalar(ctx: Context, value: Output, what: str) -> Output:
    """A tensor of one element, as a scalar."""
    if value.shape.has_rank and value.shape.rank == 0:
        return value
    if not value.shape.element_count().contains(1):
        raise ctx.invalid(f"{what} must be a single number, but has the shape {value.shape}")
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([]))


def shape_of(ctx: Builder, data: Output) -> Output:
    """The shape of ``data``, a list."""
    return ctx.emit(generation.ShapeOf3(output_type=element_types.i64), data)


def dim_of(ctx: Builder, data: Output, axis: int) -> Output:
    """The extent of one dimension, a scalar; ``axis`` may be negative where the rank is not known."""
    return layers.gather(ctx, shape_of(ctx, data), ctx.constant(axis), ctx.constant(0))


def rank_of(ctx: Builder, data: Output) -> Output:
    """The number of dimensions, a scalar."""
    if data.shape.has_rank:
        return ctx.constant(data.shape.rank)
    return layers.squeeze(ctx, shape_of(ctx, shape_of(ctx, data)), ctx.constant([0]))


def of_rank(ctx: Builder, data: Output, rank: int) -> Output:
    """Data whose rank the operator's schema fixes; where it is not known, a layer refuses another one."""
    if data.shape.has_rank:
        return data
    return ctx.emit(movement.Reshape1(special_zero=True), data, ctx.constant([0] * rank))


def concat_lists(ctx: Builder, parts: Sequence[Output]) -> Output:
    """Scalars and lists of i64, one after another in a list."""
    lists = [as_list(ctx, part) for part in parts]
    return lists[0] if len(lists) == 1 else ctx.emit(movement.Concat1(axis=0), *lists)


def part_of(ctx: Builder, values: Output, start: int, stop: int) -> Output:
    """``values[start:stop]`` of a list."""
    return ctx.emit(slicing.Slice8(), values, ctx.constant([start]), ctx.constant([stop]), ctx.constant([1]))


def arange(ctx: Builder, count: Output) -> Output:
    """0, 1, ... ``count`` - 1."""
    return ctx.emit(generation.Range4(output_type=element_types.i64), ctx.constant(0), count, ctx.constant(1))


def extent_list(ctx: Builder, data: Output, *axes: int) -> Output:
    """The extents of some dimensions, a list."""
    return layers.gather(ctx, shape_of(ctx, data), ctx.constant(list(axes)), ctx.constant(0))


def product(ctx: Builder, data: Output, axes: Sequence[int]) -> Output:
    """The product of some extents of ``data`` (of known rank), a list of one number.

    Made of single products, which an engine that reduces in float32 computes exactly, and whose
    bounds are followed.
    """
    known = math.prod(data.shape[axis].value for axis in axes if data.shape[axis].is_static)
    left = [axis for axis in axes if not data.shape[axis].is_static]
    if known == 0 or not left:
        return ctx.constant([known])
    if len(left) == 1:
        factors = [extent_list(ctx, data, left[0])]
    else:
        each = ctx.emit_all(slicing.Split1(num_splits=data.shape.rank), shape_of(ctx, data), ctx.constant(0))
        factors = [each[axis] for axis in left]
    if known != 1:
        factors.append(ctx.constant([known]))
    total = factors[0]
    for factor in factors[1:]:
        total = layers.multiply(ctx, total, factor)
    return total


def element_count(ctx: Builder, data: Output, axes: Output) -> Output:
    """How many elements there are along ``axes``, i64."""
    chosen = layers.gather(ctx, shape_of(ctx, data), axes, ctx.constant(0))
    if chosen.shape.has_rank and chosen.shape.rank == 0:
        return chosen
    return ctx.emit(reduction.ReduceProd1(), chosen, ctx.constant([0]))


def normalized_positions(ctx: Builder, positions: Output, count: Output) -> Output:
    """Positions of which negative ones count from the end of ``count`` elements, all from the front."""
    zero = ctx.constant(0)
    behind = layers.less(ctx, positions, zero)
    return layers.add(ctx, positions, layers.select(ctx, behind, count, zero))


def axes_mask(ctx: Builder, rank: Output, axes: Output) -> Output:
    """For each of ``rank`` dimensions 1 where it is among ``axes``, else 0; i64."""
    column = ctx.emit(movement.Unsqueeze1(), arange(ctx, rank), ctx.constant([1]))
    front = ctx.emit(movement.Unsqueeze1(), normalized_positions(ctx, axes, rank), ctx.constant([0]))
    ones = as_i64(ctx, layers.equal(ctx, column, front))
    return ctx.emit(reduction.ReduceMax1(), ones, ctx.constant([1]))


def others(ctx: Builder, axes: Output, rank: int, count: int) -> Output:
    """The dimensions of ``rank`` that are not among the ``count`` different ``axes``, in order."""
    if count == rank:
        return ctx.constant(np.empty(0, np.int64))
    # Those left out keep the 0; TopK hands them back sorted by index. Axes may count from the end here.
    order = sorting.TopK3(axis=0, mode="min", sort="index", index_element_type=element_types.i64)
    named = scatter.ScatterElementsUpdate12(reduction="none", use_init_val=True)
    none, ones = ctx.constant(np.zeros(rank, np.int64)), ctx.constant(np.ones(count, np.int64))
    member = ctx.emit(named, none, axes, ones, ctx.constant(0))
    return ctx.emit_all(order, member, ctx.constant(rank - count))[1]


def drop_dimensions(ctx: Context, data: Output, axes: Output) -> Output:
    """``data`` without the dimensions that ``axes`` names at run time; the rank stays known if it can."""
    axes = of_stated_length(ctx, axes)
    count = axes.shape.element_count()
    if not data.shape.has_rank or not count.is_static or count.value > data.shape.rank:
        return layers.squeeze(ctx, data, axes)
    left = others(ctx, axes, data.shape.rank, count.value)
    shape = layers.gather(ctx, shape_of(ctx, data), left, ctx.constant(0))
    return ctx.emit(movement.Reshape1(special_zero=False), data, shape)


def insert_dimensions(ctx: Context, data: Output, axes: Output) -> Output:
    """``data`` with extents of 1 inserted where ``axes`` says at run time; the rank stays known if it can."""
    axes = of_stated_length(ctx, axes)
    count = axes.shape.element_count()
    if not data.shape.has_rank or not count.is_static:
        return ctx.emit(movement.Unsqueeze1(), data, axes)
    rank = data.shape.rank + count.value
    # Each place that is not inserted takes the next extent of the data.
    left = others(ctx, axes, rank, count.value)
    ones = ctx.constant(np.ones(rank, np.int64))
    if not data.shape.rank:
        return ctx.emit(movement.Reshape1(special_zero=False), data, ones)
    shape = ctx.emit(scatter.ScatterUpdate3(), ones, left, shape_of(ctx, data), ctx.constant(0))
    return ctx.emit(movement.Reshape1(special_zero=False), data, shape)


def known_axes(ctx: Context, axes: Output | None, what: str = "axes") -> list[int] | None:
    """The values of a list of axes; None where it is left out. Unsupported where they are computed."""
    axes = given_list(ctx, axes, what)
    return None if axes is None else [int(axis) for axis in ctx.known(axes, what).reshape(-1)]
