"""Boxes without those that overlap better ones, whose scores may also be lowered instead."""

from __future__ import annotations

from typing import Union

import numpy as np

from converter.passes.decomposition.boxes import scores_where, shares, single
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.detection import NonMaxSuppression5, NonMaxSuppression9
from ir_runtime.rewriting.expressions import Expression, concat, loop, positions, where


@decomposes(NonMaxSuppression5, NonMaxSuppression9)
def non_max_suppression(
    op: Union[NonMaxSuppression5, NonMaxSuppression9], boxes: Expression, scores: Expression, *options: Expression
) -> list[Expression]:
    """A Loop in which each box lowers the scores of the others by how much it overlaps them, sorted by TopK

    With a sigma of 0 it takes those away that it overlaps by the threshold or more.
    """
    element_type = scores.element_type
    boxes, scores = single(boxes, scores)
    arguments = [value.as_type(form).reshape(1) for value, form in zip(options, ("i64", "f32", "f32", "f32"))]
    limit, bound, least, sigma = [
        *arguments,
        *(scores.of([0], form) for form in ("i64", "f32", "f32", "f32")[len(arguments) :]),
    ]
    sizes = images, classes, count = scores.sizes()
    first, second = boxes.split(2, -1)
    if op.box_encoding == "center":
        first, second = first - second * 0.5, first + second * 0.5
    ends = concat([first.minimum(second), first.maximum(second)], 2)
    placed = ends.unsqueeze(1).broadcast(*sizes, 4).reshape(images * classes, count, 4)
    start = scores.reshape(images * classes, count)
    is_soft = sigma > 0
    power = -0.5 / where(is_soft, sigma, 1)

    def step(_: Expression, current: Expression, left: Expression) -> list[Expression]:
        value, best = scores_where(left, current).top(1, 1)
        taken = value > -np.inf
        share = shares(placed.gather_nd(best, 1).unsqueeze(1), placed)
        lowered = where(taken & is_soft, current * (share * share * power).exp(), current)
        fits = (is_soft | (share < bound)) & (lowered > least)
        stays = left & ~(taken & positions(count).equal(best)) & (fits | ~taken)
        return [lowered, stays, *(row.squeeze(1) for row in (best, value, taken))]

    trips = count.minimum(limit).maximum(0).reshape()
    places, values, marks = (value.transpose(1, 0) for value in loop(trips, [start, start > least], step)[2:])
    spots = marks.non_zero()
    group, place, score = spots.gather(0, 1), places.gather_nd(spots), values.gather_nd(spots)
    rows = concat([value.unsqueeze(1) for value in (group // classes, group % classes, place)], 1)
    if op.sort_result_descending:
        score, order = score.top(score.size(0), 0)
        rows = rows.gather(order)
    scored = concat([rows.cut(1, 0, 2).as_type("f32"), score.unsqueeze(1)], 1).as_type(element_type)
    return [rows.as_type(op.output_type), scored, score.size(0).reshape(1).as_type(op.output_type)]
