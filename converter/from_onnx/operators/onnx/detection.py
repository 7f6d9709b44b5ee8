"""ONNX's boxes: NonMaxSuppression, RoiAlign and MaxRoiPool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import detection, reduction, regions
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

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
    center_point_box: Literal[0, 1] = 0,
) -> Output:
    """One row ``batch, class, box`` for each box that is kept, by batch, class and falling score.

    Without the most boxes a class may have there are none; without a score threshold any score will do.
    """
    limit = ctx.constant(0) if max_output_boxes_per_class is None else max_output_boxes_per_class
    limit = as_scalar(ctx, limit, "max_output_boxes_per_class")
    constant = limit.type.constant
    if constant is not None and int(constant) <= 0:
        return ctx.constant(np.empty((0, 3), np.int64))
    least = ctx.constant(-np.inf, "f32")
    if score_threshold is not None:
        least = as_scalar(ctx, score_threshold, "score_threshold")
    op = detection.NonMaxSuppression9(
        box_encoding="center" if center_point_box else "corner",
        sort_result_descending=False,
        output_type=element_types.i64,
    )
    return ctx.emit(op, boxes, scores, limit, _exceeding(ctx, iou_threshold), least)


def _exceeding(ctx: Context, threshold: Output | None) -> Output:
    """The next number above the threshold: ONNX suppresses what exceeds it, the IR what reaches it."""
    if threshold is None:
        return ctx.constant(_LEAST, "f32")
    value = as_scalar(ctx, threshold, "iou_threshold")
    constant = value.type.constant
    if constant is not None:
        return ctx.constant(max(np.nextafter(np.float32(constant), np.float32(np.inf)), _LEAST), "f32")
    gap = layers.multiply(ctx, value, ctx.constant(_NEXT, "f32"))
    above = layers.add(ctx, value, gap)
    return layers.maximum(ctx, above, ctx.constant(_LEAST, "f32"))


# --- regions ---


@onnx_op("RoiAlign", versions=(10,), without=("coordinate_transformation_mode",))
@onnx_op("RoiAlign", versions=(16, 22))
def roi_align(
    ctx: Context,
    x: Output,
    rois: Output,
    batch_indices: Output,
    *,
    coordinate_transformation_mode: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
    mode: Literal["avg", "max"] = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Output:
    """Regions pooled over interpolated points.

    Their coordinates are those of elements (output_half_pixel, and before version 16), or lie half an element
    further to the front (half_pixel).
    """
    shifted = ctx.version >= 16 and coordinate_transformation_mode == "half_pixel"
    size = (output_height, output_width)
    if min(size) < 1 or sampling_ratio < 0:
        raise ctx.invalid("output_height and output_width must be positive, and sampling_ratio must not be negative")
    data, corners = (computable(ctx, value) for value in (x, rois))
    if mode == "max":
        if sampling_ratio == 0:
            raise ctx.unsupported("maxima over a number of points that depends on the region (sampling_ratio 0)")
        from converter.from_onnx.lowering.region_maxima import RegionMaxima  # few models need it

        values = RegionMaxima(size, sampling_ratio, spatial_scale, shifted).greatest(ctx, data, corners, batch_indices)
        return as_type_of(ctx, values, x)
    aligned = "half_pixel_for_nn" if shifted else "asymmetric"
    op = regions.ROIAlign9(
        pooled_h=size[0],
        pooled_w=size[1],
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
        mode="avg",
        aligned_mode=aligned,
    )
    pooled = ctx.emit(op, data, corners, batch_indices)
    if shifted and sampling_ratio == 0:
        # A region of no dimension has no points: ONNX gives 0, the IR divides by their number.
        sides = layers.subtract(ctx, _columns(ctx, corners, [2, 3]), _columns(ctx, corners, [0, 1]))
        least = ctx.emit(reduction.ReduceMin1(keep_dims=True), sides, ctx.constant([1]))
        some = layers.greater(ctx, least, ctx.like(0, least))
        some = layers.unsqueeze(ctx, some, 2, 3)
        pooled = layers.select(ctx, some, pooled, ctx.like(0, pooled))
    return as_type_of(ctx, pooled, x)


def computable(ctx: Context, value: Output) -> Output:
    """Floats of 16 bits as f32, in which the kernels of both engines compute."""
    small = value.element_type in (element_types.f16, element_types.bf16)
    return in_type(ctx, value, element_types.f32) if small else value


def as_type_of(ctx: Context, value: Output, like: Output) -> Output:
    """``value`` in the element type of ``like``, where that is known."""
    return value if like.element_type.is_dynamic else in_type(ctx, value, like.element_type)


def _columns(ctx: Context, rows: Output, chosen: int | list[int]) -> Output:
    return layers.gather(ctx, rows, ctx.constant(chosen), ctx.constant(1))


@onnx_op("MaxRoiPool", versions=(1, 22))
def max_roi_pool(
    ctx: Context, x: Output, rois: Output, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Output:
    """The greatest elements in each bin of regions ``[R, 5]``: the batch, then x1, y1, x2, y2."""
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise ctx.invalid(f"pooled_shape must be two positive numbers, but is {list(pooled_shape)}")
    op = regions.ROIPooling2(output_roi=pooled_shape, spatial_scale=spatial_scale, method="max")
    return as_type_of(ctx, ctx.emit(op, computable(ctx, x), computable(ctx, rois)), x)
