"""Interpolate: a tensor resized along some of its dimensions, in all three revisions.

Every mode works along one dimension at a time: each output position is a weighted sum of a few
input positions (:class:`Taps`).

https://docs.openvino.ai/2026/documentation/openvino-ir-format/operation-sets/operation-specs/image/interpolate-11.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ir_runtime.errors import InferenceError
from ir_runtime.graph import DYNAMIC, INFINITY, Array, Dimension, PartialShape, normalize_axes
from ir_runtime.graph.indices import take
from ir_runtime.graph.operation import Operation, Required, TensorType, boolean, enum, integers, operation, real, text

from ..records import record

_EPSILON = np.float32(1e-6)
"""Added to ``dimension * scale`` before it is rounded down, so that a scale of 1/3 does its work."""


_LARGEST_RESIZING = 2
"""The largest dimension or scale that is required: larger ones cost more. onnxruntime keeps outer dimensions."""


@record
class Taps:
    """For each output position the input positions it is made from, and their weights."""

    positions: Array
    """``[out, taps]``, each within the input."""
    weights: Array | None
    """``[out, taps]`` in float64, or None for one tap of weight 1."""

    def apply(self, data: Array, axis: int) -> Array:
        """The weighted sums along ``axis``."""
        if self.weights is None:
            return take(data, self.positions[:, 0], axis)
        shape = [1] * data.ndim
        shape[axis] = -1
        total: Array | None = None
        for tap in range(self.positions.shape[1]):
            weight = self.weights[:, tap].astype(data.dtype).reshape(shape)
            if total is not None and not weight.any():
                continue
            part = take(data, self.positions[:, tap], axis) * weight
            total = part if total is None else total + part
        assert total is not None
        return total


def coordinates(mode: str, dimension: int, count: int, scale: np.float32) -> Array:
    """Return the places of ``count`` output positions between the input's, in float32."""
    places = np.arange(count, dtype=np.float32)
    half, unit = np.float32(0.5), np.float32(1)
    if scale == 1 or dimension == count:
        return places
    if mode == "align_corners":
        if count == 1:
            return np.zeros(1, np.float32)
        return places * (np.float32(dimension) - unit) / (np.float32(count) - unit)
    if mode == "asymmetric":
        return places / scale
    if mode == "tf_half_pixel_for_nn":
        return (places + half) / scale
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(1, np.float32)
    return (places + half) / scale - half


def nearest(mode: str, places: Array, shrinks: bool) -> Array:
    """The whole number that each place is rounded to."""
    if mode == "simple":
        mode = "ceil" if shrinks else "floor"
    if mode == "floor":
        return np.floor(places)
    if mode == "ceil":
        return np.ceil(places)
    if mode == "round_prefer_ceil":
        return np.floor(places + np.float32(0.5))
    return np.ceil(places - np.float32(0.5))


def cubic_weights(fraction: Array, a: float) -> Array:
    """The weights of the four elements around a place, ``[out, 4]``."""
    t = fraction.astype(np.float64)[:, None]
    distance = np.abs(t - np.array([-1.0, 0.0, 1.0, 2.0]))
    return cubic_kernel(distance, a)


