"""Resizing by Gather and MatMul, for what Interpolate does not have and for dimensions known only at run time.

Each dimension is a Gather (nearest), or a product with a matrix that the layers compute: how much
every output position takes of every input position. Beyond its ends the data repeat their outermost
element, so they are padded as far as the filter reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.from_onnx.operators.onnx.interpolate_request import Request
from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Output, element_types
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import activation, elementwise, generation, indexing, matmul, movement, padding, reduction
from ir_runtime.records import record
from ir_runtime.rewriting import layers


class _Layers:
    """Short names for the arithmetic layers; numbers become float32 constants."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def value(self, number: Output | float) -> Output:
        return number if isinstance(number, Output) else self.ctx.constant(number, "f32")

    def _both(self, op: Operation, a: Output | float, b: Output | float) -> Output:
        return self.ctx.emit(op, self.value(a), self.value(b))

    def add(self, a: Output | float, b: Output | float) -> Output:
        return self._both(elementwise.Add1(), a, b)

    def sub(self, a: Output | float, b: Output | float) -> Output:
        return self._both(elementwise.Subtract1(), a, b)

    def mul(self, a: Output | float, b: Output | float) -> Output:
        return self._both(elementwise.Multiply1(), a, b)

    def div(self, a: Output | float, b: Output | float) -> Output:
        return self._both(elementwise.Divide1(), a, b)

    def least(self, a: Output | float, b: Output | float) -> Output:
        return self._both(elementwise.Minimum1(), a, b)

    def most(self, a: Output | float, b: Output | float) -> Output:
        return self._both(elementwise.Maximum1(), a, b)

    def less(self, a: Output | float, b: Output | float) -> Output:
        return self._both(elementwise.Less1(), a, b)

    def select(self, condition: Output, a: Output | float, b: Output | float) -> Output:
        return self.ctx.emit(elementwise.Select1(), condition, self.value(a), self.value(b))

    def floor(self, a: Output) -> Output:
        return self.ctx.emit(elementwise.Floor1(), a)

    def ceil(self, a: Output) -> Output:
        return self.ctx.emit(elementwise.Ceiling1(), a)

    def real(self, a: Output) -> Output:
        return self._converted(a, "f32")

    def whole(self, a: Output) -> Output:
        return self._converted(a, "i64")

    def _converted(self, a: Output, kind: str) -> Output:
        wanted = element_types.element_type(kind)
        return a if a.element_type is wanted else self.ctx.emit(elementwise.Convert1(destination_type=wanted), a)

    def pick(self, values: Output, index: int | list[int]) -> Output:
        return self.ctx.emit(indexing.Gather8(), values, self.ctx.constant(index), self.ctx.constant(0))

    def numbers(self, start: Output, stop: Output) -> Output:
        """The whole numbers from start up to, but without, stop, in float32."""
        op = generation.Range4(output_type=element_types.i64)
        return self.real(self.ctx.emit(op, start, stop, self.ctx.constant(1)))


@record
class _Axis:
    """One dimension: its number, and float32 scalars but for ``count``."""

    axis: int
    dimension: Output
    count: Output
    scale: Output
    start: Output
    end: Output
    exact: Output
    """The output's dimension before it was rounded to a whole number."""


def resize_dynamic(ctx: Context, x: Output, request: Request, resized: Sequence[int]) -> Output:
    """The layers that resize ``x`` (of a float type unless ``mode`` is nearest).

    ``resized`` are the indices into the request's ``axes`` of the dimensions that may change.
    """
    f = _Layers(ctx)
    y = x
    masks: list[Output] = []
    for axis in _axes(ctx, f, x, request, resized):
        places = _places(f, axis, request.coordinate_mode)
        if request.is_cropped:
            last = f.sub(axis.dimension, 1)
            outside = layers.logical_or(ctx, f.less(places, 0), f.less(last, places))
            column = ctx.constant([-1 if i == axis.axis else 1 for i in range(x.shape.rank)])
            masks.append(ctx.emit(movement.Reshape1(special_zero=False), outside, column))
        if request.mode == "nearest":
            y = _nearest(ctx, f, y, axis, places, request)
        else:
            y = _weighted(ctx, f, y, axis, places, request)
    for mask in masks:
        y = layers.select(ctx, mask, ctx.like(request.extrapolation, y), y)
    return y


def _axes(ctx: Context, f: _Layers, x: Output, request: Request, resized: Sequence[int]) -> list[_Axis]:
    count = len(request.axes)
    dimensions = f.real(f.pick(ctx.emit(generation.ShapeOf3(output_type=element_types.i64), x), list(request.axes)))
    starts, ends = ctx.constant(np.zeros(count), "f32"), ctx.constant(np.ones(count), "f32")
    if request.roi is not None and request.is_cropped:
        region = f.real(request.roi)
        starts, ends = f.pick(region, list(range(count))), f.pick(region, list(range(count, 2 * count)))
    if request.scales is not None:
        scales = f.real(request.scales)
        exact = f.mul(f.mul(dimensions, f.sub(ends, starts)), scales)
        counts = f.whole(f.floor(exact))
    else:
        assert request.sizes is not None
        counts, exact = f.whole(request.sizes), f.real(request.sizes)
        scales = f.div(exact, dimensions)
        if request.policy != "stretch":
            cls = reduction.ReduceMin1 if request.policy == "not_larger" else reduction.ReduceMax1
            common = ctx.emit(cls(keep_dims=True), scales, ctx.constant([0]))
            scales = f.mul(ctx.constant(np.ones(count), "f32"), common)
            counts = f.whole(f.floor(f.add(f.mul(dimensions, scales), 0.5)))
    lists = (dimensions, counts, scales, starts, ends, exact)
    return [_Axis(request.axes[i], *[f.pick(values, i) for values in lists]) for i in resized]


