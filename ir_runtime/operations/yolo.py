"""The last layers of YOLO detectors: RegionYolo and ReorgYolo.

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/detection/region-yolo-1.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import Array, Dimension, PartialShape, normalize_axis
from ir_runtime.graph.operation import Operation, TensorType, boolean, integer, integers, operation, reals
from ir_runtime.graph.shapes import require_rank

from .blocks import divide_dimension


@operation("RegionYolo", opset=1)
class RegionYolo1(Operation):
    """Boxes' places and scores made probabilities, in data ``[N, regions * (coords + 1 + classes), H, W]``.

    Of each region the first two values and the score become sigmoids, and so do the classes, or with
    ``do_softmax`` their softmax; then there are ``num`` regions, otherwise one for each of ``mask``.
    With softmax the dimensions from ``axis`` to ``end_axis`` come out as one. ``anchors`` are only kept.
    """

    inputs = (1, 1)
    anchors: Sequence[float] = reals(default=())
    axis: int = integer(default=0)
    coords: int = integer(default=0)
    classes: int = integer(default=0)
    end_axis: int = integer(default=0)
    num: int = integer(default=0)
    do_softmax: bool = boolean(default=False)
    mask: Sequence[int] = integers(default=())

    def regions(self) -> int:
        return self.num if self.do_softmax else len(self.mask)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data = require_rank("the data", inputs[0].shape, 4)
        values = self.coords + 1 + self.classes
        if min(self.coords, self.classes, self.regions()) < 0 or not data[1].contains(self.regions() * values):
            raise InferenceError(f"data of the shape {data} have not {self.regions()} regions of {values} values")
        if not self.do_softmax:
            channels = Dimension(self.regions() * values, self.regions() * values)
            return [TensorType(inputs[0].element_type, data.replace(1, channels))]
        first, last = (normalize_axis(axis, 4) for axis in (self.axis, self.end_axis))
        joined = PartialShape(data.dims[first : last + 1]).element_count()
        dims = [*data.dims[:first], joined, *data.dims[last + 1 :]]
        return [TensorType(inputs[0].element_type, PartialShape(dims))]

    def evaluate(self, *inputs: Array) -> Array:
        data = inputs[0]
        batch, _, height, width = data.shape
        work = data.astype(np.float64 if data.dtype == np.float64 else np.float32)
        parts = work.reshape(batch, self.regions(), -1, height, width)
        out = parts.copy()
        out[:, :, :2] = _sigmoid(parts[:, :, :2])
        out[:, :, self.coords :] = _sigmoid(parts[:, :, self.coords :])
        if not self.do_softmax:
            return out.reshape(data.shape).astype(data.dtype)
        scores = parts[:, :, self.coords + 1 :]
        powers = np.exp(scores - scores.max(axis=2, keepdims=True, initial=-np.inf))
        out[:, :, self.coords + 1 :] = powers / powers.sum(axis=2, keepdims=True)
        first, last = (normalize_axis(axis, 4) for axis in (self.axis, self.end_axis))
        return out.reshape(*data.shape[:first], -1, *data.shape[last + 1 :]).astype(data.dtype)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


@operation("ReorgYolo", opset=2)
class ReorgYolo2(Operation):
    """Space moved into channels as Darknet does: ``[N, C * s * s, H / s, W / s]`` of ``[N, C, H, W]``.

    Darknet takes the data for ``[N, C / (s * s), H * s, W * s]``, of which each square of ``s`` by
    ``s`` elements goes into the channels.
    """

    inputs = (1, 1)
    stride: Sequence[int] = integers()
    movement = True

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        data = require_rank("the data", inputs[0].shape, 4)
        if not self.stride or self.stride[0] < 1:
            raise InferenceError(f"stride must be positive, but is {list(self.stride)}")
        step = self.stride[0]
        for dimension, divisor in zip(data.dims[1:], (step * step, step, step)):
            if dimension.is_static and dimension.value % divisor:
                raise InferenceError(f"data of the shape {data} cannot be divided by strides of {step}")
        spatial = [
            divide_dimension(dimension, step, f"dimension {axis}") for axis, dimension in enumerate(data.dims[2:], 2)
        ]
        return [TensorType(inputs[0].element_type, PartialShape([data[0], data[1] * (step * step), *spatial]))]

    def evaluate(self, *inputs: Array) -> Array:
        data, step = inputs[0], self.stride[0]
        batch, channels, height, width = data.shape
        squares = data.reshape(batch, channels // step**2, height, step, width, step)
        moved = squares.transpose(0, 3, 5, 1, 2, 4)
        return moved.reshape(batch, channels * step**2, height // step, width // step)
