"""Regions pooled from whole maps: ROIPooling."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import concat, slice_along, unsqueeze
from ir_runtime.graph import element_types
from ir_runtime.operations.regions import ROIPooling2


@ir_op(ROIPooling2, local_function=True)
def roi_pooling(ctx: Context, op: ROIPooling2, x: Value, regions: Value) -> Value:
    """MaxRoiPool; for the method bilinear the four neighbours of each point"""
    if op.method != "max":
        return ctx.decompose()[0]
    element_type = x.element_type
    x, regions = (ctx.cast(value, element_types.f32) for value in (x, regions))
    first = ctx.emit("Gather", regions, ctx.constant(0), axis=1)
    ends = ctx.cast(ctx.emit("Equal", first, ctx.like(-1, first)), element_types.i64)
    is_region = ctx.emit("Equal", ctx.emit("CumSum", ends, ctx.constant(0)), ctx.constant(0))
    image = unsqueeze(ctx, ctx.emit("Where", is_region, first, ctx.like(0, first)), [1])
    rois = concat(ctx, [image, slice_along(ctx, regions, 1, 1, 5)], 1)
    pooled = ctx.emit("MaxRoiPool", x, rois, pooled_shape=list(op.output_roi), spatial_scale=op.spatial_scale)
    return ctx.cast(ctx.emit("Where", unsqueeze(ctx, is_region, [1, 2, 3]), pooled, ctx.like(0, pooled)), element_type)
