"""Regions pooled from maps, values interpolated at points between elements, and the last layer of YOLO networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ir_runtime.operations.activation import SoftMax8
from ir_runtime.operations.position_sensitive import DeformablePSROIPooling1, PSROIPooling1
from ir_runtime.operations.regions import ROIAlignRotated15, ROIPooling2
from ir_runtime.operations.yolo import RegionYolo1
from ir_runtime.rewriting.expressions import Expression, NotExpressible, concat, loop, positions, where

from .boxes import single
from .registry import decomposes


class Points(NamedTuple):
    """Points along one dimension: the two elements around each, how far from the first, and whether inside."""

    low: Expression
    high: Expression
    share: Expression
    inside: Expression


def points_around(places: Expression, size: Expression, margin: float) -> Points:
    """Points at ``places`` of a dimension; those farther from its elements than ``margin`` are not inside."""
    end = (size - 1).as_type(places.element_type)
    inside = (places >= -margin) & (places <= end + margin)
    place = places.clip(0, end)
    low = place.floor().as_type("i64")
    return Points(low, (low + 1).minimum(size - 1), place - place.floor(), inside)


def interpolated(
    flat: Expression, index_of: Callable[[Expression, Expression], Expression], rows: Points, columns: Points
) -> Expression:
    """The values ``[*points, c]`` at points that have a row and a column each; 0 outside.

    ``flat`` is ``[elements, c]``, and ``index_of`` gives the element of a row and a column.
    """
    parts = [
        flat.gather(index_of(row, column)) * (down * right).unsqueeze(-1)
        for row, down in ((rows.low, 1 - rows.share), (rows.high, rows.share))
        for column, right in ((columns.low, 1 - columns.share), (columns.high, columns.share))
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    return where((rows.inside & columns.inside).unsqueeze(-1), total, 0)


def flat_index(first: Expression, *parts: tuple[Expression | np.ndarray, Expression | int]) -> Expression:
    """Return the index of an element by its places, of which the last changes fastest.

    Each place but the first comes with the size of its dimension.
    """
    index = first
    for place, size in parts:
        index = index * size + place
    return index


def before_end(regions: Expression) -> tuple[Expression, Expression]:
    """Return the mask of regions before the first one of image -1, and the image of each, 0 for the others."""
    first = regions.gather(0, 1)
    is_region = first.equal(-1).as_type("i64").cumulative_sum(0).equal(0)
    return is_region, where(is_region, first.as_type("i64"), 0)


def rounded(values: Expression) -> Expression:
    """The nearest whole numbers; halves go away from 0."""
    return values.sign() * (abs(values) + 0.5).floor()


def last_channels(x: Expression) -> Expression:
    """Images ``[n, c, h, w]`` as elements ``[n h w, c]``."""
    return x.transpose(0, 2, 3, 1).reshape(-1, x.size(1))


def regular_points(start: Expression, end: Expression, count: int, size: Expression) -> Expression:
    """Regular points ``[..., count]`` from one end to the other, which are parts of the whole; one lies between."""
    last = size.as_type(start.element_type) - 1
    start, end = (start * last).unsqueeze(-1), (end * last).unsqueeze(-1)
    if count == 1:
        return (start + end) * 0.5
    return (end - start) / (count - 1) * np.arange(count) + start


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


@decomposes(ROIPooling2)
def roi_pooling(op: ROIPooling2, x: Expression, regions: Expression) -> Expression:
    """For the method bilinear, the four neighbours of each point"""
    if op.method == "max":
        raise NotExpressible("maxima over the elements of a region need a Loop over its bins")
    element_type = x.element_type
    x, regions = single(x, regions)
    is_region, image = before_end(regions)
    height, width = x.sizes()[2:]
    rows = regular_points(regions.gather(2, 1), regions.gather(4, 1), op.output_roi[0], height)
    columns = regular_points(regions.gather(1, 1), regions.gather(3, 1), op.output_roi[1], width)
    first = image.unsqueeze(1, 2)
    result = interpolated(
        last_channels(x),
        lambda row, column: flat_index(first, (row, height), (column, width)),
        points_around(rows.unsqueeze(2), height, 0.0),
        points_around(columns.unsqueeze(1), width, 0.0),
    )
    return where(is_region.unsqueeze(1, 2, 3), result.transpose(0, 3, 1, 2), 0).as_type(element_type)


@decomposes(ROIAlignRotated15)
def roi_align_rotated(op: ROIAlignRotated15, x: Expression, regions: Expression, batches: Expression) -> Expression:
    """Means of interpolated points of each region's bins, in a Loop over the regions"""
    element_type = x.element_type
    x, regions, batches = x.at_least_float32(), regions.at_least_float32(), batches.as_type("i64")
    height, width = x.sizes()[2:]
    flat = last_channels(x)

    def of_region(number: Expression) -> list[Expression]:
        region, first = regions.gather(number), batches.gather(number)
        centre_x, centre_y = (region.gather(place) * op.spatial_scale - 0.5 for place in (0, 1))
        x_places, y_places = (
            _along(region.gather(place) * op.spatial_scale, bins, op.sampling_ratio)
            for place, bins in ((2, op.pooled_w), (3, op.pooled_h))
        )
        angle = region.gather(4) * (-1 if op.clockwise_mode else 1)
        down, across = y_places.unsqueeze(1, 3), x_places.unsqueeze(0, 2)
        rows = down * angle.cos() - across * angle.sin() + centre_y
        columns = down * angle.sin() + across * angle.cos() + centre_x
        values = interpolated(
            flat,
            lambda row, column: flat_index(first, (row, height), (column, width)),
            points_around(rows, height, 1.0),
            points_around(columns, width, 1.0),
        )
        of_bin = rows.size(2) * rows.size(3)
        return [values.sum(2, 3) / of_bin.maximum(1).as_type(x.element_type)]

    return loop(regions.size(0), [], of_region)[0].transpose(0, 3, 1, 2).as_type(element_type)


def _along(side: Expression, bins: int, ratio: int) -> Expression:
    """The points along one side of a region, from its middle ``[bins, points]``."""
    step = side / bins
    count = step.ceil().maximum(0) if not ratio else side.of(ratio)
    numbers = positions(count.as_type("i64")).as_type(side.element_type) + 0.5
    return side.of(np.arange(bins)[:, None]) * step - side * 0.5 + numbers * (step / count.maximum(1))


@decomposes(RegionYolo1)
def region_yolo(op: RegionYolo1, x: Expression) -> Expression:
    """Sigmoid of places and scores, and Sigmoid or Softmax of the classes, in a Reshape by regions"""
    batch, _, height, width = sizes = x.sizes()
    parts = x.reshape(batch, op.regions(), op.coords + 1 + op.classes, height, width)
    places = min(2, op.coords)
    pieces = [parts.cut(2, 0, places).sigmoid()] if places else []
    if op.coords > places:
        pieces.append(parts.cut(2, places, op.coords))
    if not op.do_softmax:
        return concat([*pieces, parts.cut(2, op.coords).sigmoid()], 2).reshape(*sizes)
    classes = parts.cut(2, op.coords + 1).emit(SoftMax8(axis=2))
    result = concat([*pieces, parts.cut(2, op.coords, op.coords + 1).sigmoid(), classes], 2)
    return result.reshape(*sizes[: op.axis % 4], -1, *sizes[op.end_axis % 4 + 1 :])
