"""DetectionOutput: boxes from priors, the best of each class and of each image."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from converter.to_onnx.boxes import LOWEST, best_scores, limited, refined, rows_at, taken_boxes
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reduce, reshape, slice_along, squeeze, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import Size, as_list, as_scalar, divide, multiply, positions, shape_list, size_of, smallest
from ir_runtime.graph import element_types
from ir_runtime.operations.detection_output import DetectionOutput1, DetectionOutput8


class _Candidates(NamedTuple):
    """The boxes of each class that suppression chooses from, the best first."""

    boxes: Value
    """``[n c, k, 4]``"""
    scores: Value
    """``[n, c, k]``"""
    priors: Value
    """Which priors they are from, ``[n, c, k]``."""


class _Sizes(NamedTuple):
    """Numbers of images, of priors, of location classes and of classes."""

    images: Size
    priors: Size
    kinds: Size
    classes: Size


@ir_op(DetectionOutput1, DetectionOutput8, local_function=True)
def detection_output(
    ctx: Context,
    op: DetectionOutput8,
    moves: Value,
    scores: Value,
    priors: Value,
    earlier_scores: Value | None = None,
    earlier_moves: Value | None = None,
) -> Value:
    """NonMaxSuppression within each class, and TopK of each image"""
    single = element_types.f32
    moves, scores, priors = (ctx.cast(one, single) for one in (moves, scores, priors))
    images, width = size_of(ctx, moves, 0), 4 if op.normalized else 5
    count = divide(ctx, size_of(ctx, priors, 2), width)
    classes = divide(ctx, size_of(ctx, scores, 1), count)
    kinds: Size = 1 if op.share_location else classes
    sizes = _Sizes(images, count, kinds, classes)
    scores = ctx.emit("Reshape", scores, shape_list(ctx, [images, count, classes]))
    if earlier_scores is not None:
        scores = _of_objects(ctx, op, scores, ctx.cast(earlier_scores, single), sizes)
    listed = ctx.emit("Reshape", slice_along(ctx, priors, 1, 0, 1), shape_list(ctx, [-1, count, width]))
    if not op.normalized:
        # The priors end at one of image -1.
        ends = ctx.emit("Equal", slice_along(ctx, listed, 2, 0, 1), ctx.like(-1, listed))
        ended = ctx.emit("CumSum", ctx.cast(ends, element_types.i64), ctx.constant(1))
        usable = ctx.emit("Equal", ended, ctx.constant(0))
        scores = ctx.emit("Where", usable, scores, ctx.like(-math.inf, scores))
    boxes = unsqueeze(ctx, slice_along(ctx, listed, 2, width - 4, width), [2])
    variances: Value | None = None
    if not op.variance_encoded_in_target:
        second = slice_along(ctx, priors, 1, 1, 2)
        used = slice_along(ctx, second, 2, 0, as_list(ctx, multiply(ctx, count, 4)))
        variances = ctx.emit("Reshape", used, shape_list(ctx, [-1, count, 1, 4]))
    for stage in (earlier_moves, moves):
        if stage is not None:
            shaped = ctx.emit("Reshape", ctx.cast(stage, single), shape_list(ctx, [images, count, kinds, 4]))
            boxes = _moved(ctx, op, boxes, shaped if variances is None else ctx.emit("Mul", shaped, variances))
    boxes = transpose(ctx, boxes, [0, 2, 1, 3])
    best = _of_best_classes if op.decrease_label_id else _of_all_classes
    return ctx.cast(_rows(ctx, op, best(ctx, op, boxes, scores, sizes), sizes), ctx.node.outputs[0].element_type)


def _of_objects(ctx: Context, op: DetectionOutput8, scores: Value, earlier: Value, sizes: _Sizes) -> Value:
    """Priors that are no object are background."""
    pairs = ctx.emit("Reshape", earlier, shape_list(ctx, [sizes.images, sizes.priors, 2]))
    share = slice_along(ctx, pairs, 2, 1, 2)
    is_object = ctx.emit("GreaterOrEqual", share, ctx.like(op.objectness_score, share))
    is_background = ctx.emit("Equal", positions(ctx, sizes.classes), ctx.constant(op.background_label_id))
    return ctx.emit("Where", is_object, scores, ctx.cast(is_background, scores.element_type))


def _moved(ctx: Context, op: DetectionOutput8, boxes: Value, moves: Value) -> Value:
    if not op.normalized:
        size = np.array([op.input_width, op.input_height] * 2, np.float32)
        boxes = ctx.emit("Div", boxes, ctx.constant(size))
    is_corner = op.code_type.endswith("CORNER")
    made = ctx.emit("Add", boxes, moves) if is_corner else refined(ctx, boxes, moves)
    return limited(ctx, made, 0, 1) if op.clip_before_nms else made


def _of_all_classes(ctx: Context, op: DetectionOutput8, boxes: Value, scores: Value, sizes: _Sizes) -> _Candidates:
    """The best priors of each class."""
    is_background = ctx.emit("Equal", positions(ctx, sizes.classes), ctx.constant(op.background_label_id))
    scores = ctx.emit("Where", is_background, ctx.like(-math.inf, scores), scores)
    turned = transpose(ctx, scores, [0, 2, 1])
    # Scores that are too low, minus infinity among them, take no place among the best.
    least = max(op.confidence_threshold, LOWEST)
    is_high = ctx.emit("Greater", turned, ctx.like(least, turned))
    best, places = _best(ctx, ctx.emit("Where", is_high, turned, ctx.like(-math.inf, turned)), op.top_k, sizes.priors)
    return _Candidates(_boxes_at(ctx, boxes, places, sizes), best, places)


def _of_best_classes(ctx: Context, op: DetectionOutput8, boxes: Value, scores: Value, sizes: _Sizes) -> _Candidates:
    """The best priors of an image, each in the class of its greatest score."""
    numbers = positions(ctx, sizes.classes)
    left_out = ctx.emit("Equal", numbers, ctx.constant(0))
    if op.background_label_id > 0:
        is_background = ctx.emit("Equal", numbers, ctx.constant(op.background_label_id))
        left_out = ctx.emit("Or", left_out, is_background)
    considered = ctx.emit("Where", left_out, ctx.like(-math.inf, scores), scores)
    kind = ctx.emit("ArgMax", considered, axis=2, keepdims=0, type=element_types.i64)
    greatest = reduce(ctx, "ReduceMax", considered, [2], keepdims=False)
    fits = ctx.emit("GreaterOrEqual", greatest, ctx.like(op.confidence_threshold, greatest))
    fits = ctx.emit("And", fits, ctx.emit("Greater", greatest, ctx.like(-1, greatest)))
    usable = ctx.emit("Where", fits, greatest, ctx.like(-math.inf, greatest))
    best, places = _best(ctx, usable, op.top_k, sizes.priors)
    own = unsqueeze(ctx, ctx.emit("GatherElements", kind, places, axis=1), [1])
    is_own = ctx.emit("Equal", own, unsqueeze(ctx, numbers, [1]))
    spread = unsqueeze(ctx, best, [1])
    by_class = ctx.emit("Where", is_own, spread, ctx.like(-math.inf, spread))
    all_places = ctx.emit("Expand", unsqueeze(ctx, places, [1]), ctx.emit("Shape", by_class))
    return _Candidates(_boxes_at(ctx, boxes, all_places, sizes), by_class, all_places)


def _best(ctx: Context, scores: Value, most: int, count: Size) -> tuple[Value, Value]:
    """The greatest scores along the last axis, at most ``most`` of them (-1: all), and their places."""
    limit = count if most < 0 else smallest(ctx, most, count)
    return best_scores(ctx, scores, as_list(ctx, limit))


def _boxes_at(ctx: Context, boxes: Value, places: Value, sizes: _Sizes) -> Value:
    """The boxes ``[n c, k, 4]`` at places ``[n, c, k]`` of ``[1 or n, 1 or c, p, 4]``."""
    whole = shape_list(ctx, [sizes.images, sizes.classes, sizes.priors, 4])
    wide = ctx.emit("Expand", boxes, whole)
    found = rows_at(ctx, wide, places, 4)
    groups = multiply(ctx, sizes.images, sizes.classes)
    return ctx.emit("Reshape", found, shape_list(ctx, [groups, -1, 4]))


def _rows(ctx: Context, op: DetectionOutput8, found: _Candidates, sizes: _Sizes) -> Value:
    """The rows ``image, class, score, box``, one behind them of image -1, and zeros."""
    groups, classes = multiply(ctx, sizes.images, sizes.classes), as_scalar(ctx, sizes.classes)
    scores = ctx.emit("Reshape", found.scores, shape_list(ctx, [groups, 1, -1]))
    taken = taken_boxes(ctx, found.boxes, scores, op.nms_threshold)
    # One row for each box that is taken: by image, class and score.
    group = squeeze(ctx, slice_along(ctx, taken, 1, 0, 1), [1])
    places = concat(ctx, [slice_along(ctx, taken, 1, 0, 1), slice_along(ctx, taken, 1, 2, 3)], 1)
    flat = ctx.emit("Reshape", scores, shape_list(ctx, [groups, -1]))
    score = ctx.emit("GatherND", flat, places)
    priors = ctx.emit("Reshape", found.priors, shape_list(ctx, [groups, -1]))
    image, kind = ctx.emit("Div", group, classes), ctx.emit("Mod", group, classes)
    boxes = ctx.emit("GatherND", found.boxes, places)
    keep = op.keep_top_k[0]
    if keep > -1:
        order = _kept(ctx, keep, image, kind, ctx.emit("GatherND", priors, places), score, sizes)
        image, kind, score, boxes = (ctx.emit("Gather", one, order, axis=0) for one in (image, kind, score, boxes))
    if op.clip_after_nms:
        boxes = limited(ctx, boxes, 0, 1)
    if op.decrease_label_id:
        kind = ctx.emit("Sub", kind, ctx.constant(1))
    heads = [ctx.cast(unsqueeze(ctx, one, [1]), element_types.f32) for one in (image, kind)]
    rows = concat(ctx, [*heads, unsqueeze(ctx, score, [1]), boxes], 1)
    end = ctx.constant(np.array([[-1, 0, 0, 0, 0, 0, 0]], np.float32))
    count = _row_count(ctx, op, sizes)
    zeros = ctx.emit("Expand", ctx.constant(np.zeros((1, 7), np.float32)), shape_list(ctx, [count, 7]))
    filled = slice_along(ctx, concat(ctx, [rows, end, zeros], 0), 0, 0, as_list(ctx, count))
    return reshape(ctx, filled, [1, 1, -1, 7])


def _kept(ctx: Context, keep: int, image: Value, kind: Value, prior: Value, score: Value, sizes: _Sizes) -> Value:
    """Which rows are the best ``keep`` of their image, in their order: equal scores by prior and class."""
    every = [sizes.images, multiply(ctx, sizes.priors, sizes.classes)]
    place = ctx.emit("Add", ctx.emit("Mul", prior, as_scalar(ctx, sizes.classes)), kind)
    spots = concat(ctx, [unsqueeze(ctx, image, [1]), unsqueeze(ctx, place, [1])], 1)
    nothing = ctx.emit("Expand", ctx.constant(np.array([[-np.inf]], np.float32)), shape_list(ctx, every))
    dense = ctx.emit("ScatterND", nothing, spots, score)
    limit = as_list(ctx, smallest(ctx, keep, every[1]))
    kinds = [element_types.f32, element_types.i64]
    _, best = ctx.emit_many("TopK", dense, limit, count=2, types=kinds, axis=1, sorted=1)
    ones = ctx.emit("Expand", ctx.constant(1), ctx.emit("Shape", best))
    none = ctx.emit("Expand", ctx.constant(0), shape_list(ctx, every))
    is_best = ctx.emit("ScatterElements", none, best, ones, axis=1)
    chosen = ctx.emit("GatherND", is_best, spots)
    return reshape(ctx, ctx.emit("NonZero", chosen), [-1])


def _row_count(ctx: Context, op: DetectionOutput8, sizes: _Sizes) -> Size:
    keep = op.keep_top_k[0]
    if keep > 0:
        return multiply(ctx, sizes.images, keep)
    if keep == -1 and op.top_k > 0:
        return multiply(ctx, multiply(ctx, sizes.images, op.top_k), sizes.classes)
    return multiply(ctx, multiply(ctx, sizes.images, sizes.priors), sizes.classes)
