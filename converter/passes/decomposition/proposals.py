"""Regions that a network proposes: Proposal, GenerateProposals and Detectron's kin of a single image."""

from __future__ import annotations

from typing import Union

import numpy as np

from converter.passes.decomposition.boxes import (
    clipped,
    first_rows,
    large_enough,
    padded,
    refined,
    rows_at,
    scores_where,
    single,
    taken_marks,
)
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.detectron import ExperimentalDetectronGenerateProposalsSingleImage6
from ir_runtime.operations.proposals import LOGARITHM_LIMIT, GenerateProposals9, Proposal1, Proposal4
from ir_runtime.rewriting.expressions import Expression, concat, positions, where


@decomposes(Proposal1, Proposal4)
def proposal(
    op: Union[Proposal1, Proposal4], scores: Expression, deltas: Expression, image: Expression
) -> list[Expression]:
    """Anchors that the deltas move; the best by TopK, of which NonMaxSuppression or a Loop takes some"""
    element_type = scores.element_type
    scores, deltas, image = single(scores, deltas, image)
    anchors = op.anchors()
    images = scores.size(0)
    pixel = 0.0 if op.is_tensorflow else 1.0
    # Boxes and deltas come by row, column and anchor.
    values = _by_place(scores.cut(1, len(anchors), 2 * len(anchors)), 1)
    divisors = np.repeat(np.array([op.box_coordinate_scale, op.box_size_scale], np.float32), 2)
    tall, wide = (image.gather([place], -1) for place in ((1, 0) if op.is_tensorflow else (0, 1)))
    boxes = _grid(op, anchors, scores)
    if op.is_tensorflow:
        boxes = clipped(boxes, wide, tall)
    boxes = refined(boxes, _by_place(deltas, 4) / divisors, pixel)
    if op.clip_before_nms:
        boxes = clipped(boxes, wide - pixel, tall - pixel)
    across, down = (image.gather([place], -1) * op.min_size for place in (-1, 2))
    large = large_enough(boxes, across, down, pixel)
    best, chosen, _ = _best(boxes, scores_where(large, values.reshape(images, -1)), op.pre_nms_topn)
    marks = taken_marks(chosen, best, op.nms_thresh, pixel=pixel, touching=True)
    rows, number, counts = first_rows(marks, op.post_nms_topn)
    taken, score = chosen.gather_nd(rows), best.gather_nd(rows)
    if op.clip_after_nms:
        taken = clipped(taken, wide, tall)
    if op.normalize:
        taken = taken / concat([wide, tall, wide, tall], -1)
    # Rows of each image, behind them one of image -1, and zeros.
    spots = concat([rows.cut(1, 0, 1), number.unsqueeze(1)], 1)
    most = op.post_nms_topn
    filled = taken.of(0).broadcast(images, most, 4).scatter_nd(spots, taken)
    place, count = positions(images.of(most)), counts.unsqueeze(1)
    heads = where(place < count, positions(images).unsqueeze(1), where(place.equal(count), place.of(-1), 0))
    result = concat([heads.as_type("f32").unsqueeze(2), filled], 2).reshape(-1, 5).as_type(element_type)
    if isinstance(op, Proposal1):
        return [result]
    return [result, score.of(0).broadcast(images, most).scatter_nd(spots, score).reshape(-1).as_type(element_type)]


def _by_place(values: Expression, width: int) -> Expression:
    """``[n, a width, h, w]`` as ``[n, h w a, width]``."""
    images, _, height, columns = values.sizes()
    split = values.reshape(images, -1, width, height, columns)
    return split.transpose(0, 3, 4, 1, 2).reshape(images, -1, width)


def _grid(op: Union[Proposal1, Proposal4], anchors: np.ndarray, scores: Expression) -> Expression:
    """The anchors around each place ``[1, h w a, 4]``."""
    sizes = scores.sizes()[2:]
    steps = [positions(size).as_type("f32") * op.feat_stride for size in sizes]
    rows, columns = (
        value.unsqueeze(*axes).broadcast(*sizes, 1, 1) for value, axes in zip(steps, ([1, 2, 3], [0, 2, 3]))
    )
    first, second = (rows, columns) if op.is_tensorflow else (columns, rows)
    return (concat([first, second, first, second], -1) + anchors).reshape(1, -1, 4)


def _best(boxes: Expression, scores: Expression, most: int) -> tuple[Expression, Expression, Expression]:
    """The greatest scores of ``[n, m]``, at most ``most``, the boxes ``[n, m, 4]`` of them, and their places."""
    best, places = scores.top(scores.size(1).minimum(most))
    return best, rows_at(boxes, places), places


def _propose(
    anchors: Expression, deltas: Expression, scores: Expression, sizes: tuple[Expression, Expression], pixel: float
) -> tuple[Expression, Expression]:
    """All boxes ``[n, m, 4]`` cut to their image of that width and height, and their scores ``[n, m]``."""
    boxes = refined(anchors.reshape(1, -1, 4), _by_place(deltas, 4), pixel, LOGARITHM_LIMIT) - [0, 0, pixel, pixel]
    width, height = (value - pixel for value in sizes)
    return clipped(boxes, width, height), _by_place(scores, 1).reshape(scores.size(0), -1)


@decomposes(GenerateProposals9)
def generate_proposals(
    op: GenerateProposals9, images: Expression, anchors: Expression, deltas: Expression, scores: Expression
) -> list[Expression]:
    """Anchors that the deltas move; the best by TopK, of which NonMaxSuppression or a Loop takes some"""
    element_type, pixel = scores.element_type, 0.0 if op.normalized else 1.0
    images, anchors, deltas, scores = single(images, anchors, deltas, scores)
    height, width, down, across = (images.gather([place], 1).unsqueeze(1) for place in (0, 1, 2, -1))
    boxes, values = _propose(anchors, deltas, scores, (width, height), pixel)
    large = large_enough(boxes, across * op.min_size, down * op.min_size, pixel)
    best, chosen, places = _best(boxes, values, op.pre_nms_count)
    # Boxes that are too small have their place among the best, but are not taken.
    usable = scores_where(large.gather_elements(places, 1), best)
    marks = taken_marks(chosen, usable, op.nms_threshold, pixel=pixel, touching=True, shrink=op.nms_eta)
    rows, _, counts = first_rows(marks, op.post_nms_count)
    return [*(value.gather_nd(rows).as_type(element_type) for value in (chosen, best)), counts.as_type(op.roi_num_type)]


@decomposes(ExperimentalDetectronGenerateProposalsSingleImage6)
def generate_proposals_of_one_image(
    op: ExperimentalDetectronGenerateProposalsSingleImage6,
    image: Expression,
    anchors: Expression,
    deltas: Expression,
    scores: Expression,
) -> list[Expression]:
    """Anchors that the deltas move; the best by TopK, of which NonMaxSuppression takes some"""
    element_type = scores.element_type
    image, anchors, deltas, scores = single(image, anchors, deltas, scores)
    sizes = image.gather([1]), image.gather([0])
    boxes, values = _propose(anchors, deltas.unsqueeze(0), scores.unsqueeze(0), sizes, 1.0)
    least = image.of([op.min_size])
    large = large_enough(boxes, least, least, 1.0)
    best, chosen, _ = _best(boxes, scores_where(large, values), op.pre_nms_count)
    # Here a box ends at its upper corner, other than where it was moved.
    rows, _, _ = first_rows(taken_marks(chosen, best, op.nms_threshold), op.post_nms_count)
    return [padded(value.gather_nd(rows), op.post_nms_count).as_type(element_type) for value in (chosen, best)]
