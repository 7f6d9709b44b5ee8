"""Suppression over all classes of a batch at once: MatrixNms and MulticlassNms."""

from __future__ import annotations

import math
from typing import NamedTuple, Union

from converter.to_onnx.boxes import LOWEST, best_scores, rows_at, scores_where, shares, taken_marks
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reduce, reshape, slice_along, squeeze, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import Size, as_list, as_scalar, multiply, positions, shape_list, size_of, smallest
from ir_runtime.graph import ElementType, element_types
from ir_runtime.operations.nms_variants import MatrixNms8, MulticlassNms8, MulticlassNms9

_Selection = Union[MatrixNms8, MulticlassNms8, MulticlassNms9]
_KINDS = [element_types.f32, element_types.i64]


class _Sizes(NamedTuple):
    """Numbers of images, of classes and of boxes."""

    images: Size
    classes: Size
    boxes: Size


class _Sorted(NamedTuple):
    """The best boxes of each class in each image."""

    boxes: Value
    """``[n c, k, 4]``"""
    scores: Value
    """``[n c, k]``, minus infinity for those that do not count"""
    places: Value
    """``[n c, k]``"""


@ir_op(MatrixNms8, local_function=True)
def matrix_nms(ctx: Context, op: MatrixNms8, boxes: Value, scores: Value) -> list[Value]:
    """The scores times the least decay of all overlaps at once, sorted by TopK"""
    kind = boxes.element_type
    boxes, scores = (ctx.cast(one, element_types.f32) for one in (boxes, scores))
    sizes = _Sizes(size_of(ctx, scores, 0), size_of(ctx, scores, 1), size_of(ctx, scores, 2))
    is_high = ctx.emit("Greater", scores, ctx.like(max(op.score_threshold, LOWEST), scores))
    best = _sorted(ctx, op, unsqueeze(ctx, boxes, [1]), scores_where(ctx, is_high, scores), sizes)
    one, others = (unsqueeze(ctx, best.boxes, [axis]) for axis in (2, 1))
    share = shares(ctx, one, others, op.pixel(), touching=True)
    rank = positions(ctx, ctx.emit("Gather", ctx.emit("Shape", best.scores), ctx.constant([1]), axis=0))
    is_better = ctx.emit("Less", unsqueeze(ctx, rank, [0]), unsqueeze(ctx, rank, [1]))
    share = ctx.emit("Where", is_better, share, ctx.like(0, share))
    greatest = unsqueeze(ctx, reduce(ctx, "ReduceMax", share, [2], keepdims=False), [1])
    decay = ctx.emit("Where", is_better, _decay(ctx, op, share, greatest), ctx.like(1, share))
    factor = ctx.emit("Min", reduce(ctx, "ReduceMin", decay, [2], keepdims=False), ctx.like(1, decay))
    lowered = ctx.emit("Mul", best.scores, factor)
    kept = scores_where(ctx, ctx.emit("Greater", lowered, ctx.like(max(op.post_threshold, LOWEST), lowered)), lowered)
    return _written(ctx, op, boxes, _dense(ctx, kept, best.places, sizes), sizes, kind)


def _decay(ctx: Context, op: MatrixNms8, share: Value, greatest: Value) -> Value:
    if op.decay_function == "gaussian":
        squares = [ctx.emit("Mul", one, one) for one in (greatest, share)]
        power = ctx.emit("Mul", ctx.emit("Sub", *squares), ctx.like(op.gaussian_sigma, share))
        return ctx.emit("Exp", power)
    # In float64, where the small number keeps boxes that are the same from dividing 0 by 0.
    wide = [ctx.cast(one, element_types.f64) for one in (share, greatest)]
    left, before = (ctx.emit("Sub", ctx.like(1, one), one) for one in wide)
    return ctx.cast(ctx.emit("Div", left, ctx.emit("Add", before, ctx.like(1e-10, before))), element_types.f32)


@ir_op(MulticlassNms8, MulticlassNms9, local_function=True)
def multiclass_nms(
    ctx: Context, op: MulticlassNms9, boxes: Value, scores: Value, counts: Value | None = None
) -> list[Value]:
    """NonMaxSuppression within each class, sorted by TopK; a threshold that shrinks in a Loop"""
    kind = boxes.element_type
    boxes, scores = (ctx.cast(one, element_types.f32) for one in (boxes, scores))
    if counts is None:
        sizes = _Sizes(size_of(ctx, scores, 0), size_of(ctx, scores, 1), size_of(ctx, scores, 2))
        boxes = unsqueeze(ctx, boxes, [1])
    else:
        # The lists of the classes hold the boxes of one image after the other.
        sizes = _Sizes(size_of(ctx, counts, 0), size_of(ctx, scores, 0), size_of(ctx, scores, 1))
        own = ctx.emit("Max", ctx.cast(counts, element_types.i64), ctx.constant([0]))
        ends = ctx.emit("CumSum", own, ctx.constant(0))
        first, last = (unsqueeze(ctx, one, [1, 2]) for one in (ctx.emit("Sub", ends, own), ends))
        place = positions(ctx, sizes.boxes)
        is_own = ctx.emit("And", ctx.emit("Less", place, last), ctx.emit("GreaterOrEqual", place, first))
        boxes, scores = unsqueeze(ctx, boxes, [0]), scores_where(ctx, is_own, unsqueeze(ctx, scores, [0]))
    is_high = ctx.emit("GreaterOrEqual", scores, ctx.like(max(op.score_threshold, LOWEST), scores))
    best = _sorted(ctx, op, boxes, scores_where(ctx, is_high, scores), sizes)
    taken = taken_marks(
        ctx, best.boxes, best.scores, op.iou_threshold, pixel=op.pixel(), inclusive=True, shrink=op.nms_eta
    )
    kept = scores_where(ctx, taken, best.scores)
    return _written(ctx, op, boxes, _dense(ctx, kept, best.places, sizes), sizes, kind)


