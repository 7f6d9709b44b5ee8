"""Suppression over all classes of a batch at once: MatrixNms and MulticlassNms."""

from __future__ import annotations

from typing import NamedTuple, Union

import numpy as np

from converter.passes.decomposition.boxes import LOWEST, rows_at, scores_where, shares, single, taken_marks
from converter.passes.decomposition.registry import decomposes
from ir_runtime.graph import ElementType
from ir_runtime.operations.nms_variants import MatrixNms8, MulticlassNms8, MulticlassNms9
from ir_runtime.rewriting.expressions import Expression, concat, positions, where

_Selection = Union[MatrixNms8, MulticlassNms8, MulticlassNms9]


class _Candidates(NamedTuple):
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


def _candidates(op: _Selection, boxes: Expression, scores: Expression, sizes: list[Expression]) -> _Candidates:
    """The best boxes of each class, of ``boxes`` ``[1 or n, 1 or c, m, 4]`` and ``scores`` ``[n, c, m]``."""
    images, classes, count = sizes
    if op.background_class >= 0:
        is_background = positions(classes).unsqueeze(1).equal(op.background_class)
        scores = scores_where(~is_background, scores)
    most = count if op.nms_top_k < 0 else count.minimum(op.nms_top_k)
    best, places = scores.top(most)
    groups = images * classes
    best_boxes = rows_at(boxes.broadcast(*sizes, 4), places).reshape(groups, most, 4)
    return _Candidates(sizes, best_boxes, best.reshape(groups, most), places.reshape(groups, most))


def _outputs(
    op: _Selection,
    boxes: Expression,
    best: _Candidates,
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
