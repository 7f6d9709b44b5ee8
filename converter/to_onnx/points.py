"""Values interpolated at points between the elements of images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.operation import TensorType

from .context import Context
from .graph import Graph, Value
from .layers import transpose, unsqueeze
from .sizes import Size, as_scalar, shape_list, size_of, subtract


class Points(NamedTuple):
    """Points along one dimension: the two elements around each, how far from the first, and whether inside."""

    low: Value
    high: Value
    share: Value
    inside: Value


def points_around(ctx: Context, places: Value, size: Size, margin: float) -> Points:
    """Points at ``places`` of a dimension; those farther from its elements than ``margin`` are not inside."""
    last = as_scalar(ctx, subtract(ctx, size, 1))
    end = ctx.cast(last, places.element_type)
    least, most = ctx.like(-margin, places), ctx.emit("Add", end, ctx.like(margin, places))
    inside = ctx.emit("And", ctx.emit("GreaterOrEqual", places, least), ctx.emit("LessOrEqual", places, most))
    place = ctx.emit("Max", ctx.emit("Min", places, end), ctx.like(0, places))
    floor = ctx.emit("Floor", place)
    low = ctx.cast(floor, element_types.i64)
    high = ctx.emit("Min", ctx.emit("Add", low, ctx.constant(1)), last)
    return Points(low, high, ctx.emit("Sub", place, floor), inside)


def interpolated(
    ctx: Context, flat: Value, index_of: Callable[[Value, Value], Value], rows: Points, columns: Points
) -> Value:
    """The values ``[*points, c]`` at points that have a row and a column each; 0 outside.

    ``flat`` is ``[elements, c]``, and ``index_of`` gives the element of a row and a column.
    """
    total: Value | None = None
    one = ctx.like(1, rows.share)
    for row, down in ((rows.low, ctx.emit("Sub", one, rows.share)), (rows.high, rows.share)):
        for column, right in ((columns.low, ctx.emit("Sub", one, columns.share)), (columns.high, columns.share)):
            found = ctx.emit("Gather", flat, index_of(row, column), axis=0)
            weight = unsqueeze(ctx, ctx.emit("Mul", down, right), [-1])
            part = ctx.emit("Mul", found, weight)
            total = part if total is None else ctx.emit("Add", total, part)
    assert total is not None
    inside = unsqueeze(ctx, ctx.emit("And", rows.inside, columns.inside), [-1])
    return ctx.emit("Where", inside, total, ctx.like(0, total))


def flat_index(ctx: Context, *parts: tuple[Value, Size]) -> Value:
    """The index of an element by its places, each with the size of its dimension, the first one changing slowest."""
    index, _ = parts[0]
    for place, size in parts[1:]:
        index = ctx.emit("Add", ctx.emit("Mul", index, as_scalar(ctx, size)), place)
    return index


def for_each(ctx: Context, count: Value, compute: Callable[[Context, Value], Sequence[Value]]) -> list[Value]:
    """What ``compute`` gives for the numbers below ``count``, stacked: a Loop."""
    graph = Graph()
    inner = ctx.inside(graph)
    number = Value(TensorType(element_types.i64, PartialShape(())), "number")
    graph.inputs = [number, Value(TensorType(element_types.boolean, PartialShape(())), "goes_on")]
    made = list(compute(inner, number))
    graph.outputs = [inner.constant(True), *made]
    first = ctx.constant(True)
    return ctx.emit_many("Loop", count, first, count=len(made), types=[one.element_type for one in made], body=graph)


def column(ctx: Context, regions: Value, place: int) -> Value:
    """One number of each region ``[r]``."""
    return ctx.emit("Gather", regions, ctx.constant(place), axis=1)


def entry(ctx: Context, values: Value, place: int) -> Value:
    """One element of a list, without dimensions."""
    return ctx.emit("Gather", values, ctx.constant(place), axis=0)


def before_end(ctx: Context, regions: Value) -> tuple[Value, Value]:
    """Which regions come before the first one of image -1, and the image of each, 0 for the others."""
    first = column(ctx, regions, 0)
    ends = ctx.cast(ctx.emit("Equal", first, ctx.like(-1, first)), element_types.i64)
    is_region = ctx.emit("Equal", ctx.emit("CumSum", ends, ctx.constant(0)), ctx.constant(0))
    return is_region, ctx.emit("Where", is_region, ctx.cast(first, element_types.i64), ctx.constant(0))


def rounded(ctx: Context, values: Value) -> Value:
    """The nearest whole numbers; halves go away from 0."""
    near = ctx.emit("Floor", ctx.emit("Add", ctx.emit("Abs", values), ctx.like(0.5, values)))
    return ctx.emit("Mul", ctx.emit("Sign", values), near)


def last_channels(ctx: Context, x: Value) -> Value:
    """Images ``[n, c, h, w]`` as elements ``[n h w, c]``."""
    turned = transpose(ctx, x, [0, 2, 3, 1])
    return ctx.emit("Reshape", turned, shape_list(ctx, [-1, size_of(ctx, x, 1)]))


def regular_points(ctx: Context, start: Value, end: Value, count: int, size: Size) -> Value:
    """Regular points ``[..., count]`` from one end to the other, which are parts of the whole; one lies between."""
    last = ctx.emit("Sub", ctx.cast(as_scalar(ctx, size), start.element_type), ctx.like(1, start))
    start, end = (unsqueeze(ctx, ctx.emit("Mul", one, last), [-1]) for one in (start, end))
    if count == 1:
        return ctx.emit("Mul", ctx.emit("Add", start, end), ctx.like(0.5, start))
    step = ctx.emit("Div", ctx.emit("Sub", end, start), ctx.like(count - 1, start))
    numbers = ctx.constant(np.arange(count, dtype=np.float32))
    return ctx.emit("Add", ctx.emit("Mul", numbers, step), start)