def cubic_kernel(distance: Array, a: float) -> Array:
    """Keys' cubic convolution kernel."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


class _Interpolate(Operation):
    """Common base of the revisions: the axes, the dimensions and the scales along them."""

    def resized(
        self,
        shape: PartialShape,
        axes: Sequence[int] | None,
        sizes: Sequence[Dimension] | None,
        pads: tuple[Sequence[int], Sequence[int]],
    ) -> PartialShape:
        """The padded shape, with the dimensions along ``axes`` replaced (all of them unknown without axes)."""
        if not shape.has_rank:
            return PartialShape.dynamic()
        dims = [_pad(d, b, e) for d, b, e in zip(shape, *(self.pads_of(p, shape.rank) for p in pads))]
        if axes is None:
            return PartialShape.of_rank(shape.rank)
        if sizes is not None and len(sizes) != len(axes):
            raise InferenceError(f"{len(sizes)} dimensions or scales were given for {len(axes)} axes")
        for index, axis in enumerate(normalize_axes(axes, shape.rank)):
            dims[axis] = DYNAMIC if sizes is None else sizes[index]
        return PartialShape(dims)

    @staticmethod
    def pads_of(pads: Sequence[int], rank: int) -> tuple[int, ...]:
        """Return one pad per dimension: those beyond the list are 0."""
        return tuple([*pads, *[0] * rank][:rank])

    def padded(self, data: Array, begin: Sequence[int], end: Sequence[int]) -> Array:
        widths = list(zip(self.pads_of(begin, data.ndim), self.pads_of(end, data.ndim)))
        return np.pad(data, widths) if any(map(any, widths)) else data


def _pad(dimension: Dimension, begin: int, end: int) -> Dimension:
    return dimension if begin == end == 0 else dimension + (begin + end)


def scaled_dimension(dimension: int, scale: np.float32) -> int:
    """``dimension * scale`` rounded down."""
    return int(np.floor(np.float32(dimension) * scale + _EPSILON))


class _Modes(_Interpolate):
    """Interpolation as revisions 4 and 11 describe it."""

    mode: str = enum("nearest", "linear", "linear_onnx", "cubic", default="nearest")
    shape_calculation_mode: str = enum("sizes", "scales", default="sizes")
    coordinate_transformation_mode: str = enum(
        *("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners"),
        default="half_pixel",
    )
    nearest_mode: str = enum(
        "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple", default="round_prefer_floor"
    )
    antialias: bool = boolean(default=False)
    pads_begin: Sequence[int] = integers(default=(0, 0, 0, 0))
    pads_end: Sequence[int] = integers(default=(0, 0, 0, 0))
    cube_coeff: float = real(default=-0.75)

    def shape_of(self, data: TensorType, target: TensorType, axes: TensorType | None) -> list[TensorType]:
        """The output's type, where ``target`` are the dimensions or scales along ``axes``."""
        shape = data.shape
        chosen: list[int] | None
        if axes is None:
            chosen = list(range(shape.rank)) if shape.has_rank else None
        else:
            chosen = None if axes.constant is None else axes.constant.reshape(-1).tolist()
        if self.shape_calculation_mode == "sizes":
            bounds = target.known_bounds
            sizes = None if bounds is None else bounds.dimensions()
        else:
            sizes = self._scale(shape, chosen, target)
        pads = self.pads_begin, self.pads_end
        return [TensorType(data.element_type, self.resized(shape, chosen, sizes, pads))]

    def _scale(self, shape: PartialShape, axes: list[int] | None, scales: TensorType) -> list[Dimension] | None:
        constant = scales.constant
        if constant is None or axes is None or not shape.has_rank:
            return None
        begin, end = (self.pads_of(pads, shape.rank) for pads in (self.pads_begin, self.pads_end))
        dimensions = []
        for axis, scale in zip(normalize_axes(axes, shape.rank), constant.reshape(-1).astype(np.float32)):
            dimension = _pad(shape[axis], begin[axis], end[axis])
            high = INFINITY if dimension.high == INFINITY else scaled_dimension(dimension.high, scale)
            dimensions.append(Dimension(scaled_dimension(dimension.low, scale), high))
        return dimensions if len(dimensions) == constant.size else [DYNAMIC] * constant.size

    def interpolated(self, data: Array, target: Array, scales: Array | None, axes: Array | None) -> Array:
        """Resize ``data``: ``target`` are the dimensions, or the scales where ``scales`` is None or in use."""
        work = self.padded(data, self.pads_begin, self.pads_end)
        chosen = list(range(work.ndim)) if axes is None else list(normalize_axes(axes.reshape(-1).tolist(), work.ndim))
        if self.shape_calculation_mode == "scales":
            factors = (target if scales is None else scales).reshape(-1).astype(np.float32)
            counts = [scaled_dimension(work.shape[axis], factor) for axis, factor in zip(chosen, factors)]
        else:
            counts = target.reshape(-1).tolist()
            before = np.array([work.shape[axis] for axis in chosen], np.float32)
            factors = (np.array(counts, np.float32) / before).astype(np.float32)
        if self.mode != "nearest":
            work = work.astype(np.float32) if work.dtype.itemsize < 4 or work.dtype.kind != "f" else work
        rounds_each = self.mode.endswith("_pillow") and np.issubdtype(data.dtype, np.integer)
        for axis, count, factor in sorted(zip(chosen, counts, factors), reverse=rounds_each):
            if count == work.shape[axis] and (factor == 1 or self.shape_calculation_mode == "sizes"):
                continue
            if work.shape[axis] == 0 and count:
                raise InferenceError(f"an empty dimension cannot be resized to {count}")
            work = self.taps(work.shape[axis], count, factor).apply(work, axis)
            if rounds_each:  # as Pillow does, rows first
                work = _rounded(work, data.dtype)
        if data.dtype.kind in "iu" and work.dtype != data.dtype:
            work = _rounded(work, data.dtype)
        return work.astype(data.dtype, copy=False)

    def taps(self, dimension: int, count: int, scale: np.float32) -> Taps:
        """Return the sources of each of ``count`` positions along a dimension of size ``dimension``."""
        if self.mode.endswith("_pillow"):
            return _pillow(dimension, count, self.mode == "bicubic_pillow", self.cube_coeff)
        places = coordinates(self.coordinate_transformation_mode, dimension, count, scale)
        if self.mode == "nearest":
            rounded = nearest(self.nearest_mode, places, bool(scale < 1))
            return Taps(np.clip(rounded, 0, dimension - 1).astype(np.intp)[:, None], None)
        if self.mode == "linear_onnx":
            inside = np.clip(places, 0, dimension - 1)
            low = np.floor(inside).astype(np.intp)
            high = np.minimum(low + 1, dimension - 1)
            # At the end both are the last element, in equal parts: an infinity times a weight of 0 would be NaN.
            part = np.where(high > low, inside - low, 0.5).astype(np.float64)
            return Taps(np.stack([low, high], 1), np.stack([1 - part, part], 1))
        if self.mode == "cubic":
            low = np.floor(places).astype(np.intp)
            around = np.clip(low[:, None] + np.arange(-1, 3), 0, dimension - 1)
            return Taps(around, cubic_weights(places - low, self.cube_coeff))
        return self._triangles(places, dimension, scale)

    def _triangles(self, places: Array, dimension: int, scale: np.float32) -> Taps:
        """Mode linear: triangles around each place, as wide as the data shrink where antialiased."""
        slope = float(scale) if self.antialias else 1.0
        reach = 2 if scale > 1 else math.ceil(2 / slope)
        middle = np.round(places).astype(np.intp)
        around = middle[:, None] + np.arange(-reach, reach + 1)
        inside = (around >= 0) & (around < dimension)
        distance = slope * np.abs(places.astype(np.float64)[:, None] - around)
        weights = np.where(inside, np.maximum(0, 1 - distance), 0)
        total = weights.sum(1, keepdims=True)
        weights = np.divide(weights, total, out=np.zeros_like(weights), where=total != 0)
        return Taps(np.clip(around, 0, dimension - 1), weights)


