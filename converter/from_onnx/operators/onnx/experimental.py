"""Operators that ONNX had on trial and took back before opset 10, though files with them are still about.

CoreML's and Caffe2's exporters wrote them; onnxruntime runs most of them in models below opset 10.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.from_onnx.operators.onnx.slicing import slice_10
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import Output
from ir_runtime.operations import activation, elementwise, movement, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import as_i64, shape_of


def _multiply(ctx: Context, x: Output, factor: float) -> Output:
    return layers.multiply(ctx, x, ctx.like(factor, x))


@onnx_op("Affine", versions=(1,))
def affine(ctx: Context, x: Output, *, alpha: float = 1.0, beta: float = 0.0) -> Output:
    """alpha x + beta."""
    return layers.add(ctx, _multiply(ctx, x, alpha), ctx.like(beta, x))


@onnx_op("Scale", versions=(1,))
def scale(ctx: Context, x: Output, *, scale: float = 1.0) -> Output:
    """x times a number."""
    return _multiply(ctx, x, scale)


@onnx_op("ScaledTanh", versions=(1,))
def scaled_tanh(ctx: Context, x: Output, *, alpha: float | None = None, beta: float | None = None) -> Output:
    """alpha tanh(beta x)."""
    if alpha is None or beta is None:
        raise ctx.invalid("alpha and beta have no defaults, but one is missing")
    return _multiply(ctx, ctx.emit(elementwise.Tanh1(), _multiply(ctx, x, beta)), alpha)


@onnx_op("ParametricSoftplus", versions=(1,))
def parametric_softplus(ctx: Context, x: Output, *, alpha: float | None = None, beta: float | None = None) -> Output:
    """alpha log(1 + e^(beta x))."""
    if alpha is None or beta is None:
        raise ctx.invalid("alpha and beta have no defaults, but one is missing")
    return _multiply(ctx, ctx.emit(activation.SoftPlus4(), _multiply(ctx, x, beta)), alpha)


def _image(ctx: Context, x: Output) -> None:
    ctx.rank(x, "the images", 4)


@onnx_op("ImageScaler", versions=(1,))
def image_scaler(ctx: Context, x: Output, *, bias: Sequence[float] | None = None, scale: float = 1.0) -> Output:
    """Images ``[n, c, h, w]`` times a number, plus a bias for each channel."""
    _image(ctx, x)
    scaled = _multiply(ctx, x, scale)
    if bias is None:
        return scaled
    # A single bias would be stretched over all channels, so that nothing else would notice.
    declared = ctx.declared(x).shape
    if not declared[1].contains(len(bias)):
        raise ctx.invalid(f"there are {len(bias)} biases for the channels of {declared}")
    column = np.reshape(np.asarray(bias, np.float64), (1, -1, 1, 1))
    return layers.add(ctx, scaled, ctx.constant(column, x.element_type))


@onnx_op("Crop", versions=(1,))
def crop(ctx: Context, x: Output, *, border: Sequence[int] | None = None, scale: Sequence[int] | None = None) -> Output:
    """Images without their borders (left, top, right, bottom).

    With ``scale`` its height and width are taken from the left and top border on instead.
    """
    _image(ctx, x)
    if border is None or len(border) != 4 or min(border) < 0:
        raise ctx.invalid(f"border must be four numbers from 0 on, but is {border}")
    left, top, right, bottom = border
    # A slice is clipped where this does not hold, so that nothing else would notice.
    declared = ctx.declared(x).shape
    for axis, count in ((2, top + bottom), (3, left + right)):
        if scale is None and declared[axis].high <= count:
            raise ctx.invalid(f"nothing is left of dimension {axis} of {declared} without {count} elements")
    end = [-bottom or np.iinfo(np.int64).max, -right or np.iinfo(np.int64).max]
    if scale is not None:
        if len(scale) != 2 or min(scale) < 1:
            raise ctx.invalid(f"scale must be a height and a width, but is {list(scale)}")
        end = [top + scale[0], left + scale[1]]
        for axis, stop in zip((2, 3), end):
            if declared[axis].high < stop:
                raise ctx.invalid(f"{stop} elements of dimension {axis} are needed, but the images are {declared}")
    return ctx.emit(slicing.Slice8(), x, *(ctx.constant(part) for part in ([top, left], end, [1, 1], [2, 3])))


@onnx_op("DynamicSlice", versions=(1,))
def dynamic_slice(ctx: Context, data: Output, starts: Output, ends: Output, axes: Output | None = None) -> Output:
    """``data[start:end]`` with everything from inputs."""
    return slice_10(ctx, data, starts, ends, axes)


@onnx_op("ConstantFill", versions=(1,))
def constant_fill(
    ctx: Context,
    like: Output | None = None,
    *,
    value: float = 0.0,
    dtype: int = 1,
    shape: Sequence[int] | None = None,
    input_as_shape: int = 0,
    extra_shape: Sequence[int] | None = None,
) -> Output:
    """``value`` in the shape that an attribute gives, or the input: its own shape, or its values as one."""
    element_type = element_type_of(dtype)
    if like is None:
        if extra_shape:
            raise ctx.invalid("extra_shape goes behind the input's shape, but there is no input")
        target = ctx.constant(np.asarray(shape or (), np.int64))
    else:
        if shape is not None:
            raise ctx.invalid("the shape comes from the input, but the attribute 'shape' is given, too")
        target = as_i64(ctx, like) if input_as_shape else shape_of(ctx, like)
        if extra_shape:
            target = ctx.emit(movement.Concat1(axis=0), target, ctx.constant(list(extra_shape)))
    return ctx.emit(movement.Broadcast3(mode="numpy"), ctx.constant(value, element_type), target)
