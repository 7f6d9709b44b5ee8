"""Regions of images cut out and pooled to one size: ROIAlign, ROIAlignRotated and ROIPooling.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/detection/roi-align-9.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, Dimension, PartialShape
from ir_runtime.graph.operation import (
    Operation,
    Required,
    TensorType,
    boolean,
    enum,
    integer,
    integers,
    operation,
    real,
    required_indices,
)
from ir_runtime.graph.shapes import require_rank, same_dimension
from ir_runtime.records import record


@record
class Points:
    """Sampling points along one dimension: the two elements around each, how far, and whether inside."""

    low: Array
    high: Array
    share: Array
    inside: Array

    @classmethod
    def around(cls, places: Array, dimension: int, margin: float = 1.0) -> Points:
        """Points at ``places``; those farther from the elements than ``margin`` are not inside."""
        inside = (places >= -margin) & (places <= dimension - 1 + margin)
        place = np.clip(places, 0, dimension - 1)
        low = np.floor(place).astype(np.intp)
        return cls(low, np.minimum(low + 1, dimension - 1), place - low, inside)

    def at(self, place: tuple[int, ...]) -> Points:
        """Some of the points."""
        return Points(self.low[place], self.high[place], self.share[place], self.inside[place])


def four_neighbours(image: Array, rows: Points, columns: Points) -> list[Array]:
    """The four weighted neighbours ``[C, rows, columns]`` of every point."""
    neighbours = []
    inside = rows.inside[:, None] & columns.inside
    for row, down in ((rows.low, 1 - rows.share), (rows.high, rows.share)):
        for column, right in ((columns.low, 1 - columns.share), (columns.high, columns.share)):
            neighbours.append(image[:, row[:, None], column] * (down[:, None] * right * inside).astype(image.dtype))
    return neighbours


def interpolated(image: Array, rows: Points, columns: Points) -> Array:
    """The values ``[C, *points]`` at points that have a row and a column each; 0 outside."""
    total = np.zeros((len(image), *rows.low.shape), image.dtype)
    for row, down in ((rows.low, 1 - rows.share), (rows.high, rows.share)):
        for column, right in ((columns.low, 1 - columns.share), (columns.high, columns.share)):
            total += image[:, row, column] * (down * right).astype(image.dtype)
    return np.where(rows.inside & columns.inside, total, 0)


def rounded(values: Array) -> Array:
    """The nearest integers; halves go away from 0."""
    return np.sign(values) * np.floor(np.abs(values) + np.float32(0.5))


class _AlignedPooling(Operation):
    """Base of both kinds of ROIAlign: bins of regions, and points in each bin."""

    inputs = (3, 3)
    pooled_h: int = integer(default=0)
    pooled_w: int = integer(default=0)
    sampling_ratio: int = integer(default=0)
    spatial_scale: float = real(default=0.0)
    numbers: ClassVar[int] = 4
    """The number of values that describe a region."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, regions = require_rank("the data", inputs[0].shape, 4), require_rank("the regions", inputs[1].shape, 2)
        batches = require_rank("the list of batches", inputs[2].shape, 1)
        if self.pooled_h < 1 or self.pooled_w < 1 or self.sampling_ratio < 0:
            raise InferenceError("pooled_h and pooled_w must be positive, and sampling_ratio must not be negative")
        count = same_dimension("the number of regions and of their batches", regions[0], batches[0])
        same_dimension("the number of a region's coordinates", regions[1], Dimension(self.numbers, self.numbers))
        return [TensorType(inputs[0].element_type, PartialShape([count, data[1], self.pooled_h, self.pooled_w]))]

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        return {2: required_indices(inputs[0].shape, [0])}


