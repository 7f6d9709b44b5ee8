"""Regions pooled from maps, one for each bin: PSROIPooling and DeformablePSROIPooling."""

from __future__ import annotations

import numpy as np

from converter.passes.decomposition.boxes import single
from converter.passes.decomposition.points import (
    before_end,
    flat_index,
    interpolated,
    points_around,
    regular_points,
    rounded,
)
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.position_sensitive import DeformablePSROIPooling1, PSROIPooling1
from ir_runtime.rewriting.expressions import Expression, NotExpressible, loop, positions, where


@decomposes(PSROIPooling1)
def ps_roi_pooling(op: PSROIPooling1, x: Expression, regions: Expression) -> Expression:
    """Sums over the rows and columns of each bin in a Loop; for the mode bilinear the four neighbours of each point"""
    element_type = x.element_type
    x, regions = single(x, regions)
    is_region, image = before_end(regions)
    result = (_averages if op.mode == "average" else _points)(op, x, regions, image)
    return where(is_region.unsqueeze(1, 2, 3), result, 0).as_type(element_type)


def _averages(op: PSROIPooling1, x: Expression, regions: Expression, image: Expression) -> Expression:
    """Means over the elements of each bin, of which each has maps of its own."""
    count = op.group_size
    height, width = x.sizes()[2:]
    # Which rows and which columns are in each bin [r, count, size].
    rows, columns = (_is_in_bin(op, regions, place, size) for place, size in ((2, height), (1, width)))

    def of_region(number: Expression) -> list[Expression]:
        maps = x.gather(image.gather(number)).reshape(-1, count, count, height, width)
        down, across = rows.gather(number), columns.gather(number)
        total = down.unsqueeze(1, 2).matmul(maps).matmul(across.unsqueeze(0, 3)).squeeze(3, 4)
        elements = down.sum(1, keep_dims=True) * across.sum(1)
        return [total / elements.maximum(1)]

    return loop(regions.size(0), [], of_region)[0]


def _is_in_bin(op: PSROIPooling1, regions: Expression, place: int, size: Expression) -> Expression:
    start = rounded(regions.gather(place, 1)) * op.spatial_scale
    length = rounded(regions.gather(place + 2, 1) + 1) * op.spatial_scale - start
    start, step = start.unsqueeze(1), (length.maximum(0.1) / op.group_size).unsqueeze(1)
    bins = np.arange(op.group_size)
    low, high = ((step * edges + start).unsqueeze(2) for edges in (bins, bins + 1))
    number = positions(size).as_type("f32")
    return ((number >= low.floor()) & (number < high.ceil())).as_type("f32")


def _points(op: PSROIPooling1, x: Expression, regions: Expression, image: Expression) -> Expression:
    """Means over the parts of a region, of which each has maps of its own."""
    down, across = op.spatial_bins_y, op.spatial_bins_x
    height, width = x.sizes()[2:]
    maps = x.reshape(-1, down, across, op.output_dim, height, width)
    flat = maps.transpose(0, 4, 5, 1, 2, 3).reshape(-1, op.output_dim)
    rows = points_around(_lines(op, regions, 2, down, height).unsqueeze(2, 4), height, 0.0)
    columns = points_around(_lines(op, regions, 1, across, width).unsqueeze(1, 3), width, 0.0)
    bins = (np.arange(down).reshape(down, 1, 1, 1), down), (np.arange(across).reshape(across, 1, 1), across)
    first = image.unsqueeze(1, 2, 3, 4)
    values = interpolated(
        flat, lambda row, column: flat_index(first, (row, height), (column, width), *bins), rows, columns
    )
    return values.mean(1, 2).transpose(0, 3, 1, 2)


def _lines(op: PSROIPooling1, regions: Expression, place: int, parts: int, size: Expression) -> Expression:
    """The points of each part of a region ``[r, parts, count]``."""
    start, end = (regions.gather(at, 1) * op.spatial_scale for at in (place, place + 2))
    part, start = ((end - start) / parts).unsqueeze(1), start.unsqueeze(1)
    numbers = np.arange(parts)
    return regular_points(part * numbers + start, part * (numbers + 1) + start, op.group_size, size)


@decomposes(DeformablePSROIPooling1)
def deformable_ps_roi_pooling(
    op: DeformablePSROIPooling1, x: Expression, regions: Expression, offsets: Expression | None = None
) -> Expression:
    """Means of the interpolated points of each bin, whose four neighbours Gather finds"""
    element_type, count, classes = x.element_type, op.group_size, 1
    x, regions = single(x, regions)
    is_region, image = before_end(regions)
    height, width = x.sizes()[2:]
    if offsets is not None:
        channels = offsets.value.shape[1]
        if not channels.is_static:
            raise NotExpressible("the number of channels of the offsets must be known")
        classes = channels.value // 2
    each = op.output_dim // classes
    maps = x.reshape(-1, classes, each, count, count, height, width)
    flat = maps.transpose(0, 5, 6, 1, 3, 4, 2).reshape(-1, each)
    # Points have the dimensions region, class, row and column of the bin, row and column in it.
    shifts = None if offsets is None else _shifts(op, offsets.as_type("f32"), classes)
    columns = _places(op, regions, shifts, 1, [1, 1, 1, count, 1, op.spatial_bins_x])
    rows = _places(op, regions, shifts, 2, [1, 1, count, 1, op.spatial_bins_y, 1])
    down, across = points_around(rows, height, 0.5), points_around(columns, width, 0.5)
    bins = [
        (np.arange(size).reshape(size, *[1] * behind), size) for size, behind in ((classes, 4), (count, 3), (count, 2))
    ]
    first = image.unsqueeze(1, 2, 3, 4, 5)
    values = interpolated(
        flat, lambda row, column: flat_index(first, (row, height), (column, width), *bins), down, across
    )
    number = (down.inside & across.inside).as_type("f32").sum(4, 5).unsqueeze(4)
    mean = values.sum(4, 5) / number.maximum(1)
    result = mean.transpose(0, 1, 4, 2, 3).reshape(-1, op.output_dim, count, count)
    return where(is_region.unsqueeze(1, 2, 3), result, 0).as_type(element_type)


def _shifts(op: DeformablePSROIPooling1, offsets: Expression, classes: int) -> Expression:
    """The shifts of bins by each class, in parts of the region: ``[r, classes, 2, bins, bins]``, x before y."""
    part = np.arange(op.group_size) * op.part_size // op.group_size
    spread = offsets.gather(part, 2).gather(part, 3) * op.trans_std
    return spread.reshape(-1, classes, 2, op.group_size, op.group_size)


def _places(
    op: DeformablePSROIPooling1, regions: Expression, shifts: Expression | None, place: int, shape: list[int]
) -> Expression:
    """The places of the points along one dimension."""
    start = rounded(regions.gather(place, 1)) * op.spatial_scale - 0.5
    end = (rounded(regions.gather(place + 2, 1)) + 1) * op.spatial_scale - 0.5
    length = (end - start).maximum(0.1).unsqueeze(1, 2, 3, 4, 5)
    step, points = length / op.group_size, shape[4] * shape[5]
    result = step * np.arange(op.group_size).reshape(*shape[:4], 1, 1) + start.unsqueeze(1, 2, 3, 4, 5)
    if shifts is not None:
        result = result + shifts.gather(place - 1, 2).unsqueeze(4, 5) * length
    return result + step / points * np.arange(points).reshape(1, 1, 1, 1, *shape[4:])
