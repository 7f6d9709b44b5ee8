"""Regions pooled from maps, one for each bin: PSROIPooling and DeformablePSROIPooling.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/detection/psroi-pooling-1.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, PartialShape, as_dimension
from ir_runtime.graph.operation import Operation, TensorType, enum, integer, operation, real
from ir_runtime.graph.shapes import require_rank, same_dimension

from .regions import Points, four_neighbours, interpolated, rounded


class _PositionSensitive(Operation):
    """Common base of the two operations: regions ``[R, 5]`` of a batch and the corners x1, y1, x2, y2."""

    output_dim: int = integer()

    def bins(self) -> int:
        """The number of bins in either direction."""
        raise NotImplementedError

    def channels(self) -> int:
        """The number of channels that the data must have."""
        raise NotImplementedError

    def pool(self, target: Array, image: Array, corners: Array, offsets: Array | None) -> None:
        """Fill ``target`` ``[output_dim, bins, bins]`` from a region of an image ``[C, H, W]``."""
        raise NotImplementedError

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, regions = require_rank("the data", inputs[0].shape, 4), require_rank("the regions", inputs[1].shape, 2)
        if self.output_dim < 1 or self.bins() < 1:
            raise InferenceError("output_dim and group_size must be positive")
        same_dimension("the number of channels", data[1], as_dimension(self.channels()))
        same_dimension("the number of a region's values", regions[1], as_dimension(5))
        shape = PartialShape([regions[0], self.output_dim, self.bins(), self.bins()])
        return [TensorType(inputs[0].element_type, shape)]

    def evaluate(self, *inputs: Array) -> Array:
        data, regions = inputs[:2]
        offsets = inputs[2].astype(np.float32, copy=False) if len(inputs) > 2 else None
        work = data.astype(np.float32, copy=False)
        out = np.zeros((len(regions), self.output_dim, self.bins(), self.bins()), np.float32)
        for index, region in enumerate(regions.astype(np.float32, copy=False)):
            if region[0] == -1:
                break  # The list of regions ends here.
            self.pool(out[index], work[int(region[0])], region[1:], None if offsets is None else offsets[index])
        return out.astype(data.dtype, copy=False)


@operation("PSROIPooling", opset=1)
class PSROIPooling1(_PositionSensitive):
    """Averages over each region's bins, or values interpolated at regular points of it.

    Inputs: data ``[N, C, H, W]`` and regions ``[R, 5]``, which count elements (average) or are parts of
    the whole (bilinear). The output is ``[R, output_dim, group_size, group_size]``.

    The data has, of each output channel, a map for each bin (``C = output_dim * group_size^2``); with
    ``bilinear`` it has all output channels for each of ``spatial_bins_y`` times ``spatial_bins_x``
    parts of the region, each pooled to the output's size, of which the average comes out.
    """

    inputs = (2, 2)
    group_size: int = integer()
    spatial_scale: float = real()
    mode: str = enum("average", "bilinear")
    spatial_bins_x: int = integer(default=0)
    spatial_bins_y: int = integer(default=0)

    def bins(self) -> int:
        return self.group_size

    def channels(self) -> int:
        if self.mode == "average":
            return self.output_dim * self.group_size**2
        if self.spatial_bins_x < 1 or self.spatial_bins_y < 1:
            raise InferenceError("spatial_bins_x and spatial_bins_y must be positive where the mode is bilinear")
        return self.output_dim * self.spatial_bins_x * self.spatial_bins_y

    def pool(self, target: Array, image: Array, corners: Array, offsets: Array | None) -> None:
        if self.mode == "average":
            self._average(target, image, corners)
        else:
            self._bilinear(target, image, corners)

    def _average(self, target: Array, image: Array, corners: Array) -> None:
        scale, bins = np.float32(self.spatial_scale), self.group_size
        start, end = rounded(corners[:2]) * scale, rounded(corners[2:] + 1) * scale
        step = np.maximum(end - start, np.float32(0.1)) / np.float32(bins)
        maps = image.reshape(-1, bins, bins, *image.shape[1:])
        edges = np.arange(bins, dtype=np.float32)[:, None]
        limits = np.array([image.shape[2], image.shape[1]])
        low = np.clip(np.floor(edges * step + start), 0, limits).astype(np.int64)
        high = np.clip(np.ceil((edges + 1) * step + start), 0, limits).astype(np.int64)
        for row, (top, bottom) in enumerate(zip(low[:, 1], high[:, 1])):
            for column, (left, right) in enumerate(zip(low[:, 0], high[:, 0])):
                if top < bottom and left < right:
                    target[:, row, column] = maps[:, row, column, top:bottom, left:right].mean(axis=(1, 2))

    def _bilinear(self, target: Array, image: Array, corners: Array) -> None:
        start, end = corners[:2] * np.float32(self.spatial_scale), corners[2:] * np.float32(self.spatial_scale)
        counts = np.array([self.spatial_bins_x, self.spatial_bins_y], np.float32)
        part = (end - start) / counts
        maps = image.reshape(self.spatial_bins_y, self.spatial_bins_x, self.output_dim, *image.shape[1:])
        height, width = image.shape[1:]
        for row in range(self.spatial_bins_y):
            rows = self._line(start[1] + row * part[1], start[1] + (row + 1) * part[1], height)
            for column in range(self.spatial_bins_x):
                columns = self._line(start[0] + column * part[0], start[0] + (column + 1) * part[0], width)
                four = four_neighbours(maps[row, column], rows, columns)
                target += four[0] + four[1] + four[2] + four[3]
        target /= np.float32(self.spatial_bins_x * self.spatial_bins_y)

    def _line(self, start: Array, end: Array, dimension: int) -> Points:
        """Regular points from one end to the other, which are parts of the whole; a single one is between."""
        last = np.float32(dimension - 1)
        if self.group_size == 1:
            places = np.array([np.float32(0.5) * (start + end) * last])
        else:
            step = (end - start) * last / np.float32(self.group_size - 1)
            places = np.arange(self.group_size, dtype=np.float32) * step + start * last
        return Points.around(places, dimension, margin=0.0)


@operation("DeformablePSROIPooling", opset=1)
class DeformablePSROIPooling1(_PositionSensitive):
    """Averages of values interpolated at points of each region's bins, which offsets may move.

    Inputs: data ``[N, output_dim * group_size^2, H, W]``, regions ``[R, 5]`` in elements, and perhaps
    offsets ``[R, 2 * classes, part_size, part_size]``: ``trans_std`` times their x and y, in parts of the
    region's dimension. The output is ``[R, output_dim, group_size, group_size]``.

    A bin has ``spatial_bins_x`` times ``spatial_bins_y`` points; those outside the data do not count.
    The channels are spread evenly over the classes.
    """

    inputs = (2, 3)
    spatial_scale: float = real(default=0.0)
    group_size: int = integer(default=1)
    mode: str = enum("bilinear_deformable", default="bilinear_deformable")
    spatial_bins_x: int = integer(default=1)
    spatial_bins_y: int = integer(default=1)
    trans_std: float = real(default=1.0)
    part_size: int = integer(default=1)

    def bins(self) -> int:
        return self.group_size

    def channels(self) -> int:
        return self.output_dim * self.group_size**2

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if len(inputs) == 3:
            offsets = require_rank("the offsets", inputs[2].shape, 4)
            regions, channels = require_rank("the regions", inputs[1].shape, 2), offsets[1]
            if channels.is_static and (channels.value < 2 or 2 * self.output_dim % channels.value):
                raise InferenceError(f"{self.output_dim} channels cannot be spread over {channels}/2 classes")
            same_dimension("the number of regions and of their offsets", regions[0], offsets[0])
            for axis in (2, 3):
                same_dimension("the parts of a region that have offsets", offsets[axis], as_dimension(self.part_size))
        return super().infer(inputs)

    def pool(self, target: Array, image: Array, corners: Array, offsets: Array | None) -> None:
        scale, bins, half = np.float32(self.spatial_scale), self.group_size, np.float32(0.5)
        start, end = rounded(corners[:2]) * scale - half, (rounded(corners[2:]) + 1) * scale - half
        dimension = np.maximum(end - start, np.float32(0.1))
        step = dimension / np.float32(bins)
        shift = self._shifts(offsets)
        index = np.arange(bins)
        edges = index.astype(np.float32)
        left = edges * step[0] + start[0] + shift[:, 0] * dimension[0]
        top = edges[:, None] * step[1] + start[1] + shift[:, 1] * dimension[1]
        across = np.arange(self.spatial_bins_x, dtype=np.float32) * (step[0] / np.float32(self.spatial_bins_x))
        down = np.arange(self.spatial_bins_y, dtype=np.float32) * (step[1] / np.float32(self.spatial_bins_y))
        shape = (*shift.shape[:1], bins, bins, self.spatial_bins_y, self.spatial_bins_x)
        x = np.broadcast_to(left[..., None, None] + across, shape)
        y = np.broadcast_to(top[..., None, None] + down[:, None], shape)
        rows, columns = Points.around(y, image.shape[1], 0.5), Points.around(x, image.shape[2], 0.5)
        inside = rows.inside & columns.inside
        maps = image.reshape(len(shift), -1, bins, bins, *image.shape[1:])
        for class_index, values in enumerate(target.reshape(len(shift), -1, bins, bins)):
            for i in range(bins):
                for j in range(bins):
                    place = (class_index, i, j)
                    pooled = interpolated(maps[class_index, :, i, j], rows.at(place), columns.at(place))
                    values[:, i, j] = pooled.sum(axis=(1, 2)) / max(int(inside[place].sum()), 1)

    def _shifts(self, offsets: Array | None) -> Array:
        """Return the shift of each bin by each class: ``[classes, 2, bins, bins]``, x before y."""
        bins = self.group_size
        if offsets is None:
            return np.zeros((1, 2, bins, bins), np.float32)
        part = np.arange(bins) * self.part_size // bins
        pairs = offsets.reshape(-1, 2, *offsets.shape[1:])
        return pairs[:, :, part[:, None], part] * np.float32(self.trans_std)