def _sorted(ctx: Context, op: _Selection, boxes: Value, scores: Value, sizes: _Sizes) -> _Sorted:
    """The best boxes of each class, of ``boxes`` ``[1 or n, 1 or c, m, 4]`` and ``scores`` ``[n, c, m]``."""
    if op.background_class >= 0:
        numbers = unsqueeze(ctx, positions(ctx, sizes.classes), [1])
        is_background = ctx.emit("Equal", numbers, ctx.constant(op.background_class))
        scores = scores_where(ctx, ctx.emit("Not", is_background), scores)
    most = sizes.boxes if op.nms_top_k < 0 else smallest(ctx, op.nms_top_k, sizes.boxes)
    best, places = best_scores(ctx, scores, as_list(ctx, most))
    wide = ctx.emit("Expand", boxes, shape_list(ctx, [*sizes, 4]))
    groups = multiply(ctx, sizes.images, sizes.classes)
    return _Sorted(
        ctx.emit("Reshape", rows_at(ctx, wide, places, 4), shape_list(ctx, [groups, most, 4])),
        ctx.emit("Reshape", best, shape_list(ctx, [groups, most])),
        ctx.emit("Reshape", places, shape_list(ctx, [groups, most])),
    )


def _dense(ctx: Context, scores: Value, places: Value, sizes: _Sizes) -> Value:
    """The scores ``[n c, k]`` at the places of their boxes ``[n, c m]``, minus infinity elsewhere."""
    groups = multiply(ctx, sizes.images, sizes.classes)
    nothing = ctx.emit("Expand", ctx.like(-math.inf, scores), shape_list(ctx, [groups, sizes.boxes]))
    spread = ctx.emit("ScatterElements", nothing, places, scores, axis=1)
    return ctx.emit("Reshape", spread, shape_list(ctx, [sizes.images, multiply(ctx, sizes.classes, sizes.boxes)]))


def _written(
    ctx: Context, op: _Selection, boxes: Value, scores: Value, sizes: _Sizes, kind: ElementType
) -> list[Value]:
    """The three outputs for the scores ``[n, c m]`` of the boxes that come out."""
    if boxes.shape.has_rank and boxes.shape.rank == 3:
        boxes = unsqueeze(ctx, boxes, [1])
    every = multiply(ctx, sizes.classes, sizes.boxes)
    most = every if op.keep_top_k < 0 else smallest(ctx, op.keep_top_k, every)
    # Equal scores come by class and place.
    best, spots = ctx.emit_many("TopK", scores, as_list(ctx, most), count=2, types=_KINDS, axis=1, sorted=1)
    is_kept = ctx.emit("Greater", best, ctx.like(-math.inf, best))
    by_class = op.sort_result_type == "classid"
    if by_class and op.sorts_classes_of_image():
        classes = ctx.emit("Div", spots, as_scalar(ctx, sizes.boxes))
        last = ctx.emit("Where", is_kept, classes, as_scalar(ctx, sizes.classes))
        order = _order(ctx, last, most, axis=1)
        best, spots, is_kept = (_at(ctx, one, order) for one in (best, spots, is_kept))
    count = reduce(ctx, "ReduceSum", ctx.cast(is_kept, element_types.i64), [1], keepdims=False)
    rows = transpose(ctx, ctx.emit("NonZero", is_kept), [1, 0])
    image = squeeze(ctx, slice_along(ctx, rows, 1, 0, 1), [1])
    score, spot = (ctx.emit("GatherND", one, rows) for one in (best, spots))
    of_class = ctx.emit("Div", spot, as_scalar(ctx, sizes.boxes))
    if op.sort_result_across_batch and op.sort_result_type != "none":
        total: Size = ctx.emit("Shape", score)
        if by_class:
            order = _order(ctx, of_class, total, axis=0)
        else:
            order = ctx.emit_many("TopK", score, as_list(ctx, total), count=2, types=_KINDS, axis=0, sorted=1)[1]
        image, score, spot, of_class = (
            ctx.emit("Gather", one, order, axis=0) for one in (image, score, spot, of_class)
        )
    place = ctx.emit("Mod", spot, as_scalar(ctx, sizes.boxes))
    wide = ctx.emit("Expand", boxes, shape_list(ctx, [*sizes, 4]))
    where = concat(ctx, [unsqueeze(ctx, one, [1]) for one in (image, of_class, place)], 1)
    heads = [unsqueeze(ctx, one, [1]) for one in (ctx.cast(of_class, element_types.f32), score)]
    made = concat(ctx, [*heads, ctx.emit("GatherND", wide, where)], 1)
    if len(ctx.node.inputs) > 2:
        index = ctx.emit("Add", ctx.emit("Mul", place, as_scalar(ctx, sizes.classes)), of_class)
    else:
        index = ctx.emit("Add", ctx.emit("Mul", image, as_scalar(ctx, sizes.boxes)), place)
    numbers = reshape(ctx, index, [-1, 1]), count
    return [ctx.cast(made, kind), *(ctx.cast(one, op.output_type) for one in numbers)]


def _order(ctx: Context, keys: Value, count: Size, axis: int) -> Value:
    """The places of whole numbers in rising order; equal ones stay as they are."""
    types = [element_types.i64, element_types.i64]
    return ctx.emit_many("TopK", keys, as_list(ctx, count), count=2, types=types, axis=axis, largest=0, sorted=1)[1]


def _at(ctx: Context, values: Value, order: Value) -> Value:
    return ctx.emit("GatherElements", values, order, axis=1)
