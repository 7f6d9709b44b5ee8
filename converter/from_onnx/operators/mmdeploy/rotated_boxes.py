"""MMDeploy's operators on rotated boxes.

https://mmdeploy.readthedocs.io/en/latest/06-custom-ops/onnxruntime.html
"""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import movement, nms_rotated, regions
from ir_runtime.rewriting.layers import cut, in_type

MMDEPLOY = "mmdeploy"


@onnx_op("NMSRotated", domain=MMDEPLOY, versions=(1,))
def suppressed(ctx: Context, boxes: Output, scores: Output, *, iou_threshold: float, score_threshold: float) -> Output:
    """Rows ``batch, class, box`` of the boxes that overlap no better one by more than a threshold.

    Boxes are centre x, y, width, height and angle ``[batches, boxes, 5]``, scores
    ``[batches, classes, boxes]``.
    """
    limits = [ctx.constant(value, "f32") for value in (iou_threshold, score_threshold)]
    most = ctx.constant(np.iinfo(np.int32).max)
    return ctx.emit(
        nms_rotated.NMSRotated13(clockwise=False, output_type=element_types.i64), boxes, scores, most, *limits
    )


@onnx_op("MMCVRoIAlignRotated", domain=MMDEPLOY, versions=(1,))
def roi_align_rotated(
    ctx: Context,
    x: Output,
    rois: Output,
    *,
    aligned: int = 1,
    clockwise: int = 0,
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 1,
    spatial_scale: float = 1.0,
) -> Output:
    """Averages over the bins of each region, a row ``batch, centre x, y, width, height, angle``."""
    if not aligned:
        raise ctx.unsupported("aligned is 0, but in the IR elements lie at half pixels")
    batches = ctx.emit(movement.Reshape1(special_zero=False), cut(ctx, rois, 0, 1, 1), ctx.constant([-1]))
    op = regions.ROIAlignRotated15(
        pooled_h=output_height,
        pooled_w=output_width,
        sampling_ratio=sampling_ratio,
        spatial_scale=spatial_scale,
        clockwise_mode=bool(clockwise),
    )
    return ctx.emit(op, x, cut(ctx, rois, 1, None, 1), in_type(ctx, batches, element_types.i32))
