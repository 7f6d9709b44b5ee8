"""The parts of Detectron's networks: grids of priors, pooling from a pyramid, the best regions, detections."""

from __future__ import annotations

import math

import numpy as np

from converter.to_onnx.boxes import best_scores, first_rows, padded, refined, rows_at, taken_marks
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reduce, reshape, slice_along, squeeze, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import Size, as_list, as_scalar, multiply, positions, shape_list, size_of, smallest
from ir_runtime.graph import element_types
from ir_runtime.operations.detectron import (
    ExperimentalDetectronDetectionOutput6,
    ExperimentalDetectronPriorGridGenerator6,
    ExperimentalDetectronROIFeatureExtractor6,
    ExperimentalDetectronTopKROIs6,
)

_KINDS = [element_types.f32, element_types.i64]


@ir_op(ExperimentalDetectronTopKROIs6, local_function=True)
def top_k_rois(ctx: Context, op: ExperimentalDetectronTopKROIs6, regions: Value, scores: Value) -> Value:
    """TopK and Gather, with zeros behind the last region"""
    values = ctx.cast(scores, element_types.f32)
    most = as_list(ctx, smallest(ctx, op.max_rois, size_of(ctx, scores, 0)))
    _, places = ctx.emit_many("TopK", values, most, count=2, types=_KINDS, axis=0, sorted=1)
    return padded(ctx, ctx.emit("Gather", regions, places, axis=0), op.max_rois, [4])


@ir_op(ExperimentalDetectronPriorGridGenerator6, local_function=True)
def prior_grid_generator(
    ctx: Context, op: ExperimentalDetectronPriorGridGenerator6, priors: Value, layer: Value, image: Value
) -> Value:
    """Add of the priors and of the middles of the cells"""
    kind, count = priors.element_type, size_of(ctx, priors, 0)
    cells: list[Size] = [size_of(ctx, layer, axis) for axis in (2, 3)]
    used: list[Size] = [op.h or cells[0], op.w or cells[1]]
    middles = []
    for place, stride in enumerate((op.stride_y, op.stride_x)):
        step = ctx.constant(np.float32(stride), element_types.f32)
        if not stride:
            whole, parts = (
                ctx.cast(as_scalar(ctx, one), element_types.f32)
                for one in (size_of(ctx, image, place + 2), used[place])
            )
            step = ctx.emit("Div", whole, parts)
        numbers = ctx.cast(positions(ctx, used[place]), element_types.f32)
        middles.append(ctx.emit("Mul", ctx.emit("Add", numbers, ctx.like(0.5, numbers)), step))
    shape = shape_list(ctx, [*used, 1, 1])
    down, across = (
        ctx.emit("Expand", unsqueeze(ctx, one, axes), shape) for one, axes in zip(middles, ([1, 2, 3], [0, 2, 3]))
    )
    shifts = concat(ctx, [across, down, across, down], 3)
    boxes = ctx.cast(ctx.emit("Add", shifts, ctx.cast(priors, element_types.f32)), kind)
    flat = reshape(ctx, boxes, [-1, 4])
    if used != cells:
        flat = padded(ctx, flat, multiply(ctx, multiply(ctx, *cells), count), [4])
    return flat if op.flatten else ctx.emit("Reshape", flat, shape_list(ctx, [*cells, count, 4]))


@ir_op(ExperimentalDetectronROIFeatureExtractor6, local_function=True)
def roi_feature_extractor(
    ctx: Context, op: ExperimentalDetectronROIFeatureExtractor6, regions: Value, *layers: Value
) -> list[Value]:
    """RoiAlign (opset 16) of each layer for the regions that suit it, and ScatterND of what they give"""
    ctx.opsets.require(16, "RoiAlign at half pixels")
    level = _levels(ctx, ctx.cast(regions, element_types.f32), len(layers))
    size = op.output_size
    shape = [size_of(ctx, regions, 0), size_of(ctx, layers[0], 1), size, size]
    made = ctx.emit("Expand", ctx.like(0, layers[0]), shape_list(ctx, shape))
    for number, (layer, scale) in enumerate(zip(layers, op.pyramid_scales)):
        rows = transpose(ctx, ctx.emit("NonZero", ctx.emit("Equal", level, ctx.constant(number))), [1, 0])
        own = ctx.emit("GatherND", regions, rows)
        if op.aligned:
            # Half an element of the layer is half a scale of the image; regions have one element at least.
            own = ctx.emit("Sub", own, ctx.like(0.5 * scale, own))
        batches = ctx.emit("Mul", squeeze(ctx, rows, [1]), ctx.constant(0))
        found = ctx.emit(
            "RoiAlign",
            layer,
            own,
            batches,
            coordinate_transformation_mode="output_half_pixel",
            mode="avg",
            output_height=size,
            output_width=size,
            sampling_ratio=op.sampling_ratio,
            spatial_scale=1 / scale,
        )
        made = ctx.emit("ScatterND", made, rows, found)
    return [made, regions]