def _places(f: _Layers, axis: _Axis, mode: str) -> Output:
    """The input coordinate of each output position."""
    steps = f.numbers(f.ctx.constant(0), axis.count)
    count = f.real(axis.count)
    if mode == "asymmetric":
        return f.div(steps, axis.scale)
    if mode == "align_corners":
        return f.div(f.mul(steps, f.sub(axis.dimension, 1)), f.most(f.sub(count, 1), 1))
    if mode == "tf_crop_and_resize":
        last = f.sub(axis.dimension, 1)
        step = f.div(f.mul(f.sub(axis.end, axis.start), last), f.most(f.sub(count, 1), 1))
        several = f.add(f.mul(axis.start, last), f.mul(steps, step))
        middle = f.mul(f.mul(f.add(axis.start, axis.end), 0.5), last)
        return f.select(f.less(1, count), several, middle)
    centres = f.div(f.add(steps, 0.5), axis.scale)
    if mode == "tf_half_pixel_for_nn":
        return centres
    places = f.sub(centres, 0.5)
    if mode == "pytorch_half_pixel":
        return f.select(f.less(1, count), places, 0)
    if mode == "half_pixel_symmetric":
        lost = f.sub(1, f.div(count, axis.exact))
        return f.add(places, f.mul(f.mul(axis.dimension, 0.5), lost))
    return places


def _nearest(ctx: Context, f: _Layers, y: Output, axis: _Axis, places: Output, request: Request) -> Output:
    if request.nearest_mode == "simple":
        chosen = f.select(f.less(axis.scale, 1), f.ceil(places), f.floor(places))
    elif request.nearest_mode == "floor":
        chosen = f.floor(places)
    elif request.nearest_mode == "ceil":
        chosen = f.ceil(places)
    elif request.nearest_mode == "round_prefer_ceil":
        chosen = f.floor(f.add(places, 0.5))
    else:
        chosen = f.ceil(f.sub(places, 0.5))
    inside = f.whole(f.least(f.most(chosen, 0), f.sub(axis.dimension, 1)))
    return layers.gather(ctx, y, inside, ctx.constant(axis.axis))


def _weighted(ctx: Context, f: _Layers, y: Output, axis: _Axis, places: Output, request: Request) -> Output:
    shrink = f.least(axis.scale, 1) if request.antialias else f.value(1.0)
    margin = ctx.constant(0)
    if not request.exclude_outside:
        margin = f.whole(f.ceil(f.div(1.0 if request.mode == "linear" else 2.0, shrink)))
    below = layers.subtract(ctx, ctx.constant(0), margin)
    above = layers.add(ctx, f.whole(axis.dimension), margin)
    column = layers.unsqueeze(ctx, places, 1)
    gaps = layers.absolute(ctx, f.sub(column, f.numbers(below, above)))
    weights = _kernel(ctx, f, f.mul(gaps, shrink), request)
    if request.antialias or request.exclude_outside:
        weights = f.div(weights, ctx.emit(reduction.ReduceSum1(keep_dims=True), weights, ctx.constant([1])))
    if not request.exclude_outside:
        place = ctx.constant(np.eye(y.shape.rank, dtype=np.int64)[axis.axis])
        pads = layers.multiply(ctx, place, margin)
        y = ctx.emit(padding.Pad12(pad_mode="edge"), y, pads, pads)
    kind = y.element_type
    if kind is not element_types.f32:
        weights = ctx.emit(elementwise.Convert1(destination_type=kind), weights)
    return multiplied(ctx, y, weights, axis.axis)


def _kernel(ctx: Context, f: _Layers, distance: Output, request: Request) -> Output:
    if request.mode == "linear":
        return ctx.emit(activation.ReLU1(), f.sub(1, distance))
    a = request.cubic_coeff
    square = f.mul(distance, distance)
    near = f.add(f.mul(f.sub(f.mul(distance, a + 2), a + 3), square), 1)
    far = f.sub(f.mul(f.add(f.mul(f.sub(f.mul(distance, a), 5 * a), distance), 8 * a), distance), 4 * a)
    return f.select(f.less(1, distance), f.select(f.less(distance, 2), far, 0), near)


def multiplied(ctx: Context, y: Output, weights: Output, axis: int) -> Output:
    """The matrix ``[out, in]`` applied to dimension ``axis``."""
    rank = y.shape.rank
    if axis == rank - 1:
        return ctx.emit(matmul.MatMul1(transpose_b=True), y, weights)
    if axis == rank - 2:
        return ctx.emit(matmul.MatMul1(), weights, y)
    order = [i for i in range(rank) if i != axis] + [axis]
    transposed = layers.transpose(ctx, y, ctx.constant(order))
    product = ctx.emit(matmul.MatMul1(transpose_b=True), transposed, weights)
    return layers.transpose(ctx, product, ctx.constant(np.argsort(order)))
