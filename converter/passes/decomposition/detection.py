"""Boxes of classes: the best ones, without those that overlap better ones, or with lower scores instead."""

from __future__ import annotations

from typing import NamedTuple, Union

import numpy as np

from ir_runtime.graph import ElementType
from ir_runtime.operations.detection import NonMaxSuppression5, NonMaxSuppression9
from ir_runtime.operations.detection_output import DetectionOutput1, DetectionOutput8
from ir_runtime.operations.nms_rotated import NMSRotated13
from ir_runtime.operations.nms_variants import MatrixNms8, MulticlassNms8, MulticlassNms9
from ir_runtime.rewriting.expressions import Expression, concat, loop, positions, where

from .boxes import (
    LOWEST,
    Overlaps,
    first_rows,
    refined,
    rows_at,
    scores_where,
    shares,
    single,
    taken_boxes,
    taken_in_order,
    taken_marks,
)
from .registry import decomposes


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


_DetectionOutput = Union[DetectionOutput1, DetectionOutput8]


class _Candidates(NamedTuple):
    """The boxes of each class that suppression chooses from, the best first."""

    boxes: Expression
    """``[n c, k, 4]``"""
    scores: Expression
    """``[n, c, k]``"""
    priors: Expression
    """Their priors, ``[n, c, k]``."""


class _Sizes(NamedTuple):
    """Numbers of images, of priors and of classes."""

    images: Expression
    priors: Expression
    classes: Expression


@decomposes(DetectionOutput1, DetectionOutput8)
def detection_output(
    op: _DetectionOutput,
    moves: Expression,
    scores: Expression,
    priors: Expression,
    earlier_scores: Expression | None = None,
    earlier_moves: Expression | None = None,
) -> Expression:
    """NonMaxSuppression within each class, and TopK of each image"""
    element_type = moves.element_type
    moves, scores, priors = single(moves, scores, priors)
    images, width = moves.size(0), 4 if op.normalized else 5
    count = priors.size(2) // width
    classes = scores.size(1) // count
    sizes = _Sizes(images, count, classes)
    scores = scores.reshape(images, count, classes)
    if earlier_scores is not None:
        # Priors that are no object are background.
        is_object = earlier_scores.as_type("f32").reshape(images, count, 2).cut(2, 1) >= op.objectness_score
        is_background = positions(classes).equal(op.background_label_id)
        scores = where(is_object, scores, is_background.as_type("f32"))
    prior_rows = priors.cut(1, 0, 1).reshape(-1, count, width)
    if not op.normalized:
        # The priors end at one of image -1.
        ended = prior_rows.cut(2, 0, 1).equal(-1).as_type("i64").cumulative_sum(1)
        scores = scores_where(ended.equal(0), scores)
    boxes = prior_rows.cut(2, width - 4).unsqueeze(2)
    for stage in (earlier_moves, moves):
        if stage is not None:
            shaped = stage.as_type("f32").reshape(images, count, 1 if op.share_location else classes, 4)
            if not op.variance_encoded_in_target:
                shaped = shaped * priors.cut(1, 1, 2).cut(2, 0, count * 4).reshape(-1, count, 1, 4)
            boxes = _move(op, boxes, shaped)
    best = _of_best_classes if op.decrease_label_id else _of_all_classes
    return _rows(op, best(op, boxes.transpose(0, 2, 1, 3), scores, sizes), sizes).as_type(element_type)


def _move(op: _DetectionOutput, boxes: Expression, moves: Expression) -> Expression:
    if not op.normalized:
        boxes = boxes / np.array([op.input_width, op.input_height] * 2, np.float32)
    result = boxes + moves if op.code_type.endswith("CORNER") else refined(boxes, moves)
    return result.clip(0, 1) if op.clip_before_nms else result


def _of_all_classes(op: _DetectionOutput, boxes: Expression, scores: Expression, sizes: _Sizes) -> _Candidates:
    """The best priors of each class."""
    is_background = positions(sizes.classes).equal(op.background_label_id)
    by_class = scores_where(~is_background, scores).transpose(0, 2, 1)
    # Scores that are too low, minus infinity among them, take no place among the best.
    is_high = by_class > max(op.confidence_threshold, LOWEST)
    best, places = _best(scores_where(is_high, by_class), op.top_k, sizes.priors)
    return _Candidates(_boxes_at(boxes, places, sizes), best, places)


