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
from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.operations import generation, padding
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, Operand, where
from ir_runtime.rewriting.shape_layers import shape_of


@record
class _Axis:
    """One dimension: its number, and float32 scalars but for ``count``."""

    axis: int
    dimension: Expression
    count: Expression
    scale: Expression
    start: Expression
    end: Expression
    exact: Expression
    """The output's dimension before it was rounded to a whole number."""


def resize_dynamic(
    ctx: Context, x: Output, request: Request, resized: Sequence[int], element_type: ElementType
) -> Output:
    """The layers that resize ``x`` (of a float type unless ``mode`` is nearest).

    ``resized`` are the indices into the request's ``axes`` of the dimensions that may change, ``element_type`` is that
    of the node's data.
    """
    y = Expression(ctx, x)
    masks: list[Expression] = []
    for axis in sorted(_axes(ctx, x, request, resized), key=lambda axis: -axis.axis):
        places = _places(axis, request.coordinate_transformation_mode)
        if request.is_cropped:
            outside = (places < 0) | ((axis.dimension - 1) < places)
            masks.append(outside.reshape(*(-1 if i == axis.axis else 1 for i in range(y.rank))))
        if request.mode == "nearest":
            y = _nearest(y, axis, places, request)
            continue
        y = _apply_weights(y, axis, places, request)
        if request.rounds_each_dimension(element_type):
            y = Expression(ctx, request.round_off(ctx, y.value, element_type))
    for mask in masks:
        y = where(mask, y.of(request.extrapolation_value), y)
    return y.value


def _axes(ctx: Context, x: Output, request: Request, resized: Sequence[int]) -> list[_Axis]:
    def real(value: Output) -> Expression:
        return Expression(ctx, value).as_type("f32")

    count = len(request.axes)
    dimensions = Expression(ctx, shape_of(ctx, x)).gather(request.axes).as_type("f32")
    starts, ends = dimensions.of(np.zeros(count)), dimensions.of(np.ones(count))
    if request.roi is not None and request.is_cropped:
        region = real(request.roi)
        starts, ends = region.gather(range(count)), region.gather(range(count, 2 * count))
    if request.scales is not None:
        scales = real(request.scales)
        exact = dimensions * scales  # without the region of interest, as onnxruntime
        counts = exact.floor().as_type("i64")
    else:
        assert request.sizes is not None
        counts, exact = Expression(ctx, request.sizes).as_type("i64"), real(request.sizes)
        scales = exact / dimensions
        if request.keep_aspect_ratio_policy != "stretch":
            reduce = scales.min if request.keep_aspect_ratio_policy == "not_larger" else scales.max
            scales = scales.of(np.ones(count)) * reduce(0, keep_dims=True)
            counts = (dimensions * scales + 0.5).floor().as_type("i64")
    lists = (dimensions, counts, scales, starts, ends, exact)
    return [_Axis(request.axes[i], *[values.gather(i) for values in lists]) for i in resized]


def _numbers(start: Expression, stop: Expression) -> Expression:
    """The whole numbers from start up to, but without, stop, in float32."""
    return start.emit(generation.Range4(output_type=element_types.i64), stop, start.of(1)).as_type("f32")


def _places(axis: _Axis, mode: str) -> Expression:
    """The input coordinate of each output position."""
    steps = _numbers(axis.count.of(0), axis.count)
    count = axis.count.as_type("f32")
    if mode == "asymmetric":
        return steps / axis.scale
    if mode == "align_corners":
        return steps * (axis.dimension - 1) / (count - 1).maximum(1)
    if mode == "tf_crop_and_resize":
        last = axis.dimension - 1
        step = (axis.end - axis.start) * last / (count - 1).maximum(1)
        several = axis.start * last + steps * step
        middle = (axis.start + axis.end) * 0.5 * last
        return where(count > 1, several, middle)
    centres = (steps + 0.5) / axis.scale
    if mode == "tf_half_pixel_for_nn":
        return centres
    places = centres - 0.5
    if mode == "pytorch_half_pixel":
        return where(count > 1, places, 0)
    if mode == "half_pixel_symmetric":
        return places + axis.dimension * 0.5 * (1 - count / axis.exact)
    return places


def _nearest(y: Expression, axis: _Axis, places: Expression, request: Request) -> Expression:
    if request.nearest_mode == "simple":
        chosen = where(axis.scale < 1, places.ceil(), places.floor())
    elif request.nearest_mode == "floor":
        chosen = places.floor()
    elif request.nearest_mode == "ceil":
        chosen = places.ceil()
    elif request.nearest_mode == "round_prefer_ceil":
        chosen = (places + 0.5).floor()
    else:
        chosen = (places - 0.5).ceil()
    return y.gather(chosen.maximum(0).minimum(axis.dimension - 1).as_type("i64"), axis.axis)


def _apply_weights(y: Expression, axis: _Axis, places: Expression, request: Request) -> Expression:
    shrink = axis.scale.minimum(1) if request.antialias else axis.scale.of(1)
    margin = axis.count.of(0)
    if not request.exclude_outside:
        margin = ((1.0 if request.mode == "linear" else 2.0) / shrink).ceil().as_type("i64")
    inputs = _numbers(0 - margin, axis.dimension.as_type("i64") + margin)
    weights = _kernel(abs(places.unsqueeze(1) - inputs) * shrink, request)
    if request.antialias or request.exclude_outside:
        weights = weights / weights.sum(1, keep_dims=True)
    if not request.exclude_outside:
        pads = margin.of(np.eye(y.rank, dtype=np.int64)[axis.axis]) * margin
        y = y.emit(padding.Pad12(pad_mode="edge"), pads, pads)
    return multiplied(y, weights.as_type(y.element_type), axis.axis)


def _kernel(distance: Expression, request: Request) -> Expression:
    if request.mode == "linear":
        return (1 - distance).relu()
    a = request.cubic_coeff_a
    square = distance * distance
    near = (distance * (a + 2) - (a + 3)) * square + 1
    far = ((distance * a - 5 * a) * distance + 8 * a) * distance - 4 * a
    return where(distance > 1, where(distance < 2, far, 0), near)


def multiplied(y: Expression, weights: Operand, axis: int) -> Expression:
    """The matrix ``[out, in]`` applied to dimension ``axis``."""
    weights = y.of(weights)
    if axis == y.rank - 1:
        return y.matmul(weights, transpose_b=True)
    if axis == y.rank - 2:
        return weights.matmul(y)
    order = [i for i in range(y.rank) if i != axis] + [axis]
    return y.transpose(*order).matmul(weights, transpose_b=True).transpose(*np.argsort(order))
