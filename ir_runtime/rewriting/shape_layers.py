"""Layers that compute with shapes: dimensions, lists, axes.

Shapes are i64 lists. Every helper folds to a constant as far as the shape is static, and keeps the
rank of what it makes static.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir_runtime.graph import Output, element_types
from ir_runtime.operations import generation, movement, reduction, scatter, slicing, sorting

from . import layers
from .builder import Builder
from .layers import in_type


def as_i64(ctx: Builder, value: Output) -> Output:
    """``value`` as i64."""
    return in_type(ctx, value, element_types.i64)


def as_list(ctx: Builder, value: Output) -> Output:
    """A scalar or a list, as a list."""
    if value.shape.has_rank and value.shape.rank == 1:
        return value
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([-1]))


def of_length(ctx: Builder, values: Output, length: int) -> Output:
    """A list that is refused if it has another length.

    A split into one part, because OpenVINO's ``reshape`` makes a Reshape to one dimension take any length.
    """
    return ctx.emit(slicing.VariadicSplit1(), values, ctx.constant(0), ctx.constant([length]))


def shape_of(ctx: Builder, data: Output) -> Output:
    """The shape of ``data``, a list."""
    return ctx.emit(generation.ShapeOf3(output_type=element_types.i64), data)


def dim_of(ctx: Builder, data: Output, axis: int) -> Output:
    """The size of dimension ``axis``, a scalar; the axis may be negative where the rank is dynamic."""
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


def dimension_list(ctx: Builder, data: Output, *axes: int) -> Output:
    """The sizes of the dimensions ``axes``, a list."""
    return layers.gather(ctx, shape_of(ctx, data), ctx.constant(list(axes)), ctx.constant(0))


def product(ctx: Builder, data: Output, axes: Sequence[int]) -> Output:
    """The product of some dimensions of ``data`` (of known rank), a list of one number.

    Made of single products, which an engine that reduces in float32 computes exactly, and whose
    bounds are followed.
    """
    static_product = math.prod(data.shape[axis].value for axis in axes if data.shape[axis].is_static)
    left = [axis for axis in axes if not data.shape[axis].is_static]
    if static_product == 0 or not left:
        return ctx.constant([static_product])
    if len(left) == 1:
        factors = [dimension_list(ctx, data, left[0])]
    else:
        each = ctx.emit_all(slicing.Split1(num_splits=data.shape.rank), shape_of(ctx, data), ctx.constant(0))
        factors = [each[axis] for axis in left]
    if static_product != 1:
        factors.append(ctx.constant([static_product]))
    total = factors[0]
    for factor in factors[1:]:
        total = layers.multiply(ctx, total, factor)
    return total


def element_count(ctx: Builder, data: Output, axes: Output) -> Output:
    """Return the number of elements along ``axes``, i64."""
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
