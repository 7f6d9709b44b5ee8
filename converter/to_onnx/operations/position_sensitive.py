"""Regions pooled from maps, one for each bin: PSROIPooling and DeformablePSROIPooling."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import reduce, slice_along, squeeze, transpose, unsqueeze
from converter.to_onnx.points import (
    before_end,
    column,
    flat_index,
    for_each,
    interpolated,
    points_around,
    regular_points,
    rounded,
)
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import Size, as_scalar, positions, shape_list, size_of
from ir_runtime.graph import element_types
from ir_runtime.operations.position_sensitive import DeformablePSROIPooling1, PSROIPooling1


@ir_op(PSROIPooling1, local_function=True)
def ps_roi_pooling(ctx: Context, op: PSROIPooling1, x: Value, regions: Value) -> Value:
    """Sums over the rows and columns of each bin in a Loop; for the mode bilinear the four neighbours of each point"""
    kind = x.element_type
    x, regions = (ctx.cast(one, element_types.f32) for one in (x, regions))
    is_region, image = before_end(ctx, regions)
    made = _averages(ctx, op, x, regions, image) if op.mode == "average" else _points(ctx, op, x, regions, image)
    return ctx.cast(ctx.emit("Where", unsqueeze(ctx, is_region, [1, 2, 3]), made, ctx.like(0, made)), kind)


def _scaled(ctx: Context, regions: Value, place: int, scale: float, more: float) -> Value:
    near = rounded(ctx, ctx.emit("Add", column(ctx, regions, place), ctx.like(more, regions)))
    return ctx.emit("Mul", near, ctx.like(scale, near))


def _averages(ctx: Context, op: PSROIPooling1, x: Value, regions: Value, image: Value) -> Value:
    """Means over the elements of each bin, of which each has maps of its own."""
    count = op.group_size
    height, width = (size_of(ctx, x, axis) for axis in (2, 3))
    # Which rows and which columns are in each bin [r, count, size].
    rows = _is_in_bin(ctx, op, regions, 2, height)
    columns = _is_in_bin(ctx, op, regions, 1, width)

    def of_region(inner: Context, number: Value) -> list[Value]:
        value = inner.emit("Gather", x, inner.emit("Gather", image, number, axis=0), axis=0)
        maps = inner.emit("Reshape", value, shape_list(inner, [-1, count, count, height, width]))
        down, across = (inner.emit("Gather", one, number, axis=0) for one in (rows, columns))
        summed = inner.emit("MatMul", unsqueeze(inner, down, [1, 2]), maps)
        total = inner.emit("MatMul", summed, unsqueeze(inner, across, [0, 3]))
        lengths = [reduce(inner, "ReduceSum", one, [1]) for one in (down, across)]
        elements = inner.emit("Mul", lengths[0], transpose(inner, lengths[1], [1, 0]))
        return [inner.emit("Div", squeeze(inner, total, [3, 4]), inner.emit("Max", elements, inner.like(1, elements)))]

    return for_each(ctx, as_scalar(ctx, size_of(ctx, regions, 0)), of_region)[0]


def _is_in_bin(ctx: Context, op: PSROIPooling1, regions: Value, place: int, size: Size) -> Value:
    start = _scaled(ctx, regions, place, op.spatial_scale, 0)
    length = ctx.emit("Sub", _scaled(ctx, regions, place + 2, op.spatial_scale, 1), start)
    step = ctx.emit("Div", ctx.emit("Max", length, ctx.like(0.1, length)), ctx.like(op.group_size, length))
    start, step = (unsqueeze(ctx, one, [1]) for one in (start, step))
    edges = [np.arange(op.group_size, dtype=np.float32) + more for more in (0, 1)]
    low, high = (ctx.emit("Add", ctx.emit("Mul", ctx.constant(one), step), start) for one in edges)
    number = ctx.cast(positions(ctx, size), element_types.f32)
    begins = ctx.emit("GreaterOrEqual", number, unsqueeze(ctx, ctx.emit("Floor", low), [2]))
    ends = ctx.emit("Less", number, unsqueeze(ctx, ctx.emit("Ceil", high), [2]))
    return ctx.cast(ctx.emit("And", begins, ends), element_types.f32)


def _points(ctx: Context, op: PSROIPooling1, x: Value, regions: Value, image: Value) -> Value:
    """Means over the parts of a region, of which each has maps of its own."""
    down, across = op.spatial_bins_y, op.spatial_bins_x
    height, width = (size_of(ctx, x, axis) for axis in (2, 3))
    maps = ctx.emit("Reshape", x, shape_list(ctx, [-1, down, across, op.output_dim, height, width]))
    flat = ctx.emit("Reshape", transpose(ctx, maps, [0, 4, 5, 1, 2, 3]), ctx.constant([-1, op.output_dim]))
    rows = points_around(ctx, _lines(ctx, op, regions, 2, down, height, [2, 4]), height, 0.0)
    columns = points_around(ctx, _lines(ctx, op, regions, 1, across, width, [1, 3]), width, 0.0)
    part_row = ctx.constant(np.arange(down).reshape(down, 1, 1, 1))
    part_column = ctx.constant(np.arange(across).reshape(across, 1, 1))
    first = unsqueeze(ctx, image, [1, 2, 3, 4])

    def index(row: Value, place: Value) -> Value:
        parts = (first, 0), (row, height), (place, width), (part_row, down), (part_column, across)
        return flat_index(ctx, *parts)

    found = interpolated(ctx, flat, index, rows, columns)
    mean = reduce(ctx, "ReduceMean", found, [1, 2], keepdims=False)
    return transpose(ctx, mean, [0, 3, 1, 2])


def _lines(
    ctx: Context, op: PSROIPooling1, regions: Value, place: int, parts: int, size: Size, new: list[int]
) -> Value:
    """The points of each part of a region ``[r, parts, count]``, with ``new`` dimensions of 1."""
    scale = ctx.like(op.spatial_scale, regions)
    start, end = (ctx.emit("Mul", column(ctx, regions, one), scale) for one in (place, place + 2))
    part = unsqueeze(ctx, ctx.emit("Div", ctx.emit("Sub", end, start), ctx.like(parts, start)), [1])
    numbers = [ctx.constant(np.arange(parts, dtype=np.float32) + more) for more in (0, 1)]
    ends = [ctx.emit("Add", ctx.emit("Mul", one, part), unsqueeze(ctx, start, [1])) for one in numbers]
    return unsqueeze(ctx, regular_points(ctx, ends[0], ends[1], op.group_size, size), new)


@ir_op(DeformablePSROIPooling1, local_function=True)
def deformable_ps_roi_pooling(
    ctx: Context, op: DeformablePSROIPooling1, x: Value, regions: Value, offsets: Value | None = None
) -> Value:
    """Means of the interpolated points of each bin, whose four neighbours Gather finds"""
    kind, count = x.element_type, op.group_size
    x, regions = (ctx.cast(one, element_types.f32) for one in (x, regions))
    is_region, image = before_end(ctx, regions)
    height, width = (size_of(ctx, x, axis) for axis in (2, 3))
    classes = 1
    if offsets is not None:
        channels = ctx.node.inputs[2].shape[1]
        if not channels.is_static:
            ctx.fail("the number of channels of the offsets must be known")
        classes = channels.value // 2
    each = op.output_dim // classes
    shape = [-1, classes, each, count, count, height, width]
    maps = transpose(ctx, ctx.emit("Reshape", x, shape_list(ctx, shape)), [0, 5, 6, 1, 3, 4, 2])
    flat = ctx.emit("Reshape", maps, ctx.constant([-1, each]))
    shifts = _shifts(ctx, op, ctx.cast(offsets, element_types.f32), classes) if offsets is not None else None
    # Points have the dimensions region, class, row and column of the bin, row and column in it.
    columns = _places(ctx, op, regions, shifts, 1, op.spatial_bins_x, width, [1, 1, 1, count, 1, op.spatial_bins_x])
    rows = _places(ctx, op, regions, shifts, 2, op.spatial_bins_y, height, [1, 1, count, 1, op.spatial_bins_y, 1])
    down, across = points_around(ctx, rows, height, 0.5), points_around(ctx, columns, width, 0.5)
    of_class = ctx.constant(np.arange(classes).reshape(classes, 1, 1, 1, 1))
    row_bin = ctx.constant(np.arange(count).reshape(count, 1, 1, 1))
    column_bin = ctx.constant(np.arange(count).reshape(count, 1, 1))
    first = unsqueeze(ctx, image, [1, 2, 3, 4, 5])

    def index(row: Value, place: Value) -> Value:
        bins = (of_class, classes), (row_bin, count), (column_bin, count)
        return flat_index(ctx, (first, 0), (row, height), (place, width), *bins)

    found = interpolated(ctx, flat, index, down, across)
    inside = ctx.cast(ctx.emit("And", down.inside, across.inside), element_types.f32)
    number = unsqueeze(ctx, reduce(ctx, "ReduceSum", inside, [4, 5], keepdims=False), [4])
    total = reduce(ctx, "ReduceSum", found, [4, 5], keepdims=False)
    mean = ctx.emit("Div", total, ctx.emit("Max", number, ctx.like(1, number)))
    made = ctx.emit("Reshape", transpose(ctx, mean, [0, 1, 4, 2, 3]), ctx.constant([-1, op.output_dim, count, count]))
    return ctx.cast(ctx.emit("Where", unsqueeze(ctx, is_region, [1, 2, 3]), made, ctx.like(0, made)), kind)


def _shifts(ctx: Context, op: DeformablePSROIPooling1, offsets: Value, classes: int) -> Value:
    """How far each class moves each bin, in parts of the region: ``[r, classes, 2, bins, bins]``, x before y."""
    part = ctx.constant(np.arange(op.group_size) * op.part_size // op.group_size)
    spread = ctx.emit("Gather", ctx.emit("Gather", offsets, part, axis=2), part, axis=3)
    shape = ctx.constant([-1, classes, 2, op.group_size, op.group_size])
    return ctx.emit("Mul", ctx.emit("Reshape", spread, shape), ctx.like(op.trans_std, spread))


def _places(
    ctx: Context,
    op: DeformablePSROIPooling1,
    regions: Value,
    shifts: Value | None,
    place: int,
    points: int,
    size: Size,
    shape: list[int],
) -> Value:
    """The places of the points along one dimension."""
    half = ctx.like(0.5, regions)
    start = ctx.emit("Sub", _scaled(ctx, regions, place, op.spatial_scale, 0), half)
    after = ctx.emit("Add", rounded(ctx, column(ctx, regions, place + 2)), ctx.like(1, regions))
    end = ctx.emit("Sub", ctx.emit("Mul", after, ctx.like(op.spatial_scale, regions)), half)
    length = ctx.emit("Max", ctx.emit("Sub", end, start), ctx.like(0.1, end))
    start, length = (unsqueeze(ctx, one, [1, 2, 3, 4, 5]) for one in (start, length))
    step = ctx.emit("Div", length, ctx.like(op.group_size, length))
    bins = np.arange(op.group_size, dtype=np.float32).reshape(
        [one if axis in (2, 3) else 1 for axis, one in enumerate(shape)]
    )
    inner = np.arange(points, dtype=np.float32).reshape(
        [one if axis in (4, 5) else 1 for axis, one in enumerate(shape)]
    )
    made = ctx.emit("Add", ctx.emit("Mul", ctx.constant(bins), step), start)
    if shifts is not None:
        shift = squeeze(ctx, slice_along(ctx, shifts, 2, place - 1, place), [2])
        made = ctx.emit("Add", made, ctx.emit("Mul", unsqueeze(ctx, shift, [4, 5]), length))
    away = ctx.emit("Mul", ctx.constant(inner), ctx.emit("Div", step, ctx.like(points, step)))
    return ctx.emit("Add", made, away)
