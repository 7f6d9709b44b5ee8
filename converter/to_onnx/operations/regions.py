"""Regions of images, pooled to one size."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import concat, slice_along, unsqueeze
from ir_runtime.graph import element_types
from ir_runtime.operations.regions import ROIAlign3, ROIAlign9, ROIPooling2


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


@ir_op(ROIPooling2, local_function=True)
def roi_pooling(ctx: Context, op: ROIPooling2, x: Value, regions: Value) -> Value:
    """MaxRoiPool; for the method bilinear the four neighbours of each point"""
    if op.method != "max":
        return ctx.decompose()[0]
    x, regions = (ctx.cast(value, element_types.f32) for value in (x, regions))
    first = ctx.emit("Gather", regions, ctx.constant(0), axis=1)
    ends = ctx.cast(ctx.emit("Equal", first, ctx.like(-1, first)), element_types.i64)
    is_region = ctx.emit("Equal", ctx.emit("CumSum", ends, ctx.constant(0)), ctx.constant(0))
    image = unsqueeze(ctx, ctx.emit("Where", is_region, first, ctx.like(0, first)), [1])
    rois = concat(ctx, [image, slice_along(ctx, regions, 1, 1, 5)], 1)
    pooled = ctx.emit("MaxRoiPool", x, rois, pooled_shape=list(op.output_roi), spatial_scale=op.spatial_scale)
    return ctx.emit("Where", unsqueeze(ctx, is_region, [1, 2, 3]), pooled, ctx.like(0, pooled))