class _ROIAlign(_AlignedPooling):
    """Averages (or maxima) over regular points of each region's bins, interpolated between elements.

    Inputs: data ``[N, C, H, W]``, regions ``[R, 4]`` as x1, y1, x2, y2, and each region's batch
    ``[R]``. The output is ``[R, C, pooled_h, pooled_w]``. ``sampling_ratio`` is the number of points a
    bin has in either direction; 0 takes about one an element. Maxima are those of the
    interpolated values and 0.
    """

    mode: str = enum("max", "avg", default="avg")

    def shifts(self) -> tuple[float, float, float]:
        """Offsets that are added before and after scaling, and the least size of a region."""
        return 0.0, 0.0, 1.0

    def evaluate(self, *inputs: Array) -> Array:
        data, regions, batches = inputs
        work = data.astype(np.float64 if data.dtype == np.float64 else np.float32, copy=False)
        before, after, least = self.shifts()
        dtype = work.dtype.type
        corners = (regions.astype(work.dtype) + dtype(before)) * dtype(self.spatial_scale) + dtype(after)
        out = np.empty((len(regions), data.shape[1], self.pooled_h, self.pooled_w), work.dtype)
        for target, corner, batch in zip(out, corners, batches.tolist()):
            rows = self._places(corner[1], corner[3], least, self.pooled_h)
            columns = self._places(corner[0], corner[2], least, self.pooled_w)
            target[:] = self._pool(work[batch], rows, columns)
        return out.astype(data.dtype, copy=False)

    def _places(self, start: Array, end: Array, least: float, bins: int) -> Array:
        """The points along one dimension, ``[bins, points]``."""
        dimension = end - start if least == 0 else np.maximum(end - start, least)
        step = dimension / start.dtype.type(bins)
        count = self.sampling_ratio or max(int(np.ceil(step)), 0)
        inner = (np.arange(count, dtype=start.dtype) + start.dtype.type(0.5)) * step / max(count, 1)
        return start + np.arange(bins, dtype=start.dtype)[:, None] * step + inner

    def _pool(self, image: Array, rows: Array, columns: Array) -> Array:
        shape = (len(image), *rows.shape, *columns.shape)
        if not rows.size or not columns.size:
            # OpenVINO divides by the number of points, of which there are none.
            return np.full((shape[0], shape[1], shape[3]), 0 if self.mode == "max" else np.nan, image.dtype)
        height, width = image.shape[1:]
        four = four_neighbours(
            image, Points.around(rows.reshape(-1), height), Points.around(columns.reshape(-1), width)
        )
        points = (four[0] + four[1] + four[2] + four[3]).reshape(shape)
        return np.maximum(points.max(axis=(2, 4)), 0) if self.mode == "max" else points.mean(axis=(2, 4))


@operation("ROIAlign", opset=3)
class ROIAlign3(_ROIAlign):
    """Regions are at least one element large."""


@operation("ROIAlign", opset=9)
class ROIAlign9(_ROIAlign):
    """Adds ``aligned_mode``: positions are asymmetric as in the third revision, or at half pixels."""

    aligned_mode: str = enum("half_pixel", "asymmetric", "half_pixel_for_nn", default="asymmetric")

    def shifts(self) -> tuple[float, float, float]:
        if self.aligned_mode == "asymmetric":
            return super().shifts()
        return (0.5, -0.5, 0.0) if self.aligned_mode == "half_pixel" else (0.0, -0.5, 0.0)


@operation("ROIAlignRotated", opset=15)
class ROIAlignRotated15(_AlignedPooling):
    """Averages over regular points of each region's bins, of regions turned by an angle.

    Inputs: data ``[N, C, H, W]``, regions ``[R, 5]`` as centre x, y, width, height and angle in radians,
    and each region's batch ``[R]``. The output is ``[R, C, pooled_h, pooled_w]``. Elements lie at half
    pixels. ``sampling_ratio`` is the number of points a bin has in either direction; 0 takes about one an
    element. A region without points comes out as 0.
    """

    numbers = 5
    clockwise_mode: bool = boolean(default=False)

    def evaluate(self, *inputs: Array) -> Array:
        data, regions, batches = inputs
        work = data.astype(np.float64 if data.dtype == np.float64 else np.float32, copy=False)
        scale = work.dtype.type(self.spatial_scale)
        out = np.zeros((len(regions), data.shape[1], self.pooled_h, self.pooled_w), work.dtype)
        for target, region, batch in zip(out, regions.astype(work.dtype), batches.tolist()):
            centre, dimensions = region[:2] * scale - work.dtype.type(0.5), region[2:4] * scale
            y, x = (self._along(dimensions[axis], bins) for axis, bins in ((1, self.pooled_h), (0, self.pooled_w)))
            if not y.size or not x.size:
                continue
            angle = -region[4] if self.clockwise_mode else region[4]
            down, across = y[:, None, :, None], x[:, None, :]
            rows = Points.around(down * np.cos(angle) - across * np.sin(angle) + centre[1], data.shape[2])
            columns = Points.around(down * np.sin(angle) + across * np.cos(angle) + centre[0], data.shape[3])
            target[:] = interpolated(work[batch], rows, columns).mean(axis=(3, 4))
        return out.astype(data.dtype, copy=False)

    def _along(self, dimension: Array, bins: int) -> Array:
        """The points along one side of a region, from its middle: ``[bins, points]``."""
        step = dimension / dimension.dtype.type(bins)
        count = self.sampling_ratio or max(int(np.ceil(step)), 0)
        inner = (np.arange(count, dtype=dimension.dtype) + dimension.dtype.type(0.5)) * (step / max(count, 1))
        return -dimension / 2 + np.arange(bins, dtype=dimension.dtype)[:, None] * step + inner