def _rounded(values: Array, dtype: np.dtype) -> Array:
    """The nearest whole numbers that ``dtype`` has, still as floats."""
    info = np.iinfo(dtype)
    return np.clip(np.rint(values), info.min, info.max)


def _pillow(dimension: int, count: int, cubic: bool, a: float) -> Taps:
    """The filters of the Python Imaging Library, which widen where the data shrink."""
    scale = dimension / count
    stretch = max(scale, 1.0)
    support = (2.0 if cubic else 1.0) * stretch
    centre = (np.arange(count) + 0.5) * scale
    first = np.maximum((centre - support + 0.5).astype(np.intp), 0)
    last = np.minimum((centre + support + 0.5).astype(np.intp), dimension)
    width = int((last - first).max(initial=1))
    around = first[:, None] + np.arange(width)
    distance = np.abs((around - centre[:, None] + 0.5) / stretch)
    weights = cubic_kernel(distance, a) if cubic else np.maximum(0, 1 - distance)
    weights = np.where(around < last[:, None], weights, 0)
    return Taps(np.minimum(around, dimension - 1), weights / weights.sum(1, keepdims=True))


@operation("Interpolate", opset=4)
class Interpolate4(_Modes):
    """Inputs: data, dimensions, scales, and the axes these are of (all where left out).

    ``shape_calculation_mode`` selects the dimensions or the scales.
    """

    inputs = (3, 4)

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        axes = inputs[3] if len(inputs) > 3 else None
        target = inputs[1] if self.shape_calculation_mode == "sizes" else inputs[2]
        return self.shape_of(inputs[0], target, axes)

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        return {1 if self.shape_calculation_mode == "sizes" else 2: Required(1, _LARGEST_RESIZING, rising=True)}

    def evaluate(self, *inputs: Array) -> Array:
        return self.interpolated(inputs[0], inputs[1], inputs[2], inputs[3] if len(inputs) > 3 else None)


