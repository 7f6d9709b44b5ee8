"""Pooling over the spatial dimensions of ``[N, C, D1, D2, ...]``.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/pooling/avg-pool-16.html
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, ElementType, PartialShape, element_types, normalize_axis
from ir_runtime.graph.indices import take
from ir_runtime.graph.operation import (
    Operation,
    TensorType,
    boolean,
    enum,
    integer,
    integers,
    operation,
    type_of_elements,
)
from ir_runtime.graph.value_ranges import Range, values_and_positions
from ir_runtime.operations.windows import Window, covered, pad_for, shifted

AUTO_PADS = ("explicit", "same_upper", "same_lower", "valid")


class Pooling(Operation):
    """Base of all poolings: a window of ``kernel`` elements that moves by ``strides``.

    ``pads_begin`` and ``pads_end`` are used where ``auto_pad`` is ``explicit``. All lists have one
    entry a spatial dimension.
    """

    inputs = (1, 1)
    strides: Sequence[int] = integers()
    pads_begin: Sequence[int] = integers(default=(0, 0))
    pads_end: Sequence[int] = integers(default=(0, 0))
    kernel: Sequence[int] = integers()
    auto_pad: str = enum(*AUTO_PADS, default="explicit")
    rounding_type: str = enum("floor", "ceil", default="floor")

    def windows(self) -> list[Window]:
        """The window of every spatial dimension."""
        rank = len(self.kernel)
        dilations = getattr(self, "dilations", ()) or (1,) * rank
        lists = [self.strides, dilations, self.pads_begin, self.pads_end]
        if any(len(values) != rank for values in lists):
            raise InferenceError(f"kernel, strides, dilations and pads must all have {rank} entries")
        if min(*self.kernel, *self.strides, *dilations, 1) < 1:
            raise InferenceError("kernel, strides and dilations must be positive")
        if min(*self.pads_begin, *self.pads_end, 0) < 0:
            raise InferenceError("pads must not be negative")
        return [
            Window(kernel, stride, dilation, begin, end, self.auto_pad, self.rounding_type)
            for kernel, stride, dilation, begin, end in zip(self.kernel, *lists)
        ]

    def pooled_shape(self, shape: PartialShape) -> PartialShape:
        windows = self.windows()
        if not shape.has_rank:
            return PartialShape.of_rank(2 + len(windows))
        if shape.rank != 2 + len(windows):
            raise InferenceError(
                f"a kernel of {len(windows)} dimensions needs data of rank {2 + len(windows)}, but got {shape}"
            )
        spatial = [window.count_dimension(dimension) for window, dimension in zip(windows, shape.dims[2:])]
        return PartialShape([*shape.dims[:2], *spatial])

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(inputs[0].element_type, self.pooled_shape(inputs[0].shape))]


class AvgPool(Pooling):
    """The mean of each window.

    With ``exclude-pad`` the sum is divided by the number of the window's elements in the data, otherwise by that of
    its elements in data and padding.
    """

    exclude_pad: bool = boolean(default=True, xml="exclude-pad")

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        work = data.astype(np.float32) if data.dtype.itemsize < 4 else data
        windows = self.windows()
        total = pad_for(work, windows, 0)
        for axis, window in enumerate(windows, 2):
            count = window.count(data.shape[axis])
            taps = [shifted(total, axis, window, tap, count) for tap in range(window.kernel)]
            total = taps[0] if len(taps) == 1 else taps[0] + taps[1]
            for tap in taps[2:]:
                total += tap
            divisor = covered(window, data.shape[axis], not self.exclude_pad).astype(work.dtype)
            total = total / divisor.reshape([-1 if i == axis else 1 for i in range(data.ndim)])
        return total.astype(data.dtype, copy=False)


@operation("AvgPool", opset=1)
class AvgPool1(AvgPool):
    """Average pooling with rounding ``floor`` or ``ceil``."""


@operation("AvgPool", opset=14)
class AvgPool14(AvgPool):
    """Adds ``ceil_torch``: windows that would start beyond data and left padding are dropped."""

    rounding_type: str = enum("floor", "ceil", "ceil_torch", default="floor")


@operation("AvgPool", opset=16)
class AvgPool16(AvgPool14):
    """Adds ``dilations``."""

    dilations: Sequence[int] = integers()


class MaxPool(Pooling):
    """The greatest element under each window; padding never wins."""

    def value_range(self, inputs: Sequence[Range], output: int = 0) -> Range | None:
        """A window that has padding alone gives the least value of the type."""
        pads = zip(self.kernel, self.pads_begin, self.pads_end)
        may_miss = self.rounding_type != "floor" or any(size != 1 for size in getattr(self, "dilations", ()))
        if may_miss or any(size <= max(before, after) for size, before, after in pads):
            return None
        return values_and_positions(self, inputs, output)

    def windows_padded(self, data: Array) -> tuple[list[Window], Array]:
        windows = self.windows()
        return windows, pad_for(data, windows, lowest(data.dtype))

    def maximum(self, data: Array) -> Array:
        windows, best = self.windows_padded(data)
        for axis, window in enumerate(windows, 2):
            count = window.count(data.shape[axis])
            taps = [shifted(best, axis, window, tap, count) for tap in range(window.kernel)]
            best = taps[0] if len(taps) == 1 else np.maximum(taps[0], taps[1])
            for tap in taps[2:]:
                np.maximum(best, tap, out=best)
        return best


def lowest(dtype: np.dtype[Any]) -> Any:
    """The least value of the type."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


@operation("MaxPool", opset=1)
class MaxPool1(MaxPool):
    """Max pooling with one output."""

    def evaluate(self, *inputs: Array) -> Array:
        return self.maximum(inputs[0])


