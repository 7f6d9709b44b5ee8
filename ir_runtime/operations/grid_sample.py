"""GridSample: images looked up at the places that a grid names.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/image/grid-sample-9.html
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, Dimension, PartialShape
from ir_runtime.graph.operation import Operation, TensorType, boolean, enum, operation
from ir_runtime.graph.shapes import require_rank

CUBIC = -0.75
"""The parameter of the cubic convolution."""


@operation("GridSample", opset=9)
class GridSample9(Operation):
    """Values of the data ``[N, C, H, W]`` at the places of a grid ``[N, OH, OW, 2]`` (x, then y).

    -1 and 1 are the outer edges of the first and last element, or with ``align_corners`` their
    centres. Places outside give zeros, the nearest element (border), or the data mirrored
    (reflection). The output is ``[N, C, OH, OW]``.
    """

    inputs = (2, 2)
    align_corners: bool = boolean(default=False)
    mode: str = enum("bilinear", "nearest", "bicubic", default="bilinear")
    padding_mode: str = enum("zeros", "border", "reflection", default="zeros")

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, grid = (value.shape for value in inputs)
        data, grid = require_rank("the data", data, 4), require_rank("the grid", grid, 4)
        batch = data[0].merge(grid[0])
        if batch is None:
            raise InferenceError(f"data of the shape {data} and a grid of {grid} are of different batches")
        if grid[3].merge(Dimension(2, 2)) is None:
            raise InferenceError(f"the grid must name two coordinates a place, but has the shape {grid}")
        return [TensorType(inputs[0].element_type, PartialShape([batch, data[1], grid[1], grid[2]]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, grid = inputs
        batch, channels, height, width = data.shape
        exact = self.mode == "nearest"
        work = data if exact else data.astype(np.float64 if data.dtype == np.float64 else np.float32)
        places = grid.astype(np.float64 if grid.dtype == np.float64 else np.float32)
        rows = self._taps(places[..., 1].reshape(batch, 1, -1), height)
        columns = self._taps(places[..., 0].reshape(batch, 1, -1), width)
        flat = work.reshape(batch, channels, height * width)
        total = np.zeros((batch, channels, grid.shape[1] * grid.shape[2]), work.dtype)
        for (row, row_weight, row_there), (column, column_weight, column_there) in itertools.product(rows, columns):
            picked = np.take_along_axis(flat, row * width + column, 2)
            picked = np.where(row_there & column_there, picked, np.zeros((), work.dtype))
            total = picked if exact else total + picked * (row_weight * column_weight).astype(work.dtype)
        return total.reshape(batch, channels, *grid.shape[1:3]).astype(data.dtype, copy=False)

    def _taps(self, normal: Array, dimension: int) -> list[tuple[Array, Array, Array]]:
        """Return the elements along one dimension for each place, their weights, and the mask of those that exist."""
        unit, half = normal.dtype.type(1), normal.dtype.type(2)
        if self.align_corners:
            place = (normal + unit) / half * normal.dtype.type(dimension - 1)
        else:
            place = ((normal + unit) * normal.dtype.type(dimension) - unit) / half
        if self.mode == "nearest":
            return [self._element(np.rint(place), np.ones_like(place), dimension)]
        start = np.floor(place)
        share = place - start
        if self.mode == "bilinear":
            weights, first = [unit - share, share], 0
        else:
            weights, first = cubic_weights(share), -1
        return [self._element(start + (first + i), weight, dimension) for i, weight in enumerate(weights)]

    def _element(self, index: Array, weight: Array, dimension: int) -> tuple[Array, Array, Array]:
        """The element at an index, its weight, and whether it lies within the data."""
        there = np.ones_like(index, np.bool_)
        if self.padding_mode == "zeros":
            there = (index >= 0) & (index < dimension)
        elif self.padding_mode == "reflection":
            index = mirrored(index, dimension, self.align_corners)
        return np.clip(np.nan_to_num(index), 0, dimension - 1).astype(np.intp), weight, there


def cubic_weights(share: Array) -> list[Array]:
    """Weights of the four elements around a place that lies ``share`` behind the second of them."""

    def inner(distance: Array) -> Array:
        return ((CUBIC + 2) * distance - (CUBIC + 3)) * distance * distance + 1

    def outer(distance: Array) -> Array:
        return ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC

    return [outer(share + 1), inner(share), inner(1 - share), outer(2 - share)]


def mirrored(index: Array, dimension: int, align_corners: bool) -> Array:
    """Indices reflected at both ends: at the centres of the outer elements, or at their outer edges."""
    if align_corners:
        period = max(2 * (dimension - 1), 1)
        along = np.mod(index, period)
        return np.minimum(along, period - along) if dimension > 1 else along
    along = np.mod(index, 2 * dimension)
    return np.minimum(along, 2 * dimension - 1 - along)