def _levels(ctx: Context, regions: Value, count: int) -> Value:
    """The layer of each region; ``count`` where a region has no area."""
    sides = ctx.emit("Sub", slice_along(ctx, regions, 1, 2, 4), slice_along(ctx, regions, 1, 0, 2))
    area = reduce(ctx, "ReduceProd", sides, [1], keepdims=False)
    usable = ctx.emit("Greater", area, ctx.like(0, area))
    side = ctx.emit("Sqrt", ctx.emit("Where", usable, area, ctx.like(1, area)))
    part = ctx.emit("Add", ctx.emit("Div", side, ctx.like(224, side)), ctx.like(1e-6, side))
    power = ctx.emit("Div", ctx.emit("Log", part), ctx.like(math.log(2), part))
    level = ctx.emit("Floor", ctx.emit("Add", power, ctx.like(2, power)))
    level = ctx.emit("Clip", level, ctx.like(0, level), ctx.like(count - 1, level))
    return ctx.emit("Where", usable, ctx.cast(level, element_types.i64), ctx.constant(count))


@ir_op(ExperimentalDetectronDetectionOutput6, local_function=True)
def detection_output(
    ctx: Context, op: ExperimentalDetectronDetectionOutput6, regions: Value, deltas: Value, scores: Value, image: Value
) -> list[Value]:
    """The regions moved for each class; a Loop takes the best of each class, TopK those of all"""
    kind, classes, count = regions.element_type, op.num_classes, op.max_detections_per_image
    regions, deltas, scores = (ctx.cast(one, element_types.f32) for one in (regions, deltas, scores))
    parts = reshape(ctx, deltas, [-1, classes, 4])
    parts = ctx.emit("Div", parts, ctx.constant(np.array(op.deltas_weights, np.float32)))
    boxes = refined(ctx, unsqueeze(ctx, regions, [1]), parts, 1.0, op.max_delta_log_wh)
    boxes = ctx.emit("Sub", boxes, ctx.constant(np.array([0, 0, 1, 1], np.float32)))
    boxes = ctx.emit("Max", boxes, ctx.like(0, boxes))
    sides = ctx.emit("Sub", slice_along(ctx, regions, 1, 2, 4), slice_along(ctx, regions, 1, 0, 2))
    usable = ctx.emit("Greater", reduce(ctx, "ReduceMin", sides, [1]), ctx.like(0, regions))
    scores = ctx.emit("Where", usable, scores, ctx.like(0, scores))
    boxes = ctx.emit("Where", unsqueeze(ctx, usable, [1]), boxes, ctx.like(0, boxes))
    # Of each class but the first: the regions by falling score.
    boxes = transpose(ctx, slice_along(ctx, boxes, 1, 1, classes), [1, 0, 2])
    scores = transpose(ctx, slice_along(ctx, scores, 1, 1, classes), [1, 0])
    is_high = ctx.emit("Greater", scores, ctx.like(op.score_threshold, scores))
    scores = ctx.emit("Where", is_high, scores, ctx.like(-math.inf, scores))
    length = as_list(ctx, size_of(ctx, regions, 0))
    best, places = best_scores(ctx, scores, length)
    sorted_boxes = rows_at(ctx, boxes, places, 3)
    marks = taken_marks(ctx, sorted_boxes, best, op.nms_threshold, pixel=1.0, touching=True)
    most = op.post_nms_count if op.post_nms_count != -1 else 1 << 31
    rows, _, _ = first_rows(ctx, marks, most)
    of_class = squeeze(ctx, slice_along(ctx, rows, 1, 0, 1), [1])
    region, score, box = (ctx.emit("GatherND", one, rows) for one in (places, best, sorted_boxes))
    order = _best_of_all(ctx, count, of_class, region, score, (classes - 1, length))
    box, score, of_class = (ctx.emit("Gather", one, order, axis=0) for one in (box, score, of_class))
    number = ctx.emit("Add", of_class, ctx.constant(1))
    return [
        ctx.cast(padded(ctx, box, count, [4]), kind),
        ctx.cast(padded(ctx, number, count, []), element_types.i32),
        ctx.cast(padded(ctx, score, count, []), kind),
    ]


def _best_of_all(
    ctx: Context, count: int, of_class: Value, region: Value, score: Value, sizes: tuple[int, Value]
) -> Value:
    """The rows in order: as they are where there are at most ``count``, else by score, region and class."""
    classes, length = sizes
    place = ctx.emit("Add", ctx.emit("Mul", region, ctx.constant(classes)), of_class)
    total = ctx.emit("Mul", length, ctx.constant([classes]))
    nothing = ctx.emit("Expand", ctx.like(-math.inf, score), total)
    spots = unsqueeze(ctx, place, [1])
    dense = ctx.emit("ScatterND", nothing, spots, score)
    found = ctx.emit("Shape", score)
    limit = ctx.emit("Min", found, ctx.constant([count]))
    _, best = ctx.emit_many("TopK", dense, limit, count=2, types=_KINDS, axis=0, sorted=1)
    # Where each place's row is.
    rows = positions(ctx, found)
    numbers = ctx.emit("ScatterND", ctx.emit("Expand", ctx.constant(0), total), spots, rows)
    chosen = ctx.emit("Gather", numbers, best, axis=0)
    is_all = ctx.emit("LessOrEqual", found, ctx.constant([count]))
    return ctx.emit("Where", is_all, slice_along(ctx, rows, 0, 0, limit), chosen)