@operation("Interpolate", opset=11)
class Interpolate11(_Modes):
    """Inputs: data, dimensions or scales, and the axes these are of (all where left out). Adds Pillow's filters."""

    inputs = (2, 3)
    mode: str = enum(
        "nearest", "linear", "linear_onnx", "cubic", "bilinear_pillow", "bicubic_pillow", default="nearest"
    )

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        return self.shape_of(inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None)

    def required(self, inputs: Sequence[TensorType]) -> Mapping[int, Required | None]:
        return {1: Required(1, _LARGEST_RESIZING, rising=True)}

    def evaluate(self, *inputs: Array) -> Array:
        return self.interpolated(inputs[0], inputs[1], None, inputs[2] if len(inputs) > 2 else None)


@operation("Interpolate", opset=1)
class Interpolate1(_Interpolate):
    """Inputs: data, and the dimensions along ``axes``. ``mode`` is nearest, linear or cubic."""

    inputs = (2, 2)
    axes: Sequence[int] = integers(default=())
    mode: str = text(default="")
    align_corners: bool = boolean(default=True)
    antialias: bool = boolean(default=False)
    pads_begin: Sequence[int] = integers(default=())
    pads_end: Sequence[int] = integers(default=())

    def infer(self, inputs: Sequence[TensorType]) -> list[TensorType]:
        if self.mode not in ("nearest", "linear", "cubic"):
            raise InferenceError(f"mode must be nearest, linear or cubic, but is '{self.mode}'")
        data, sizes = inputs
        bounds = sizes.known_bounds
        target_sizes = None if bounds is None else bounds.dimensions()
        pads = self.pads_begin, self.pads_end
        return [TensorType(data.element_type, self.resized(data.shape, self.axes, target_sizes, pads))]

    def as_revision_11(self) -> Interpolate11:
        """The same by revision 11, whose axes are an input."""
        return Interpolate11(
            mode=self.mode if self.mode != "linear" or self.antialias else "linear_onnx",
            shape_calculation_mode="sizes",
            coordinate_transformation_mode="align_corners" if self.align_corners else "asymmetric",
            nearest_mode="simple",
            antialias=self.antialias,
            pads_begin=self.pads_begin,
            pads_end=self.pads_end,
        )

    def evaluate(self, *inputs: Array) -> Array:
        return self.as_revision_11().interpolated(inputs[0], inputs[1], None, np.array(self.axes))
