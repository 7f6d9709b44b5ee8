"""Patches of images: laid side by side (ExtractImagePatches), and added up to an image again (Col2Im).

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/movement/col2im-15.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, Array, Dimension, PartialShape
from ir_runtime.graph.operation import Operation, TensorType, enum, integers, operation
from ir_runtime.graph.shapes import require_rank
from ir_runtime.graph.value_ranges import values_and_zeros
from ir_runtime.operations.windows import Window


def _two(name: str, values: Sequence[int], least: int) -> None:
    if len(values) != 2 or min(values) < least:
        raise InferenceError(f"{name} must be two numbers from {least} on, but is {list(values)}")


@operation("Col2Im", opset=15)
class Col2Im15(Operation):
    """Blocks added up at their places in an image.

    Inputs: data ``[N, C * block, L]`` (or without N), the image's dimensions (two), a block's dimensions
    (two). Column ``l`` of the data is the block at the ``l``-th place, row by row. The output is
    ``[N, C, *image]``.
    """

    inputs = (3, 3)
    strides: Sequence[int] = integers()
    dilations: Sequence[int] = integers()
    pads_begin: Sequence[int] = integers()
    pads_end: Sequence[int] = integers()

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data, image, block = inputs
        for name, values, least in (("strides", self.strides, 1), ("dilations", self.dilations, 1)):
            _two(name, values, least)
        for name, values in (("pads_begin", self.pads_begin), ("pads_end", self.pads_end)):
            _two(name, values, 0)
        for name, dimensions in (("the image", image), ("a block", block)):
            if PartialShape([2]).merge(dimensions.shape) is None:
                raise InferenceError(f"{name} must be given by two numbers, but the shape is {dimensions.shape}")
        if not data.shape.has_rank:
            return [TensorType(data.element_type, PartialShape.dynamic())]
        if data.shape.rank not in (2, 3):
            raise InferenceError(f"the data must have two or three dimensions, but the shape is {data.shape}")
        sizes, channels = [DYNAMIC, DYNAMIC], DYNAMIC
        if image.known_bounds is not None:
            sizes = image.known_bounds.dimensions()
        constant = block.constant
        if constant is not None and data.shape[-2].is_static:
            channels = self._channels(data.shape[-2].value, constant)
        if constant is not None and all(size.is_static for size in sizes):
            places = self._places([e.value for e in sizes], constant.reshape(-1).tolist())
            count = math.prod(window.count(e.value) for window, e in zip(places, sizes))
            if not data.shape[-1].contains(count):
                raise InferenceError(f"data of the shape {data.shape} have not the {count} blocks of the image")
        return [TensorType(data.element_type, PartialShape([*data.shape.dims[:-2], channels, *sizes]))]

    @staticmethod
    def _channels(rows: int, block: Array) -> Dimension:
        size = int(np.prod(block.astype(np.int64)))
        if block.size != 2 or size < 1 or rows % size:
            raise InferenceError(f"{rows} rows are no whole number of blocks of {block.reshape(-1).tolist()}")
        return Dimension(rows // size, rows // size)

    def _places(self, image: Sequence[int], block: Sequence[int]) -> list[Window]:
        return [Window(*values) for values in zip(block, self.strides, self.dilations, self.pads_begin, self.pads_end)]

    def evaluate(self, *inputs: Array) -> Array:
        data, image, block = inputs
        sizes, kernel = image.reshape(-1).tolist(), block.reshape(-1).tolist()
        channels = self._channels(data.shape[-2], block).value
        rows, columns = (w.count(e) for w, e in zip(self._places(sizes, kernel), sizes))
        lead = data.shape[:-2]
        if data.shape[-1] != rows * columns:
            raise InferenceError(f"data of the shape {data.shape} have not the {rows * columns} blocks of the image")
        taps = data.reshape(*lead, channels, *kernel, rows, columns)
        padded = [e + before + behind for e, before, behind in zip(sizes, self.pads_begin, self.pads_end)]
        total = np.zeros((*lead, channels, *padded), np.float32 if data.dtype.itemsize < 4 else data.dtype)
        for i in range(kernel[0]):
            top = i * self.dilations[0]
            down = slice(top, top + self.strides[0] * (rows - 1) + 1, self.strides[0])
            for j in range(kernel[1]):
                left = j * self.dilations[1]
                along = slice(left, left + self.strides[1] * (columns - 1) + 1, self.strides[1])
                total[..., down, along] += taps[..., i, j, :, :]
        top, left = self.pads_begin
        inner = total[..., top : top + sizes[0], left : left + sizes[1]]
        if data.dtype.kind in "iu" and inner.dtype.kind == "f":
            inner = inner.astype(np.int64)  # Sums of small integers wrap in their own type.
        return inner.astype(data.dtype)


@operation("ExtractImagePatches", opset=3)
class ExtractImagePatches3(Operation):
    """Each patch's elements side by side in the channels: ``[N, h * w * C, OH, OW]`` of ``[N, C, H, W]``.

    ``sizes`` are a patch's dimensions, ``strides`` the steps between patches, ``rates`` those within one.
    """

    inputs = (1, 1)
    sizes: Sequence[int] = integers()
    strides: Sequence[int] = integers()
    rates: Sequence[int] = integers()
    auto_pad: str = enum("same_lower", "same_upper", "valid")

    value_range = values_and_zeros

    def _windows(self) -> list[Window]:
        for name, values in (("sizes", self.sizes), ("strides", self.strides), ("rates", self.rates)):
            _two(name, values, 1)
        return [
            Window(size, stride, rate, 0, 0, self.auto_pad)
            for size, stride, rate in zip(self.sizes, self.strides, self.rates)
        ]

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data = require_rank("the data", inputs[0].shape, 4)
        spatial = [window.count_dimension(size) for window, size in zip(self._windows(), data.dims[2:])]
        channels = data[1] * math.prod(self.sizes)
        return [TensorType(inputs[0].element_type, PartialShape([data[0], channels, *spatial]))]

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        windows = self._windows()
        counts = [window.count(size) for window, size in zip(windows, data.shape[2:])]
        pads = [window.pads(size) for window, size in zip(windows, data.shape[2:])]
        padded = np.pad(data, [(0, 0), (0, 0), *pads])
        parts = []
        for i in range(self.sizes[0]):
            for j in range(self.sizes[1]):
                starts = (i * self.rates[0], j * self.rates[1])
                cuts = [slice(a, a + s * (n - 1) + 1, s) for a, s, n in zip(starts, self.strides, counts)]
                parts.append(padded[:, :, cuts[0], cuts[1]])
        return np.concatenate(parts, axis=1)
