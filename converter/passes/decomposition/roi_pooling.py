"""Regions pooled from whole maps: ROIPooling and ROIAlignRotated."""

from __future__ import annotations

import numpy as np

from converter.passes.decomposition.boxes import single
from converter.passes.decomposition.points import (
    before_end,
    flat_index,
    interpolated,
    last_channels,
    points_around,
    regular_points,
)
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.regions import ROIAlignRotated15, ROIPooling2
from ir_runtime.rewriting.expressions import Expression, NotExpressible, loop, positions, where


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
