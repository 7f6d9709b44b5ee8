"""Regions that a network proposes: Proposal, GenerateProposals and Detectron's kin of a single image."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.boxes import (
    best_scores,
    clipped,
    first_rows,
    large_enough,
    padded,
    refined,
    rows_at,
    scores_where,
    taken_marks,
)
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reshape, slice_along, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import Size, as_list, positions, shape_list, size_of, sizes_of, smallest
from ir_runtime.graph import element_types
from ir_runtime.operations.detectron import ExperimentalDetectronGenerateProposalsSingleImage6
from ir_runtime.operations.proposals import LOGARITHM_LIMIT, GenerateProposals9, Proposal1, Proposal4


@ir_op(Proposal1, Proposal4, local_function=True)
def proposal(ctx: Context, op: Proposal4, scores: Value, deltas: Value, image: Value) -> list[Value]:
    """Anchors that the deltas move; the best by TopK, of which NonMaxSuppression or a Loop takes some"""
    kind = scores.element_type
    scores, deltas, image = (ctx.cast(one, element_types.f32) for one in (scores, deltas, image))
    anchors = op.anchors()
    images, _, height, width = sizes_of(ctx, scores)
    pixel = 0.0 if op.is_tensorflow else 1.0
    # Boxes and deltas come by row, column and anchor.
    values = _by_place(ctx, slice_along(ctx, scores, 1, len(anchors), 2 * len(anchors)), 1)
    parts = _by_place(ctx, deltas, 4)
    divisors = np.repeat(np.array([op.box_coordinate_scale, op.box_size_scale], np.float32), 2)
    tall, wide = (_entry(ctx, image, place) for place in ((1, 0) if op.is_tensorflow else (0, 1)))
    boxes = _grid(ctx, op, anchors, height, width)
    if op.is_tensorflow:
        boxes = clipped(ctx, boxes, wide, tall)
    boxes = refined(ctx, boxes, ctx.emit("Div", parts, ctx.constant(divisors)), pixel)
    if op.clip_before_nms:
        boxes = clipped(ctx, boxes, _less(ctx, wide, pixel), _less(ctx, tall, pixel))
    least = ctx.like(op.min_size, image)
    across, down = (ctx.emit("Mul", _entry(ctx, image, place), least) for place in (-1, 2))
    large = large_enough(ctx, boxes, across, down, pixel)
    best, chosen, _ = _best(ctx, boxes, scores_where(ctx, large, _in_rows(ctx, values, images)), op.pre_nms_topn)
    marks = taken_marks(ctx, chosen, best, op.nms_thresh, pixel=pixel, touching=True)
    rows, number, counts = first_rows(ctx, marks, op.post_nms_topn)
    taken, score = ctx.emit("GatherND", chosen, rows), ctx.emit("GatherND", best, rows)
    if op.clip_after_nms:
        taken = clipped(ctx, taken, wide, tall)
    if op.normalize:
        taken = ctx.emit("Div", taken, concat(ctx, [wide, tall, wide, tall], -1))
    return [
        ctx.cast(one, kind)
        for one in _filled(ctx, op.post_nms_topn, images, rows, number, counts, taken, score)[: len(ctx.node.outputs)]
    ]


def _in_rows(ctx: Context, values: Value, images: Size) -> Value:
    """One row of numbers for each image."""
    return ctx.emit("Reshape", values, shape_list(ctx, [images, -1]))


def _by_place(ctx: Context, values: Value, width: int) -> Value:
    """``[n, a width, h, w]`` as ``[n, h w a, width]``."""
    images, height, columns = (size_of(ctx, values, axis) for axis in (0, 2, 3))
    split = ctx.emit("Reshape", values, shape_list(ctx, [images, -1, width, height, columns]))
    return ctx.emit("Reshape", transpose(ctx, split, [0, 3, 4, 1, 2]), shape_list(ctx, [images, -1, width]))


def _grid(ctx: Context, op: Proposal4, anchors: np.ndarray, height: Size, width: Size) -> Value:
    """The anchors around each place ``[1, h w a, 4]``."""
    step = ctx.constant(op.feat_stride, element_types.f32)
    down, across = (
        ctx.emit("Mul", ctx.cast(positions(ctx, count), element_types.f32), step) for count in (height, width)
    )
    shape = shape_list(ctx, [height, width, 1, 1])
    rows, columns = (
        ctx.emit("Expand", unsqueeze(ctx, one, axes), shape) for one, axes in ((down, [1, 2, 3]), (across, [0, 2, 3]))
    )
    first, second = (rows, columns) if op.is_tensorflow else (columns, rows)
    shifts = concat(ctx, [first, second, first, second], -1)
    return reshape(ctx, ctx.emit("Add", shifts, ctx.constant(anchors)), [1, -1, 4])


def _entry(ctx: Context, image: Value, place: int) -> Value:
    """One of the numbers of the image, along the last axis."""
    return ctx.emit("Gather", image, ctx.constant([place]), axis=-1)


def _less(ctx: Context, value: Value, pixel: float) -> Value:
    return ctx.emit("Sub", value, ctx.like(pixel, value)) if pixel else value


def _best(ctx: Context, boxes: Value, scores: Value, most: int) -> tuple[Value, Value, Value]:
    """The greatest scores of ``[n, m]``, at most ``most``, the boxes ``[n, m, 4]`` of them, and their places."""
    best, places = best_scores(ctx, scores, as_list(ctx, smallest(ctx, most, size_of(ctx, scores, 1))))
    return best, rows_at(ctx, boxes, places, 3), places


def _filled(
    ctx: Context, most: int, images: Size, rows: Value, number: Value, counts: Value, taken: Value, score: Value
) -> list[Value]:
    """Rows ``image, box`` for each image, one of image -1 behind them and zeros; and the scores."""
    image = slice_along(ctx, rows, 1, 0, 1)
    spots = concat(ctx, [image, unsqueeze(ctx, number, [1])], 1)
    boxes, scores = (
        ctx.emit("ScatterND", ctx.emit("Expand", ctx.like(0, one), shape_list(ctx, shape)), spots, one)
        for one, shape in ((taken, [images, most, 4]), (score, [images, most]))
    )
    place, count = unsqueeze(ctx, positions(ctx, most), [0]), unsqueeze(ctx, counts, [1])
    none = ctx.emit("Where", ctx.emit("Equal", place, count), ctx.constant(-1), ctx.constant(0))
    numbers = unsqueeze(ctx, positions(ctx, images), [1])
    heads = ctx.emit("Where", ctx.emit("Less", place, count), numbers, none)
    made = concat(ctx, [unsqueeze(ctx, ctx.cast(heads, element_types.f32), [2]), boxes], 2)
    return [reshape(ctx, made, [-1, 5]), reshape(ctx, scores, [-1])]


def _proposed(
    ctx: Context, anchors: Value, deltas: Value, scores: Value, sizes: tuple[Value, Value], pixel: float
) -> tuple[Value, Value]:
    """All boxes ``[n, m, 4]`` cut to their image of that width and height, and their scores ``[n, m]``."""
    boxes = refined(ctx, reshape(ctx, anchors, [1, -1, 4]), _by_place(ctx, deltas, 4), pixel, LOGARITHM_LIMIT)
    if pixel:
        boxes = ctx.emit("Sub", boxes, ctx.constant(np.array([0, 0, pixel, pixel], np.float32)))
    width, height = (_less(ctx, one, pixel) for one in sizes)
    values = _by_place(ctx, scores, 1)
    return clipped(ctx, boxes, width, height), _in_rows(ctx, values, size_of(ctx, scores, 0))


@ir_op(GenerateProposals9, local_function=True)
def generate_proposals(
    ctx: Context, op: GenerateProposals9, images: Value, anchors: Value, deltas: Value, scores: Value
) -> list[Value]:
    """Anchors that the deltas move; the best by TopK, of which NonMaxSuppression or a Loop takes some"""
    kind, pixel = scores.element_type, 0.0 if op.normalized else 1.0
    images, anchors, deltas, scores = (ctx.cast(one, element_types.f32) for one in (images, anchors, deltas, scores))
    height, width, down, across = (unsqueeze(ctx, _entry(ctx, images, place), [1]) for place in (0, 1, 2, -1))
    boxes, values = _proposed(ctx, anchors, deltas, scores, (width, height), pixel)
    least = ctx.like(op.min_size, images)
    large = large_enough(ctx, boxes, ctx.emit("Mul", across, least), ctx.emit("Mul", down, least), pixel)
    best, chosen, places = _best(ctx, boxes, values, op.pre_nms_count)
    fits = ctx.emit("GatherElements", large, places, axis=1)
    # Boxes that are too small have their place among the best, but are not taken.
    marks = taken_marks(
        ctx, chosen, scores_where(ctx, fits, best), op.nms_threshold, pixel=pixel, touching=True, shrink=op.nms_eta
    )
    rows, _, counts = first_rows(ctx, marks, op.post_nms_count)
    found = [ctx.cast(ctx.emit("GatherND", one, rows), kind) for one in (chosen, best)]
    return [*found, ctx.cast(counts, op.roi_num_type)]


@ir_op(ExperimentalDetectronGenerateProposalsSingleImage6, local_function=True)
def generate_proposals_of_one_image(
    ctx: Context,
    op: ExperimentalDetectronGenerateProposalsSingleImage6,
    image: Value,
    anchors: Value,
    deltas: Value,
    scores: Value,
) -> list[Value]:
    """Anchors that the deltas move; the best by TopK, of which NonMaxSuppression takes some"""
    kind = scores.element_type
    image, anchors, deltas, scores = (ctx.cast(one, element_types.f32) for one in (image, anchors, deltas, scores))
    height, width = (_entry(ctx, image, place) for place in (0, 1))
    deltas, scores = (unsqueeze(ctx, one, [0]) for one in (deltas, scores))
    boxes, values = _proposed(ctx, anchors, deltas, scores, (width, height), 1.0)
    least = ctx.constant([op.min_size], element_types.f32)
    large = large_enough(ctx, boxes, least, least, 1.0)
    best, chosen, _ = _best(ctx, boxes, scores_where(ctx, large, values), op.pre_nms_count)
    # Here a box ends at its upper corner, other than where it was moved.
    rows, _, _ = first_rows(ctx, taken_marks(ctx, chosen, best, op.nms_threshold), op.post_nms_count)
    return [
        ctx.cast(padded(ctx, ctx.emit("GatherND", one, rows), op.post_nms_count, shape), kind)
        for one, shape in ((chosen, [4]), (best, []))
    ]
