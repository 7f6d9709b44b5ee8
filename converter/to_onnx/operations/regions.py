"""Regions of images, pooled to one size."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from ir_runtime.graph import element_types
from ir_runtime.operations.regions import ROIAlign3, ROIAlign9


@ir_op(ROIAlign3, ROIAlign9)
def roi_align(ctx: Context, op: ROIAlign9, x: Value, regions: Value, batches: Value) -> Value:
    """RoiAlign (opset 16); maxima as MaxPool of its points, each of which is a bin of its own"""
    ratio, each = op.sampling_ratio, 1
    if op.mode == "max":
        if not ratio:
            ctx.fail("maxima over a number of points that depends on the region (sampling_ratio=0) cannot be expressed")
        ratio, each = 1, ratio
    ctx.opsets.require(16, "RoiAlign at half pixels")
    aligned = getattr(op, "aligned_mode", "asymmetric")
    if aligned == "half_pixel":
        regions = ctx.emit("Add", regions, ctx.like(0.5, regions))
    pooled = ctx.emit(
        "RoiAlign",
        x,
        regions,
        ctx.cast(batches, element_types.i64),
        coordinate_transformation_mode="output_half_pixel" if aligned == "asymmetric" else "half_pixel",
        mode="avg",
        output_height=op.pooled_h * each,
        output_width=op.pooled_w * each,
        sampling_ratio=ratio,
        spatial_scale=op.spatial_scale,
    )
    if op.mode == "avg":
        return pooled
    return ctx.emit("Relu", ctx.emit("MaxPool", pooled, kernel_shape=[each, each], strides=[each, each]))
