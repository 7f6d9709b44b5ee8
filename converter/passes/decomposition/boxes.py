"""Boxes: how far they move, how much they overlap, and which of them suppression takes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ir_runtime.operations.detection import NonMaxSuppression9
from ir_runtime.rewriting.expressions import Expression, Operand, Size, concat, loop, positions, where

LOWEST = float(np.finfo(np.float32).min)
_NO_LIMIT = 1 << 31
"""More boxes than anybody has."""


def single(*values: Expression) -> list[Expression]:
    """The values as float32, in which boxes are computed."""
    return [value.as_type("f32") for value in values]


def refined(boxes: Expression, moves: Expression, pixel: float = 0.0, limit: float | None = None) -> Expression:
    """Boxes whose centres move by parts of their size, and whose size changes by powers of e up to ``limit``.

    ``pixel`` is 1 where the given upper ends are the last pixels inside; those that come out are where boxes end.
    """
    lower, upper = boxes.split(2, -1)
    shift, power = moves.split(2, -1)
    size = _widen(upper - lower, pixel)
    centre = shift * size + (lower + size * 0.5)
    reach = (power if limit is None else power.minimum(limit)).exp() * size * 0.5
    return concat([centre - reach, centre + reach], -1)


def clipped(boxes: Expression, width: Expression, height: Expression) -> Expression:
    """Boxes cut to those of the corners ``0, 0`` and ``width, height``, which have one element in their last axis."""
    return boxes.clip(0, concat([width, height, width, height], -1))


def large_enough(boxes: Expression, width: Expression, height: Expression, pixel: float = 0.0) -> Expression:
    """Return the mask of boxes ``[..., 4]`` of at least that width and height, whose last axis is 1."""
    lower, upper = boxes.split(2, -1)
    return (_widen(upper - lower, pixel) >= concat([width, height], -1)).all(-1)


def taken_boxes(boxes: Expression, scores: Expression, threshold: float) -> Expression:
    """Rows ``batch, class, box`` of the boxes ``[b, n, 4]`` that overlap none of a greater score beyond ``threshold``.

    ``scores`` ``[b, c, n]`` have to be above :data:`LOWEST`. Boxes whose ends are the wrong way round overlap none:
    NonMaxSuppression would turn them round.
    """
    lower, upper = boxes.split(2, -1)
    upper = where((upper - lower).min(-1, keep_dims=True) > 0, upper, lower)
    # The layer suppresses from its threshold on. Every other box overlaps by 0 at least.
    limit = np.nextafter(np.float32(min(threshold, 1)), np.float32(2)) if threshold >= 0 else 0
    op = NonMaxSuppression9(box_encoding="corner", sort_result_descending=False)
    bounds = boxes.of(_NO_LIMIT, "i64"), boxes.of(limit), boxes.of(LOWEST)
    return concat([lower, upper], -1).emit_all(op, scores, *bounds)[0]


def shares(box: Expression, others: Expression, pixel: float = 0.0, *, touching: bool = False) -> Expression:
    """Intersection over union ``[...]`` of boxes ``[..., 4]``, which are broadcast; 0 where either has no area.

    ``pixel`` is 1 where the upper ends are the last pixels inside; with ``touching`` boxes that lie apart by less than
    that overlap none.
    """
    (low, high), (other_low, other_high) = box.split(2, -1), others.split(2, -1)
    between = high.minimum(other_high) - low.maximum(other_low)
    common = _widen(between, pixel).relu().prod(-1)
    area, other_area = _widen(high - low, pixel).prod(-1), _widen(other_high - other_low, pixel).prod(-1)
    both = (area > 0) & (other_area > 0)
    if touching:
        both = both & (between.min(-1) >= 0)
    return where(both, common, 0) / where(both, area + other_area - common, 1)


def _widen(sizes: Expression, pixel: float) -> Expression:
    return sizes + pixel if pixel else sizes


Overlaps = Callable[[Expression], Expression]
"""Computes, in the body of a loop, the overlap of the box of a number with each other one ``[b, n]``."""


def row_of(boxes: Expression, pixel: float = 0.0, *, touching: bool = False) -> Overlaps:
    """:func:`shares` of one of the boxes ``[b, n, 4]`` with all of them."""
    return lambda number: shares(boxes.gather(number, 1).unsqueeze(1), boxes, pixel, touching=touching)


def taken_in_order(
    overlaps: Overlaps, usable: Expression, threshold: Operand, *, inclusive: bool = False, shrink: float = 1.0
) -> Expression:
    """Return the mask of the ``usable`` ``[b, n]`` boxes to take: those that overlap none taken before them too much.

    Too much is above ``threshold``, or from it on if ``inclusive``. A ``shrink`` below 1 multiplies a threshold above a
    half after each box that is taken.
    """
    images, count = usable.sizes()

    def step(number: Expression, alive: Expression, worst: Expression, bound: Expression) -> list[Expression]:
        # What is alive when its turn comes is taken, and stays; only what comes after it may go.
        taken = alive.gather(number, 1).unsqueeze(1)
        worst = where(taken, worst.maximum(overlaps(number)), worst)
        if shrink < 1:
            bound = where(taken & (bound > 0.5), bound * shrink, bound)
        is_too_much = worst >= bound if inclusive else worst > bound
        goes = taken & (number < positions(count)) & is_too_much
        return [alive & ~goes, worst, bound]

    start = usable.of(threshold, "f32").broadcast(images, 1)
    return loop(count, [usable, usable.of(0, "f32").broadcast(images, count), start], step)[0]


def taken_marks(
    boxes: Expression,
    scores: Expression,
    threshold: float,
    *,
    pixel: float = 0.0,
    touching: bool = False,
    inclusive: bool = False,
    shrink: float = 1.0,
) -> Expression:
    """Return the mask of the boxes ``[b, n, 4]`` to take, sorted by falling scores ``[b, n]``; none are minus infinity.

    NonMaxSuppression where it means the same, else a Loop: see :func:`taken_in_order`.
    """
    if shrink < 1 or (touching and pixel):
        overlaps = row_of(boxes, pixel, touching=touching)
        return taken_in_order(overlaps, scores > -np.inf, threshold, inclusive=inclusive, shrink=shrink)
    if pixel:
        boxes = boxes + [0, 0, pixel, pixel]
    if inclusive:  # suppression begins beyond the threshold: the next smaller number
        threshold = float(np.nextafter(np.float32(threshold), np.float32(-1)))
    spots = taken_boxes(boxes, scores.unsqueeze(1), threshold).gather([0, 2], 1)
    nothing = scores.of(0, "i64").broadcast(*scores.sizes())
    return nothing.scatter_nd(spots, spots.of(1).broadcast(spots.size(0))).as_type("boolean")


def first_rows(marks: Expression, most: Operand) -> tuple[Expression, Expression, Expression]:
    """Rows ``[m, 2]`` of the places of the first ``most`` marks in each row of ``[b, n]``.

    With them each one's number in its row ``[m]``, and the number of each row ``[b]``.
    """
    counted = marks.as_type("i64").cumulative_sum(1)
    chosen = marks & (counted <= most)
    rows = chosen.non_zero()
    return rows, counted.gather_nd(rows) - 1, chosen.as_type("i64").sum(1)


def scores_where(condition: Expression, scores: Expression) -> Expression:
    """The scores where the condition holds, else minus infinity, which counts as none."""
    return where(condition, scores, -np.inf)


def rows_at(rows: Expression, places: Expression) -> Expression:
    """The rows ``[..., k, width]`` at places ``[..., k]`` of ``[..., n, width]``."""
    index = places.unsqueeze(-1).broadcast(*places.sizes(), rows.size(-1))
    return rows.gather_elements(index, rows.rank - 2)


def padded(rows: Expression, count: Size) -> Expression:
    """The first ``count`` rows, with zeros behind them."""
    zeros = rows.of(0).broadcast(count, *rows.sizes()[1:])
    return concat([rows, zeros], 0).cut(0, 0, count)
