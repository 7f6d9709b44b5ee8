"""Boxes without those that overlap better ones, at regular places of an image, and pooled to one size."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import concat, known_number, reshape, slice_along, unsqueeze
from ir_runtime.graph import Output, element_types
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import detection as ir
from ir_runtime.operations.elementwise import Add1, Maximum1, Multiply1
from ir_runtime.operations.priors import PriorBox1, PriorBox8, PriorBoxClustered1
from ir_runtime.operations.regions import ROIAlign3, ROIAlign9, ROIPooling2
from ir_runtime.rewriting import Match, anything, layer, number

_NUMBER = anything("number")
_GAP = layer(Multiply1, _NUMBER, number(float(np.float32(0.7 * 2.0**-23))))
_NEXT_NUMBER = layer(Maximum1, layer(Add1, _NUMBER, _GAP), anything())


@ir_op(
    ir.NonMaxSuppression1,
    ir.NonMaxSuppression3,
    ir.NonMaxSuppression4,
    ir.NonMaxSuppression5,
    ir.NonMaxSuppression9,
    local_function=True,
)
def non_max_suppression(
    ctx: Context,
    op: ir.NonMaxSuppression9,
    boxes: Value,
    scores: Value,
    limit: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
    sigma: Value | None = None,
) -> list[Value]:
    """NonMaxSuppression; soft suppression in a Loop; sorted by score over all classes with TopK"""
    values = ctx.cast(scores, element_types.f32)
    most = ctx.constant([0]) if limit is None else reshape(ctx, ctx.cast(limit, element_types.i64), [1])
    floor = ctx.constant([0.0]) if least is None else reshape(ctx, ctx.cast(least, element_types.f32), [1])
    if sigma is not None and known_number(ctx, sigma) != 0:
        return ctx.decompose()
    most = _limit(ctx, most, overlap)
    rows = ctx.emit(
        "NonMaxSuppression",
        ctx.cast(boxes, element_types.f32),
        values,
        most,
        _threshold(ctx, overlap),
        floor,
        center_point_box=int(op.box_encoding == "center") or None,
    )
    best = ctx.emit("GatherND", values, rows)
    if op.sort_result_descending:
        best, order = ctx.emit_many("TopK", best, ctx.emit("Shape", best), count=2, axis=0, sorted=1)
        rows = ctx.emit("Gather", rows, order, axis=0)
    if len(ctx.node.outputs) == 1:
        return [rows]
    ends = ctx.constant([0]), ctx.constant([2]), ctx.constant([1])
    indices = ctx.cast(ctx.emit("Slice", rows, *ends), element_types.f32)
    scored = ctx.emit("Concat", indices, ctx.emit("Unsqueeze", best, ctx.constant([1])), axis=1)
    return [rows, scored, ctx.emit("Shape", best)]


def _limit(ctx: Context, most: Value, overlap: Value | None) -> Value:
    """At most one box where the threshold is 0: every other one overlaps by 0 at least."""
    threshold = 0.0 if overlap is None else known_number(ctx, overlap)
    if threshold is not None:
        return most if threshold > 0 else ctx.emit("Min", most, ctx.constant([1]))
    if overlap is None or _before_next_number(ctx.node.inputs[3]) is not None:
        return most
    is_zero = ctx.emit("LessOrEqual", reshape(ctx, overlap, [1]), ctx.like(0, overlap))
    return ctx.emit("Where", is_zero, ctx.emit("Min", most, ctx.constant([1])), most)


def _before_next_number(value: Output) -> Output | None:
    """The number above which ``value`` is the next float32: max(x + 0.7 * 2^-23 x, least number)."""
    match = _NEXT_NUMBER.match(value)
    return match["number"] if isinstance(match, Match) else None


def _threshold(ctx: Context, overlap: Value | None) -> Value:
    """ONNX suppresses beyond the threshold, the IR at the threshold already: the next smaller number."""
    if overlap is None:
        return ctx.constant([0.0])
    number = known_number(ctx, overlap)
    if number is not None:
        return ctx.constant(np.array([max(np.nextafter(np.float32(number), np.float32(-1)), 0)], np.float32))
    before = _before_next_number(ctx.node.inputs[3])
    if before is not None:
        return reshape(ctx, ctx.cast(ctx.value(before), element_types.f32), [1])
    value = reshape(ctx, ctx.cast(overlap, element_types.f32), [1])
    return ctx.emit("Mul", value, ctx.constant(np.array([1 - 2.0**-24], np.float32)))


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


@ir_op(PriorBox1, PriorBox8, PriorBoxClustered1, local_function=True)
def prior_boxes(ctx: Context, op: Operation, layer: Value, image: Value) -> Value:
    """A constant: the sizes of layer and image must be known"""
    sizes = [ctx.constant_values(shape_input) for shape_input in (layer, image)]
    if sizes[0] is None or sizes[1] is None:
        ctx.fail("the sizes of the layer and of the image must be known: set the shapes of the inputs first")
    boxes = op.evaluate(sizes[0], sizes[1])
    return ctx.constant(np.asarray(boxes), ctx.node.outputs[0].element_type)