@operation("ROIPooling", opset=2)
class ROIPooling2(Operation):
    """Maxima over each region's bins, or values interpolated at regular points of it.

    Inputs: data ``[N, C, H, W]`` and regions ``[R, 5]``: the batch, then x1, y1, x2, y2, which count
    elements (max) or are parts of the whole (bilinear). The output is ``[R, C, *output_roi]``.
    """

    inputs = (2, 2)
    output_size: Sequence[int] = integers(default=(2, 2))
    output_roi: Sequence[int] = integers(default=(2, 2))
    pooled_h: int = integer(default=2)
    pooled_w: int = integer(default=2)
    spatial_scale: float = real()
    method: str = enum("max", "bilinear", default="max")

    def validate(self) -> None:
        super().validate()
        # A file may give the size in any of three attributes, of which the last one counts; all are written.
        ways = ((self.pooled_h, self.pooled_w), self.output_roi, self.output_size)
        size = next((way for way in ways if way != (2, 2)), (2, 2))
        if len(size) == 2:
            for name, value in zip(("output_size", "output_roi", "pooled_h", "pooled_w"), (size, size, *size)):
                object.__setattr__(self, name, value)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, regions = require_rank("the data", inputs[0].shape, 4), require_rank("the regions", inputs[1].shape, 2)
        if len(self.output_roi) != 2 or min(self.output_roi) < 1:
            raise InferenceError(f"output_roi must be two positive numbers, but is {list(self.output_roi)}")
        same_dimension("the number of a region's coordinates", regions[1], Dimension(5, 5))
        return [TensorType(inputs[0].element_type, PartialShape([regions[0], data[1], *self.output_roi]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, regions = inputs
        work = data.astype(np.float64 if data.dtype == np.float64 else np.float32, copy=False)
        out = np.zeros((len(regions), data.shape[1], *self.output_roi), work.dtype)
        for target, region in zip(out, regions.astype(np.float32)):
            if region[0] == -1:
                break  # The list of regions ends here.
            image = work[int(region[0])]
            if self.method == "max":
                self._greatest(target, image, region[1:])
            else:
                self._interpolate(target, image, region[1:])
        return out.astype(data.dtype, copy=False)

    def _greatest(self, target: Array, image: Array, corners: Array) -> None:
        ends = rounded(corners * np.float32(self.spatial_scale)).astype(np.int64)
        rows = _bins(ends[1], ends[3], self.output_roi[0], image.shape[1])
        columns = _bins(ends[0], ends[2], self.output_roi[1], image.shape[2])
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                if top < bottom and left < right:
                    target[:, i, j] = image[:, top:bottom, left:right].max(axis=(1, 2))

    def _interpolate(self, target: Array, image: Array, corners: Array) -> None:
        rows = _line(corners[1], corners[3], self.output_roi[0], image.shape[1])
        columns = _line(corners[0], corners[2], self.output_roi[1], image.shape[2])
        inside_rows = (rows >= 0) & (rows <= image.shape[1] - 1)
        inside_columns = (columns >= 0) & (columns <= image.shape[2] - 1)
        four = four_neighbours(image, Points.around(rows, image.shape[1]), Points.around(columns, image.shape[2]))
        target[:] = np.where(inside_rows[:, None] & inside_columns, four[0] + four[1] + four[2] + four[3], 0)


def _bins(start: int, end: int, count: int, dimension: int) -> list[tuple[int, int]]:
    """The elements of each bin between ``start`` and ``end``, both included, cut to the data."""
    size = np.float32(max(end - start + 1, 1)) / np.float32(count)
    edges = np.arange(count, dtype=np.float32)
    low = np.clip(np.floor(edges * size).astype(np.int64) + start, 0, dimension)
    high = np.clip(np.ceil((edges + 1) * size).astype(np.int64) + start, 0, dimension)
    return list(zip(low.tolist(), high.tolist()))


def _line(start: Array, end: Array, count: int, dimension: int) -> Array:
    """Regular points from one end to the other, which are parts of the whole; a single one is between."""
    last = np.float32(dimension - 1)
    if count == 1:
        return np.array([(start + end) * np.float32(0.5) * last])
    step = (end - start) * last / np.float32(count - 1)
    return np.arange(count, dtype=np.float32) * step + start * last