def _of_best_classes(op: _DetectionOutput, boxes: Expression, scores: Expression, sizes: _Sizes) -> _Candidates:
    """The best priors of an image, each in the class of its greatest score."""
    numbers = positions(sizes.classes)
    left_out = numbers.equal(0)
    if op.background_label_id > 0:
        left_out = left_out | numbers.equal(op.background_label_id)
    greatest, label = (value.squeeze(2) for value in scores_where(~left_out, scores).top(1, 2))
    fits = (greatest >= op.confidence_threshold) & (greatest > -1)
    best, places = _best(scores_where(fits, greatest), op.top_k, sizes.priors)
    is_own = label.gather_elements(places, 1).unsqueeze(1).equal(numbers.unsqueeze(1))
    by_class = scores_where(is_own, best.unsqueeze(1))
    all_places = places.unsqueeze(1).broadcast(*by_class.sizes())
    return _Candidates(_boxes_at(boxes, all_places, sizes), by_class, all_places)


def _best(scores: Expression, most: int, count: Expression) -> list[Expression]:
    """The greatest scores along the last axis, at most ``most`` of them (-1: all), and their places."""
    return scores.top(count if most < 0 else count.minimum(most))


def _boxes_at(boxes: Expression, places: Expression, sizes: _Sizes) -> Expression:
    """The boxes ``[n c, k, 4]`` at places ``[n, c, k]`` of ``[1 or n, 1 or c, p, 4]``."""
    wide = boxes.broadcast(sizes.images, sizes.classes, sizes.priors, 4)
    return rows_at(wide, places).reshape(sizes.images * sizes.classes, -1, 4)


def _rows(op: _DetectionOutput, candidates: _Candidates, sizes: _Sizes) -> Expression:
    """The rows ``image, class, score, box``, one behind them of image -1, and zeros."""
    groups = sizes.images * sizes.classes
    scores, priors = (value.reshape(groups, -1) for value in (candidates.scores, candidates.priors))
    taken = taken_boxes(candidates.boxes, scores.unsqueeze(1), op.nms_threshold)
    # One row for each box that is taken: by image, class and score.
    group, places = taken.gather(0, 1), taken.gather([0, 2], 1)
    image, label = group // sizes.classes, group % sizes.classes
    score, boxes = scores.gather_nd(places), candidates.boxes.gather_nd(places)
    keep = op.keep_top_k[0]
    if keep > -1:
        order = _keep_best(keep, image, priors.gather_nd(places) * sizes.classes + label, score, sizes)
        image, label, score, boxes = (value.gather(order) for value in (image, label, score, boxes))
    if op.clip_after_nms:
        boxes = boxes.clip(0, 1)
    if op.decrease_label_id:
        label = label - 1
    heads = [value.as_type("f32").unsqueeze(1) for value in (image, label, score)]
    end = boxes.of(np.array([[-1, 0, 0, 0, 0, 0, 0]]))
    if keep > 0:
        count = sizes.images * keep
    else:
        count = sizes.images * sizes.classes * (op.top_k if keep == -1 and op.top_k > 0 else sizes.priors)
    filled = concat([concat([*heads, boxes], 1), end, boxes.of(0).broadcast(count, 7)], 0)
    return filled.cut(0, 0, count).reshape(1, 1, -1, 7)


def _keep_best(keep: int, image: Expression, place: Expression, score: Expression, sizes: _Sizes) -> Expression:
    """Return the mask of the best ``keep`` rows of each image, in their order: equal scores by prior and class."""
    every = sizes.priors * sizes.classes
    spots = concat([image.unsqueeze(1), place.unsqueeze(1)], 1)
    dense = score.of(-np.inf).broadcast(sizes.images, every).scatter_nd(spots, score)
    best = dense.top(every.minimum(keep), 1)[1]
    none = best.of(0).broadcast(sizes.images, every)
    is_best = none.scatter(best, best.of(1).broadcast(*best.sizes()), 1)
    return is_best.gather_nd(spots).non_zero().squeeze(1)


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


_Selection = Union[MatrixNms8, MulticlassNms8, MulticlassNms9]


class _Ranked(NamedTuple):
    """The best boxes of each class in each image."""

    sizes: list[Expression]
    """Numbers of images, of classes and of boxes."""
    boxes: Expression
    """``[n c, k, 4]``"""
    scores: Expression
    """``[n c, k]``, minus infinity for those that do not count"""
    places: Expression
    """``[n c, k]``"""


@decomposes(MatrixNms8)
def matrix_nms(op: MatrixNms8, boxes: Expression, scores: Expression) -> list[Expression]:
    """The scores times the least decay of all overlaps at once, sorted by TopK"""
    element_type = boxes.element_type
    boxes, scores = single(boxes, scores)
    boxes = boxes.unsqueeze(1)
    is_high = scores > max(op.score_threshold, LOWEST)
    best = _candidates(op, boxes, scores_where(is_high, scores), scores.sizes())
    share = shares(best.boxes.unsqueeze(2), best.boxes.unsqueeze(1), op.pixel(), touching=True)
    rank = positions(best.scores.size(1))
    is_better = rank.unsqueeze(0) < rank.unsqueeze(1)
    share = where(is_better, share, 0)
    decay = where(is_better, _decay(op, share, share.max(2).unsqueeze(1)), 1)
    lowered = best.scores * decay.min(2).minimum(1)
    return _outputs(op, boxes, best, scores_where(lowered > max(op.post_threshold, LOWEST), lowered), element_type)


