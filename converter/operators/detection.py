"""ONNX's NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from converter.context import Context
from converter.registry import onnx_op
from ir_runtime.graph import Output
from ir_runtime.operations import detection, elementwise

from .shapes import as_scalar, extent

# What lies above 0 and between a threshold and the next float of 32 bits: more than half of the gap
# and less than one and a half, wherever between two powers of two the threshold lies.
_NEXT = np.float32(0.7 * 2.0**-23)
_LEAST = np.finfo(np.float32).tiny


@onnx_op("NonMaxSuppression", versions=(10, 11))
def non_max_suppression(
    ctx: Context,
    boxes: Output,
    scores: Output,
    max_output_boxes_per_class: Output | None = None,
    iou_threshold: Output | None = None,
    score_threshold: Output | None = None,
    *,
    center_point_box: int = 0,
) -> Output:
    """One row ``batch, class, box`` for each box that is kept, by batch, class and falling score.

    Without the most boxes a class may have there are none; without a score threshold any score will do.
    """
    if center_point_box not in (0, 1):
        raise ctx.invalid(f"center_point_box must be 0 or 1, but is {center_point_box}")
    limit = ctx.constant(0) if max_output_boxes_per_class is None else max_output_boxes_per_class
    limit = as_scalar(ctx, limit, "max_output_boxes_per_class")
    known = limit.type.constant
    if known is not None and int(known) <= 0:
        return ctx.constant(np.empty((0, 3), np.int64))
    if known is not None:
        # Models write the greatest i64 for "all"; the CPU plug-in computes it in i32.
        limit = ctx.constant(min(int(known), np.iinfo(np.int32).max))
    limit = ctx.emit(elementwise.Minimum1(), limit, extent(ctx, boxes, 1))
    least = ctx.constant(-np.inf, "f32")
    if score_threshold is not None:
        least = as_scalar(ctx, score_threshold, "score_threshold")
    op = detection.NonMaxSuppression9(
        box_encoding="center" if center_point_box else "corner", sort_result_descending=False, output_type="i64"
    )
    return ctx.emit(op, boxes, scores, limit, _exceeding(ctx, iou_threshold), least)


def _exceeding(ctx: Context, threshold: Output | None) -> Output:
    """The next number above the threshold: ONNX suppresses what exceeds it, the IR what reaches it."""
    if threshold is None:
        return ctx.constant(_LEAST, "f32")
    value = as_scalar(ctx, threshold, "iou_threshold")
    known = value.type.constant
    if known is not None:
        return ctx.constant(max(np.nextafter(np.float32(known), np.float32(np.inf)), _LEAST), "f32")
    gap = ctx.emit(elementwise.Multiply1(), value, ctx.constant(_NEXT, "f32"))
    above = ctx.emit(elementwise.Add1(), value, gap)
    return ctx.emit(elementwise.Maximum1(), above, ctx.constant(_LEAST, "f32"))
