"""Regions pooled from whole maps: ROIPooling and ROIAlignRotated."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reduce, transpose, unsqueeze
from converter.to_onnx.points import (
    before_end,
    column,
    entry,
    flat_index,
    for_each,
    interpolated,
    last_channels,
    points_around,
    regular_points,
)
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import as_scalar, size_of
from ir_runtime.graph import element_types
from ir_runtime.operations.regions import ROIAlignRotated15, ROIPooling2


@ir_op(ROIPooling2, local_function=True)
def roi_pooling(ctx: Context, op: ROIPooling2, x: Value, regions: Value) -> Value:
    """MaxRoiPool; for the method bilinear the four neighbours of each point"""
    kind = x.element_type
    x, regions = (ctx.cast(one, element_types.f32) for one in (x, regions))
    is_region, image = before_end(ctx, regions)
    if op.method == "max":
        corners = ctx.emit("Slice", regions, ctx.constant([1]), ctx.constant([5]), ctx.constant([1]))
        given = concat(ctx, [unsqueeze(ctx, ctx.cast(image, element_types.f32), [1]), corners], 1)
        shape = list(op.output_roi)
        made = ctx.emit("MaxRoiPool", x, given, pooled_shape=shape, spatial_scale=op.spatial_scale)
    else:
        made = _between(ctx, op, x, regions, image)
    shown = unsqueeze(ctx, is_region, [1, 2, 3])
    return ctx.cast(ctx.emit("Where", shown, made, ctx.like(0, made)), kind)


def _between(ctx: Context, op: ROIPooling2, x: Value, regions: Value, image: Value) -> Value:
    height, width = (size_of(ctx, x, axis) for axis in (2, 3))
    rows = regular_points(ctx, column(ctx, regions, 2), column(ctx, regions, 4), op.output_roi[0], height)
    columns = regular_points(ctx, column(ctx, regions, 1), column(ctx, regions, 3), op.output_roi[1], width)
    down = points_around(ctx, unsqueeze(ctx, rows, [2]), height, 0.0)
    across = points_around(ctx, unsqueeze(ctx, columns, [1]), width, 0.0)
    first = unsqueeze(ctx, image, [1, 2])

    def index(row: Value, place: Value) -> Value:
        return flat_index(ctx, (first, 0), (row, height), (place, width))

    return transpose(ctx, interpolated(ctx, last_channels(ctx, x), index, down, across), [0, 3, 1, 2])


@ir_op(ROIAlignRotated15, local_function=True)
def roi_align_rotated(ctx: Context, op: ROIAlignRotated15, x: Value, regions: Value, batches: Value) -> Value:
    """Means of interpolated points of each region's bins, in a Loop over the regions"""
    kind = x.element_type
    work = element_types.f64 if kind is element_types.f64 else element_types.f32
    x, regions = ctx.cast(x, work), ctx.cast(regions, work)
    image = ctx.cast(batches, element_types.i64)
    height, width = (size_of(ctx, x, axis) for axis in (2, 3))
    flat = last_channels(ctx, x)
    scale = ctx.like(op.spatial_scale, regions)

    def of_region(inner: Context, number: Value) -> list[Value]:
        region, first = (inner.emit("Gather", one, number, axis=0) for one in (regions, image))
        numbers = [entry(inner, region, place) for place in range(5)]
        centre = [inner.emit("Sub", inner.emit("Mul", one, scale), inner.like(0.5, one)) for one in numbers[:2]]
        sides = [inner.emit("Mul", one, scale) for one in numbers[2:4]]
        x_places, y_places = (
            _along(inner, side, bins, op.sampling_ratio) for side, bins in zip(sides, (op.pooled_w, op.pooled_h))
        )
        angle = inner.emit("Neg", numbers[4]) if op.clockwise_mode else numbers[4]
        cosine, sine = (inner.emit(op_type, angle) for op_type in ("Cos", "Sin"))
        down, across = unsqueeze(inner, y_places, [1, 3]), unsqueeze(inner, x_places, [0, 2])
        rows, columns = (
            inner.emit(op_type, inner.emit("Mul", down, one), inner.emit("Mul", across, other))
            for op_type, one, other in (("Sub", cosine, sine), ("Add", sine, cosine))
        )
        found = interpolated(
            inner,
            flat,
            lambda row, place: flat_index(inner, (first, 0), (row, height), (place, width)),
            points_around(inner, inner.emit("Add", rows, centre[1]), height, 1.0),
            points_around(inner, inner.emit("Add", columns, centre[0]), width, 1.0),
        )
        count = inner.cast(inner.emit("Size", rows), work)
        total = reduce(inner, "ReduceSum", found, [2, 3], keepdims=False)
        of_bin = inner.emit("Div", count, inner.like(op.pooled_h * op.pooled_w, count))
        return [inner.emit("Div", total, inner.emit("Max", of_bin, inner.like(1, of_bin)))]

    made = for_each(ctx, as_scalar(ctx, size_of(ctx, regions, 0)), of_region)[0]
    return ctx.cast(transpose(ctx, made, [0, 3, 1, 2]), kind)


def _along(ctx: Context, side: Value, bins: int, ratio: int) -> Value:
    """The points along one side of a region, from its middle ``[bins, points]``."""
    step = ctx.emit("Div", side, ctx.like(bins, side))
    if ratio:
        numbers, count = ctx.cast(ctx.constant(list(range(ratio))), side.element_type), ctx.like(ratio, side)
    else:
        least = ctx.emit("Max", ctx.emit("Ceil", step), ctx.like(0, step))
        whole = ctx.cast(least, element_types.i64)
        numbers = ctx.cast(ctx.emit("Range", ctx.constant(0), whole, ctx.constant(1)), side.element_type)
        count = ctx.emit("Max", least, ctx.like(1, least))
    inner = ctx.emit("Mul", ctx.emit("Add", numbers, ctx.like(0.5, numbers)), ctx.emit("Div", step, count))
    edges = ctx.cast(ctx.constant(np.arange(bins)[:, None]), side.element_type)
    start = ctx.emit("Sub", ctx.emit("Mul", edges, step), ctx.emit("Mul", side, ctx.like(0.5, side)))
    return ctx.emit("Add", start, inner)
