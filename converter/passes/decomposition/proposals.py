"""Regions that a network proposes: Proposal, GenerateProposals, and the parts of Detectron's networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Union

import numpy as np

from ir_runtime.operations import detectron as ir
from ir_runtime.operations.detectron import ExperimentalDetectronGenerateProposalsSingleImage6
from ir_runtime.operations.proposals import LOGARITHM_LIMIT, GenerateProposals9, Proposal1, Proposal4
from ir_runtime.operations.regions import ROIAlign9
from ir_runtime.rewriting.expressions import Expression, concat, positions, where

from .boxes import clipped, first_rows, large_enough, padded, refined, rows_at, scores_where, single, taken_marks
from .registry import decomposes


@decomposes(ir.ExperimentalDetectronTopKROIs6)
def top_k_rois(op: ir.ExperimentalDetectronTopKROIs6, regions: Expression, scores: Expression) -> Expression:
    """TopK and Gather, with zeros behind the last region"""
    places = scores.as_type("f32").top(scores.size(0).minimum(op.max_rois), 0)[1]
    return padded(regions.gather(places), op.max_rois)


@decomposes(ir.ExperimentalDetectronPriorGridGenerator6)
def prior_grid_generator(
    op: ir.ExperimentalDetectronPriorGridGenerator6, priors: Expression, layer: Expression, image: Expression
) -> Expression:
    """Add of the priors and of the middles of the cells"""
    count, cells = priors.size(0), layer.sizes()[2:]
    used = [count.of(own) if own else cell for own, cell in zip((op.h, op.w), cells)]
    middles = []
    for place, (stride, size) in enumerate(zip((op.stride_y, op.stride_x), used)):
        step = stride if stride else image.size(place + 2).as_type("f32") / size.as_type("f32")
        middles.append((positions(size).as_type("f32") + 0.5) * step)
    down, across = _of_cells(middles, used)
    boxes = concat([across, down, across, down], 3) + priors.as_type("f32")
    flat = boxes.as_type(priors.element_type).reshape(-1, 4)
    if op.h or op.w:
        flat = padded(flat, cells[0] * cells[1] * count)
    return flat if op.flatten else flat.reshape(*cells, count, 4)


@decomposes(ir.ExperimentalDetectronROIFeatureExtractor6)
def roi_feature_extractor(
    op: ir.ExperimentalDetectronROIFeatureExtractor6, regions: Expression, *layers: Expression
) -> list[Expression]:
    """ROIAlign of each layer for the regions that suit it, and ScatterNDUpdate of what they give"""
    level = _levels(regions.as_type("f32"), len(layers))
    size = op.output_size
    result = layers[0].of(0).broadcast(regions.size(0), layers[0].size(1), size, size)
    for number, (layer, scale) in enumerate(zip(layers, op.pyramid_scales)):
        align = ROIAlign9(
            pooled_h=size,
            pooled_w=size,
            sampling_ratio=op.sampling_ratio,
            spatial_scale=1 / scale,
            mode="avg",
            aligned_mode="asymmetric",
        )
        rows = level.equal(number).non_zero()
        own = regions.gather_nd(rows)
        if op.aligned:
            # Half an element of the layer is half a scale of the image; regions have one element at least.
            own = own - 0.5 * scale
        result = result.scatter_nd(rows, layer.emit(align, own, rows.squeeze(1) * 0))
    return [result, regions]


def _levels(regions: Expression, count: int) -> Expression:
    """The layer of each region; ``count`` where a region has no area."""
    area = (regions.cut(1, 2) - regions.cut(1, 0, 2)).prod(1)
    usable = area > 0
    part = where(usable, area, 1).sqrt() / 224 + 1e-6
    level = (part.log() / math.log(2) + 2).floor().clip(0, count - 1)
    return where(usable, level.as_type("i64"), count)


@decomposes(ir.ExperimentalDetectronDetectionOutput6)
def detectron_detection_output(
    op: ir.ExperimentalDetectronDetectionOutput6,
    regions: Expression,
    deltas: Expression,
    scores: Expression,
    image: Expression,
) -> list[Expression]:
    """The regions moved for each class; a Loop takes the best of each class, TopK those of all"""
    element_type, classes, count = regions.element_type, op.num_classes, op.max_detections_per_image
    regions, deltas, scores = single(regions, deltas, scores)
    parts = deltas.reshape(-1, classes, 4) / np.array(op.deltas_weights, np.float32)
    boxes = (refined(regions.unsqueeze(1), parts, 1.0, op.max_delta_log_wh) - [0, 0, 1, 1]).maximum(0)
    usable = (regions.cut(1, 2, 4) - regions.cut(1, 0, 2)).min(1, keep_dims=True) > 0
    scores, boxes = where(usable, scores, 0), where(usable.unsqueeze(1), boxes, 0)
    # Of each class but the first: the regions by falling score.
    boxes, scores = boxes.cut(1, 1).transpose(1, 0, 2), scores.cut(1, 1).transpose(1, 0)
    best, places = where(scores > op.score_threshold, scores, -np.inf).top(regions.size(0))
    by_score = rows_at(boxes, places)
    marks = taken_marks(by_score, best, op.nms_threshold, pixel=1.0, touching=True)
    rows, _, _ = first_rows(marks, op.post_nms_count if op.post_nms_count != -1 else 1 << 31)
    of_class = rows.gather(0, 1)
    region, score, box = (value.gather_nd(rows) for value in (places, best, by_score))
    order = _best_of_all(count, region * (classes - 1) + of_class, score, regions.size(0) * (classes - 1))
    box, score, of_class = (value.gather(order) for value in (box, score, of_class))
    return [
        padded(box, count).as_type(element_type),
        padded(of_class + 1, count).as_type("i32"),
        padded(score, count).as_type(element_type),
    ]


def _best_of_all(count: int, place: Expression, score: Expression, total: Expression) -> Expression:
    """The rows in order: as they are where there are at most ``count``, else by score and place, of ``total`` ones."""
    spots, rows = place.unsqueeze(1), positions(score.size(0))
    limit = score.size(0).minimum(count)
    best = score.of(-np.inf).broadcast(total).scatter_nd(spots, score).top(limit, 0)[1]
    # Where each place's row is.
    chosen = rows.of(0).broadcast(total).scatter_nd(spots, rows).gather(best)
    return where(score.size(0) <= count, rows.cut(0, 0, limit), chosen)


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


def _of_cells(places: Sequence[Expression], sizes: Sequence[Expression]) -> Sequence[Expression]:
    """Rows and columns of all cells, each ``[h, w, 1, 1]``."""
    return [value.unsqueeze(*axes).broadcast(*sizes, 1, 1) for value, axes in zip(places, ([1, 2, 3], [0, 2, 3]))]


def _grid(op: Union[Proposal1, Proposal4], anchors: np.ndarray, scores: Expression) -> Expression:
    """The anchors around each place ``[1, h w a, 4]``."""
    sizes = scores.sizes()[2:]
    steps = [positions(size).as_type("f32") * op.feat_stride for size in sizes]
    rows, columns = _of_cells(steps, sizes)
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
