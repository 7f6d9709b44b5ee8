"""The parts of Detectron's networks: grids of priors, pooling from a pyramid, the best regions, detections."""

from __future__ import annotations

import math

import numpy as np

from converter.passes.decomposition.boxes import first_rows, padded, refined, rows_at, single, taken_marks
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations import detectron as ir
from ir_runtime.operations.regions import ROIAlign9
from ir_runtime.rewriting.expressions import Expression, concat, positions, where


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
    down, across = (
        value.unsqueeze(*axes).broadcast(*used, 1, 1) for value, axes in zip(middles, ([1, 2, 3], [0, 2, 3]))
    )
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