def _decay(op: MatrixNms8, share: Expression, greatest: Expression) -> Expression:
    if op.decay_function == "gaussian":
        return ((greatest * greatest - share * share) * op.gaussian_sigma).exp()
    # In float64, where the small number keeps boxes that are the same from dividing 0 by 0.
    left, before = (1 - value.as_type("f64") for value in (share, greatest))
    return (left / (before + 1e-10)).as_type("f32")


@decomposes(MulticlassNms8, MulticlassNms9)
def multiclass_nms(
    op: Union[MulticlassNms8, MulticlassNms9], boxes: Expression, scores: Expression, counts: Expression | None = None
) -> list[Expression]:
    """NonMaxSuppression within each class, sorted by TopK; a threshold that shrinks in a Loop"""
    element_type = boxes.element_type
    boxes, scores = single(boxes, scores)
    if counts is None:
        sizes, boxes = scores.sizes(), boxes.unsqueeze(1)
    else:
        # The lists of the classes hold the boxes of one image after the other.
        sizes = [counts.size(0), *scores.sizes()]
        own = counts.as_type("i64").maximum(0)
        last = own.cumulative_sum(0).unsqueeze(1, 2)
        place = positions(scores.size(1))
        is_own = (place < last) & (place >= last - own.unsqueeze(1, 2))
        boxes, scores = boxes.unsqueeze(0), scores_where(is_own, scores.unsqueeze(0))
    is_high = scores >= max(op.score_threshold, LOWEST)
    best = _candidates(op, boxes, scores_where(is_high, scores), sizes)
    taken = taken_marks(best.boxes, best.scores, op.iou_threshold, pixel=op.pixel(), inclusive=True, shrink=op.nms_eta)
    return _outputs(op, boxes, best, scores_where(taken, best.scores), element_type, is_listed=counts is not None)


def _candidates(op: _Selection, boxes: Expression, scores: Expression, sizes: list[Expression]) -> _Ranked:
    """The best boxes of each class, of ``boxes`` ``[1 or n, 1 or c, m, 4]`` and ``scores`` ``[n, c, m]``."""
    images, classes, count = sizes
    if op.background_class >= 0:
        is_background = positions(classes).unsqueeze(1).equal(op.background_class)
        scores = scores_where(~is_background, scores)
    most = count if op.nms_top_k < 0 else count.minimum(op.nms_top_k)
    best, places = scores.top(most)
    groups = images * classes
    best_boxes = rows_at(boxes.broadcast(*sizes, 4), places).reshape(groups, most, 4)
    return _Ranked(sizes, best_boxes, best.reshape(groups, most), places.reshape(groups, most))


def _outputs(
    op: _Selection,
    boxes: Expression,
    best: _Ranked,
    final_scores: Expression,
    element_type: ElementType,
    *,
    is_listed: bool = False,
) -> list[Expression]:
    """The three outputs for the boxes of the scores ``final_scores`` ``[n c, k]``; minus infinity counts as none."""
    images, classes, count = best.sizes
    every = classes * count
    nothing = final_scores.of(-np.inf).broadcast(images * classes, count)
    scores = nothing.scatter(best.places, final_scores, 1).reshape(images, every)
    # Equal scores come by class and place.
    score, spots = scores.top(every if op.keep_top_k < 0 else every.minimum(op.keep_top_k))
    is_kept = score > -np.inf
    by_class = op.sort_result_type == "classid"
    if by_class and op.sorts_classes_of_image():
        order = where(is_kept, spots // count, classes).order(spots.size(1), 1)
        score, spots, is_kept = (value.gather_elements(order, 1) for value in (score, spots, is_kept))
    rows = is_kept.non_zero()
    image, score, spot = rows.gather(0, 1), score.gather_nd(rows), spots.gather_nd(rows)
    if op.sort_result_across_batch and op.sort_result_type != "none":
        total = score.size(0)
        order = (spot // count).order(total) if by_class else score.top(total, 0)[1]
        image, score, spot = (value.gather(order) for value in (image, score, spot))
    of_class, place = spot // count, spot % count
    index = concat([value.unsqueeze(1) for value in (image, of_class, place)], 1)
    corners = boxes.broadcast(*best.sizes, 4).gather_nd(index)
    result = concat([of_class.as_type("f32").unsqueeze(1), score.unsqueeze(1), corners], 1)
    number = place * classes + of_class if is_listed else image * count + place
    numbers = number.reshape(-1, 1), is_kept.as_type("i64").sum(1)
    return [result.as_type(element_type), *(value.as_type(op.output_type) for value in numbers)]
