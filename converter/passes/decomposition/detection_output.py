"""DetectionOutput: boxes from priors, the best of each class and of each image."""

from __future__ import annotations

from typing import NamedTuple, Union

import numpy as np

from converter.passes.decomposition.boxes import LOWEST, refined, rows_at, scores_where, single, taken_boxes
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.detection_output import DetectionOutput1, DetectionOutput8
from ir_runtime.rewriting.expressions import Expression, concat, positions, where

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
