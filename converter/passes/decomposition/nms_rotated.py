"""NMSRotated: the suppression of boxes that are turned by an angle."""

from __future__ import annotations

import numpy as np

from converter.passes.decomposition.boxes import Overlaps, first_rows, rows_at, taken_in_order
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.nms_rotated import NMSRotated13
from ir_runtime.rewriting.expressions import Expression, concat, where

_CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
_SLACK = 1e-9
"""Parts of an area by which a corner may lie beyond an edge and counts as on it."""


@decomposes(NMSRotated13)
def nms_rotated(
    op: NMSRotated13,
    boxes: Expression,
    scores: Expression,
    limit: Expression,
    overlap: Expression,
    least: Expression,
) -> list[Expression]:
    """A Loop over the boxes of all classes by their scores, sorted by TopK"""
    images, classes, count = scores.sizes()
    best, places = scores.as_type("f32").top(count)
    by_score = rows_at(boxes.unsqueeze(1).broadcast(images, classes, count, 5), places)
    by_score = by_score.as_type("f64").reshape(-1, count, 5)
    best, places = best.reshape(-1, count), places.reshape(-1, count)
    floor, bound = (value.as_type("f32").reshape(1) for value in (least, overlap))
    marks = taken_in_order(_row_of(by_score, op.clockwise), best > floor, bound)
    rows, _, _ = first_rows(marks, limit.as_type("i64").reshape(1))
    score, place, group = best.gather_nd(rows), places.gather_nd(rows), rows.gather(0, 1)
    if op.sort_result_descending:
        score, order = score.top(score.size(0), 0)
        group, place = group.gather(order), place.gather(order)
    columns = [value.unsqueeze(1) for value in (group // classes, group % classes, place)]
    heads = [value.as_type("f32") for value in columns[:2]]
    return [
        concat(columns, 1).as_type(op.output_type),
        concat([*heads, score.unsqueeze(1)], 1).as_type(scores.element_type),
        score.size(0).reshape(1).as_type(op.output_type),
    ]


def _row_of(boxes: Expression, clockwise: bool) -> Overlaps:
    """Intersection over union of one of the boxes ``[b, n, 5]`` with all of them, in float64."""
    centre, size, angle = boxes.cut(2, 0, 2), boxes.cut(2, 2, 4), boxes.cut(2, 4).unsqueeze(2)
    x, y = (size.unsqueeze(2) * _CORNERS).split(2, 3)
    cosine, sine = angle.cos(), angle.sin() if clockwise else -angle.sin()
    corners = concat([x * cosine - y * sine, x * sine + y * cosine], 3) + centre.unsqueeze(2)
    area = size.prod(2)

    def row(number: Expression) -> Expression:
        corners_of_row, own, origin = (value.gather(number, 1).unsqueeze(1) for value in (corners, area, centre))
        # Places are counted from the one box, so that little is lost by rounding.
        origin = origin.unsqueeze(1)
        pair = corners_of_row - origin, corners - origin
        common = abs(_inside(*pair, is_closed=True) + _inside(*pair[::-1], is_closed=False)) * 0.5
        both = (own > 0) & (area > 0)
        return (where(both, common, 0) / where(both, own + area - common, 1)).as_type("f32")

    return row


def _inside(corners: Expression, others: Expression, *, is_closed: bool) -> Expression:
    """Twice the area that the parts of a rectangle's edges within another enclose, seen from the origin ``[b, n]``.

    The border of what two convex shapes have in common consists of such parts of both (Green's theorem). An edge that
    lies on one of the other counts once: where ``is_closed``, and both run the same way.
    """
    # Dimensions: box, box, edge, edge of the other.
    along = _edges(corners)
    edge, other_edge = along.unsqueeze(3), _edges(others).unsqueeze(2)
    distance = _cross(other_edge, corners.unsqueeze(3) - others.unsqueeze(2))
    speed = _cross(other_edge, edge)
    slack = ((edge * edge).sum(-1) * (other_edge * other_edge).sum(-1)).sqrt() * _SLACK
    is_parallel = abs(speed) <= slack
    place = -(distance / where(is_parallel, speed.of(1), speed))
    first = where((speed > 0) & ~is_parallel, place, 0).max(3).maximum(0)
    last = where((speed < 0) & ~is_parallel, place, 1).min(3).minimum(1)
    within = distance > slack
    if is_closed:
        within = within | ((abs(distance) <= slack) & ((edge * other_edge).sum(-1) > 0))
    length = (last - first).maximum(0)
    return (_cross(corners, along) * where((~is_parallel | within).all(3), length, 0)).sum(2)


def _edges(corners: Expression) -> Expression:
    """From each corner to the next one."""
    return corners.gather([1, 2, 3, 0], 2) - corners


def _cross(a: Expression, b: Expression) -> Expression:
    return a.gather(0, -1) * b.gather(1, -1) - a.gather(1, -1) * b.gather(0, -1)