class IndexedMaxPool(MaxPool):
    """Max pooling whose second output is the index of each maximum.

    The index counts through the dimensions from ``axis`` on, in row-major order; the first of equal
    maxima counts.
    """

    dilations: Sequence[int] = integers(default=())
    index_element_type: ElementType = type_of_elements(default=element_types.i64)
    axis: int = integer(default=0)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = self.pooled_shape(inputs[0].shape)
        normalize_axis(self.axis, shape.rank)
        return [TensorType(inputs[0].element_type, shape), TensorType(self.index_element_type, shape)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        data = inputs[0]
        windows, padded = self.windows_padded(data)
        counts = [window.count(dimension) for window, dimension in zip(windows, data.shape[2:])]
        best: Array = np.full([*data.shape[:2], *counts], lowest(data.dtype), data.dtype)
        where = np.full(best.shape, -1, np.int64)
        for taps in itertools.product(*[range(window.kernel) for window in windows]):
            view = padded
            on_data = np.ones([1] * data.ndim, np.bool_)
            place = np.zeros([1] * data.ndim, np.int64)
            for axis, (window, tap, count) in enumerate(zip(windows, taps, counts), 2):
                view = shifted(view, axis, window, tap, count)
                along = np.arange(count) * window.stride + tap * window.dilation - window.pads(data.shape[axis])[0]
                along = along.reshape([-1 if i == axis else 1 for i in range(data.ndim)])
                on_data = on_data & (along >= 0) & (along < data.shape[axis])
                place = place * data.shape[axis] + along
            better = on_data & ((view > best) | (where < 0))
            best = np.where(better, view, best)
            where = np.where(better, place, where)
        # A window that lies only in the padding has no maximum: OpenVINO gives the index of its first element.
        where = np.maximum(where, 0) + self._offsets(data.shape)
        return best, where.astype(self.index_element_type.dtype)

    def _offsets(self, shape: tuple[int, ...]) -> Array:
        """The offset of each batch and channel in an index that counts from ``axis`` on."""
        offsets = np.zeros([1] * len(shape), np.int64)
        for axis in range(normalize_axis(self.axis, len(shape)), 2):
            step = int(np.prod(shape[axis + 1 :]))
            along = np.arange(shape[axis], dtype=np.int64) * step
            offsets = offsets + along.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return offsets


@operation("MaxPool", opset=8)
class MaxPool8(IndexedMaxPool):
    """Max pooling with dilations and indices."""


@operation("MaxPool", opset=14)
class MaxPool14(IndexedMaxPool):
    """Adds ``ceil_torch``: windows that would start beyond data and left padding are dropped."""

    rounding_type: str = enum("floor", "ceil", "ceil_torch", default="floor")


class AdaptivePooling(Operation):
    """Pools ``[N, C, ...]`` to the spatial shape given as the second input.

    Position ``i`` of ``n`` along a dimension ``e`` covers elements ``floor(i*e/n)`` to
    ``ceil((i+1)*e/n)``, the last not included.
    """

    inputs = (2, 2)

    def adapted_shape(self, inputs: Sequence[TensorType]) -> PartialShape:
        data, target = inputs
        if not data.shape.has_rank:
            return PartialShape.dynamic()
        spatial = target.known_bounds
        if spatial is None:
            return PartialShape([*data.shape.dims[:2], *[None] * (data.shape.rank - 2)])
        if spatial.lower.size != data.shape.rank - 2:
            raise InferenceError(f"{spatial.lower.size} output dimensions were given for data {data.shape}")
        return PartialShape([*data.shape.dims[:2], *spatial.dimensions()])

    @staticmethod
    def regions(dimension: int, count: int) -> list[tuple[int, int]]:
        return [(i * dimension // count, -(-(i + 1) * dimension // count)) for i in range(count)]


@operation("AdaptiveAvgPool", opset=8)
class AdaptiveAvgPool8(AdaptivePooling):
    """The mean of each region."""

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return [TensorType(inputs[0].element_type, self.adapted_shape(inputs))]

    def evaluate(self, *inputs: Array) -> Array:
        data, target = inputs
        work = data.astype(np.float32) if data.dtype.itemsize < 4 else data
        for axis, count in enumerate(target.reshape(-1).tolist(), 2):
            parts = [
                take(work, range(start, stop), axis).mean(axis=axis, keepdims=True)
                for start, stop in self.regions(work.shape[axis], count)
            ]
            work = np.concatenate(parts, axis)
        return work.astype(data.dtype)


@operation("AdaptiveMaxPool", opset=8)
class AdaptiveMaxPool8(AdaptivePooling):
    """The greatest element of each region, and its index within the spatial dimensions."""

    value_range = values_and_positions
    index_element_type: ElementType = type_of_elements(default=element_types.i64)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        shape = self.adapted_shape(inputs)
        return [TensorType(inputs[0].element_type, shape), TensorType(self.index_element_type, shape)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        data, target = inputs
        counts = target.reshape(-1).tolist()
        spatial = data.shape[2:]
        best = np.empty([*data.shape[:2], *counts], data.dtype)
        where = np.empty(best.shape, np.int64)
        numbers = np.arange(int(np.prod(spatial))).reshape(spatial)
        all_regions = [list(enumerate(self.regions(n, count))) for n, count in zip(spatial, counts)]
        for cell in itertools.product(*all_regions):
            region = tuple(slice(*bounds) for _, bounds in cell)
            flat = data[(slice(None), slice(None), *region)].reshape(*data.shape[:2], -1)
            winner = flat.argmax(axis=2)
            position: Any = (slice(None), slice(None), *(index for index, _ in cell))
            best[position] = np.take_along_axis(flat, winner[..., None], 2)[..., 0]
            where[position] = numbers[region].reshape(-1)[winner]
        return best, where.astype(self.index_element_type.dtype)
