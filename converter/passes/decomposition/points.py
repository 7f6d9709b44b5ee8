"""Values interpolated at points between the elements of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ir_runtime.rewriting.expressions import Expression, where


class Points(NamedTuple):
    """Points along one dimension: the two elements around each, how far from the first, and whether inside."""

    low: Expression
    high: Expression
    share: Expression
    inside: Expression


def points_around(places: Expression, size: Expression, margin: float) -> Points:
    """Points at ``places`` of a dimension; those farther from its elements than ``margin`` are not inside."""
    end = (size - 1).as_type(places.element_type)
    inside = (places >= -margin) & (places <= end + margin)
    place = places.clip(0, end)
    low = place.floor().as_type("i64")
    return Points(low, (low + 1).minimum(size - 1), place - place.floor(), inside)


def interpolated(
    flat: Expression, index_of: Callable[[Expression, Expression], Expression], rows: Points, columns: Points
) -> Expression:
    """The values ``[*points, c]`` at points that have a row and a column each; 0 outside.

    ``flat`` is ``[elements, c]``, and ``index_of`` gives the element of a row and a column.
    """
    parts = [
        flat.gather(index_of(row, column)) * (down * right).unsqueeze(-1)
        for row, down in ((rows.low, 1 - rows.share), (rows.high, rows.share))
        for column, right in ((columns.low, 1 - columns.share), (columns.high, columns.share))
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    return where((rows.inside & columns.inside).unsqueeze(-1), total, 0)


def flat_index(first: Expression, *parts: tuple[Expression | np.ndarray, Expression | int]) -> Expression:
    """Return the index of an element by its places, of which the last changes fastest.

    Each place but the first comes with the size of its dimension.
    """
    index = first
    for place, size in parts:
        index = index * size + place
    return index


def before_end(regions: Expression) -> tuple[Expression, Expression]:
    """Return the mask of regions before the first one of image -1, and the image of each, 0 for the others."""
    first = regions.gather(0, 1)
    is_region = first.equal(-1).as_type("i64").cumulative_sum(0).equal(0)
    return is_region, where(is_region, first.as_type("i64"), 0)


def rounded(values: Expression) -> Expression:
    """The nearest whole numbers; halves go away from 0."""
    return values.sign() * (abs(values) + 0.5).floor()


def last_channels(x: Expression) -> Expression:
    """Images ``[n, c, h, w]`` as elements ``[n h w, c]``."""
    return x.transpose(0, 2, 3, 1).reshape(-1, x.size(1))


def regular_points(start: Expression, end: Expression, count: int, size: Expression) -> Expression:
    """Regular points ``[..., count]`` from one end to the other, which are parts of the whole; one lies between."""
    last = size.as_type(start.element_type) - 1
    start, end = (start * last).unsqueeze(-1), (end * last).unsqueeze(-1)
    if count == 1:
        return (start + end) * 0.5
    return (end - start) / (count - 1) * np.arange(count) + start
