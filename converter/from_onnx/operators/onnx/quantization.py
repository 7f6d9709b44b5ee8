"""ONNX's quantisation: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and products of such tensors.

They become plain layers (Divide, Round, Add, Clamp, Convert), which give ONNX's numbers to
the last step. Quantised weights stay quantised: a constant of their type, a Convert, a Subtract where
there is a zero point, and a Multiply, which is what engines recognise as compressed weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.operators.onnx.convolution import conv
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import ElementType, Output, element_types, normalize_axis
from ir_runtime.operations import activation, elementwise, matmul, movement, reduction
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.shape_layers import arange, dim_of

_F32, _I32 = element_types.f32, element_types.i32

_GREATEST = {element_types.f8e4m3: 448.0, element_types.f8e5m2: 57344.0, element_types.f4e2m1: 6.0}
"""The greatest finite number of each small float type."""


# --- scales and zero points in the shape of the data ---


def _fit(ctx: Context, value: Output, x: Output, axis: int, block_size: int) -> Output:
    """A scale or zero point in a shape that broadcasts with ``x``.

    It is one number, one for each index along ``axis``, or one for each ``block_size`` indices.
    """
    rank = ctx.rank(value, "a scale or zero point")
    if block_size:
        return _repeat(ctx, value, x, axis, block_size)
    if rank == 0:
        return value
    if rank > 1:
        raise ctx.invalid(f"a scale or zero point must be a number or a list, but has the shape {value.shape}")
    if value.shape[0].high == 1:
        return as_scalar(ctx, value, "a scale or zero point")
    data_rank = ctx.rank(x, "the data")
    at = normalize_axis(axis, data_rank)
    declared, count = ctx.declared(x).shape, ctx.declared(value).shape[0]
    if declared[at].merge(count) is None:
        raise ctx.invalid(f"{count} scales or zero points were given for dimension {at} of {declared}")
    return value if at == data_rank - 1 else _along(ctx, value, at, data_rank)


def _along(ctx: Context, value: Output, axis: int, rank: int) -> Output:
    """A list as a tensor of ``rank`` dimensions, along ``axis``; a single number as a scalar."""
    is_number = not value.shape.has_rank or value.shape.rank == 0 or value.shape[0].high == 1
    target = [] if is_number else [-1 if place == axis else 1 for place in range(rank)]
    return ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant(target))


def _repeat(ctx: Context, value: Output, x: Output, axis: int, block_size: int) -> Output:
    if block_size < 0:
        raise ctx.invalid(f"block_size must not be negative, but is {block_size}")
    rank = ctx.rank(x, "the data")
    at = normalize_axis(axis, rank)
    if value.shape.rank != rank:
        raise ctx.invalid(f"scales of blocks must have the {rank} dimensions of the data, but are {value.shape}")
    dimension, blocks_present = ctx.declared(x).shape[at], ctx.declared(value).shape[at]
    if dimension.is_static:
        blocks = -(-dimension.value // block_size)
        if not blocks_present.contains(blocks):
            raise ctx.invalid(f"{dimension.value} elements have {blocks} blocks of {block_size}, not {blocks_present}")
    if x.shape[at].is_static:
        blocks_of_elements = ctx.constant(np.arange(dimension.value) // block_size)
        return layers.gather(ctx, value, blocks_of_elements, ctx.constant(at))
    # The block of each index along the axis.
    index = layers.truncated_quotient(ctx, arange(ctx, dim_of(ctx, x, at)), ctx.constant(block_size))
    return layers.gather(ctx, value, index, ctx.constant(at))


# --- the two directions ---


def quantized(
    ctx: Context, ratio: Output, zero: Output | None, element_type: ElementType, saturate: bool = True
) -> Output:
    """Round ``ratio`` (the scaled data, in float32), add the zero point, and limit the sum to ``element_type``."""
    if element_type.is_real:
        if saturate and element_type in _GREATEST:
            ratio = ctx.emit(activation.Clamp1(min=-_GREATEST[element_type], max=_GREATEST[element_type]), ratio)
        return layers.in_type(ctx, ratio, element_type)
    whole = ctx.emit(elementwise.Round5(mode="half_to_even"), ratio)
    if zero is not None:
        whole = layers.add(ctx, whole, layers.in_type(ctx, zero, _F32))
    low, high = (float(end) for end in element_type.limits)
    return layers.in_type(ctx, ctx.emit(activation.Clamp1(min=low, max=high), whole), element_type)


def _unless_zero(zero: Output | None) -> Output | None:
    """The zero point; None where it is known to be 0, and there is nothing to add or subtract."""
    constant = None if zero is None else zero.type.constant
    return None if constant is not None and not constant.astype(np.float32).any() else zero


def less_zero(ctx: Context, value: Output, zero: Output | None, work: ElementType = _F32) -> Output:
    """``value - zero`` in another type; ``value`` stays stored in its own."""
    wide, zero = layers.in_type(ctx, value, work), _unless_zero(zero)
    return wide if zero is None else layers.subtract(ctx, wide, layers.in_type(ctx, zero, work))


def _is_in_whole_blocks(x: Output, scale: Output, axis: int, block_size: int) -> bool:
    if not x.shape.is_static or not scale.shape.is_static or scale.shape.rank != x.shape.rank:
        return False
    at = normalize_axis(axis, x.shape.rank)
    dimensions = list(x.shape.static())
    whole = dimensions[at] % block_size == 0
    dimensions[at] //= block_size
    return whole and tuple(dimensions) == scale.shape.static()


def _is_one_block(x: Output, scale: Output, axis: int, block_size: int) -> bool:
    """True for a matrix with a single block along the axis."""
    if not _is_in_whole_blocks(x, scale, axis, block_size):
        return False
    return x.shape.rank == 2 and scale.shape.static()[normalize_axis(axis, 2)] == 1


def _dequantized_blocks(
    ctx: Context,
    x: Output,
    scale: Output,
    zero: Output | None,
    at: int,
    block_size: int,
    work: ElementType,
    element_type: ElementType,
) -> Output:
    """Dequantise with the blocks as a further dimension, so that scales and zero points need not be repeated."""
    dimensions = list(x.shape.static())
    in_blocks = [*dimensions[:at], dimensions[at] // block_size, block_size, *dimensions[at + 1 :]]

    def reshaped(value: Output, shape: list[int]) -> Output:
        # As ONNX's Reshape is translated, so that an IR stays as it is on the way to ONNX and back.
        return ctx.emit(movement.Reshape1(special_zero=0 not in shape), value, ctx.constant(shape))

    single = [*in_blocks[: at + 1], 1, *in_blocks[at + 2 :]]
    factor = layers.in_type(ctx, reshaped(scale, single), work)
    zero = _unless_zero(zero)
    if zero is not None:
        zero = reshaped(zero, single)
    y = layers.multiply(ctx, less_zero(ctx, reshaped(x, in_blocks), zero, work), factor)
    return layers.in_type(ctx, reshaped(y, dimensions), element_type)


# --- QuantizeLinear ---


@onnx_op("QuantizeLinear", versions=(10,), without=("axis", "block_size", "output_dtype", "precision", "saturate"))
@onnx_op("QuantizeLinear", versions=(13,), without=("block_size", "output_dtype", "precision", "saturate"))
@onnx_op("QuantizeLinear", versions=(19,), without=("block_size", "output_dtype", "precision"))
@onnx_op("QuantizeLinear", versions=(21,), without=("precision",))
@onnx_op("QuantizeLinear", versions=(23, 24, 25, 28))
def quantize(
    ctx: Context,
    x: Output,
    y_scale: Output,
    y_zero_point: Output | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Output:
    """``saturate(round(x / y_scale) + y_zero_point)`` with one scale, or one for each index along ``axis`` or block.

    ``saturate`` limits float8 results to the greatest finite number. ``precision`` is the type in which to divide,
    which can only be float32 here.
    """
    if precision and element_type_of(precision) is not _F32:
        raise ctx.unsupported(f"engines divide in f32, but precision asks for {element_type_of(precision)}")
    element_type = element_types.u8 if not output_dtype else element_type_of(output_dtype)
    if y_zero_point is not None:
        if output_dtype and y_zero_point.element_type is not element_type:
            raise ctx.invalid(f"output_dtype is {element_type}, but the zero point is {y_zero_point.element_type}")
        element_type = y_zero_point.element_type
    wide = layers.in_type(ctx, x, _F32)
    ratio = layers.divide(ctx, wide, layers.in_type(ctx, _fit(ctx, y_scale, x, axis, block_size), _F32))
    zero = _unless_zero(y_zero_point)
    if zero is not None:
        zero = _fit(ctx, zero, x, axis, block_size)
    return quantized(ctx, ratio, zero, element_type, bool(saturate))


# --- DequantizeLinear ---


@onnx_op("DequantizeLinear", versions=(10,), without=("axis", "block_size", "output_dtype"))
@onnx_op("DequantizeLinear", versions=(13, 19), without=("block_size", "output_dtype"))
@onnx_op("DequantizeLinear", versions=(21,), without=("output_dtype",))
@onnx_op("DequantizeLinear", versions=(23, 24, 25, 28))
def dequantize(
    ctx: Context,
    x: Output,
    x_scale: Output,
    x_zero_point: Output | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Output:
    """``(x - x_zero_point) * x_scale`` with one scale, or one for each index along ``axis`` or block."""
    element_type = element_type_of(output_dtype) if output_dtype else x_scale.element_type
    # Differences of 8 bits are exact in float16 and float32, others in float32 alone.
    narrow = element_type is element_types.f16 and x_scale.element_type is element_type and x.element_type.bits <= 8
    work = element_types.f16 if narrow and x.element_type.is_integral else _F32
    if block_size and _is_one_block(x, x_scale, axis, block_size):
        # Scales of a matrix along its other axis.
        x_scale = layers.reshape(ctx, x_scale, [-1])
        x_zero_point = None if x_zero_point is None else layers.reshape(ctx, x_zero_point, [-1])
        axis, block_size = 1 - normalize_axis(axis, 2), 0
    if block_size and _is_in_whole_blocks(x, x_scale, axis, block_size):
        return _dequantized_blocks(
            ctx, x, x_scale, x_zero_point, normalize_axis(axis, x.shape.rank), block_size, work, element_type
        )
    factor = layers.in_type(ctx, _fit(ctx, x_scale, x, axis, block_size), work)
    zero = _unless_zero(x_zero_point)
    if zero is not None:
        zero = _fit(ctx, zero, x, axis, block_size)
    return layers.in_type(ctx, layers.multiply(ctx, less_zero(ctx, x, zero, work), factor), element_type)


# --- DynamicQuantizeLinear ---


@onnx_op("DynamicQuantizeLinear", versions=(11,))
def dynamic_quantize(ctx: Context, x: Output) -> tuple[Output, Output, Output]:
    """``x`` as u8, with scale and zero point by its range, which includes 0."""
    if x.shape.has_rank and x.shape.rank:
        data, axes = x, ctx.constant(np.arange(x.shape.rank))
    else:
        data, axes = layers.reshape(ctx, x, [-1]), ctx.constant([0])
    nothing = ctx.like(0, x)
    highest = layers.maximum(ctx, ctx.emit(reduction.ReduceMax1(keep_dims=False), data, axes), nothing)
    lowest = layers.minimum(ctx, ctx.emit(reduction.ReduceMin1(keep_dims=False), data, axes), nothing)
    span = layers.subtract(ctx, highest, lowest)
    scale = layers.divide(ctx, span, ctx.like(255, x))
    # All values are 0 and any scale is right; this is onnxruntime's.
    scale = layers.select(ctx, layers.equal(ctx, span, nothing), ctx.like(1, x), scale)
    below = layers.divide(ctx, layers.subtract(ctx, nothing, lowest), scale)
    zero = quantized(ctx, below, None, element_types.u8)
    y = quantized(ctx, layers.divide(ctx, x, scale), zero, element_types.u8)
    return y, scale, zero


# --- products of quantised tensors ---


def requantized(
    ctx: Context, total: Output, a_scale: Output, b_scale: Output, y_scale: Output, y_zero: Output
) -> Output:
    """``total`` times both scales, divided by the output's scale, quantised."""
    factor = layers.multiply(ctx, layers.in_type(ctx, a_scale, _F32), layers.in_type(ctx, b_scale, _F32))
    factor = layers.divide(ctx, factor, layers.in_type(ctx, y_scale, _F32))
    ratio = layers.multiply(ctx, total, factor)
    return quantized(ctx, ratio, _unless_zero(y_zero), y_zero.element_type)


def column(ctx: Context, value: Output) -> Output:
    """A number for each row as a column; one number for all stays as it is."""
    if value.shape.has_rank and value.shape.rank == 1 and value.shape[0].high != 1:
        return layers.unsqueeze(ctx, value, 1)
    return value


@onnx_op("QLinearMatMul", versions=(10, 21))
def qlinear_mat_mul(
    ctx: Context,
    a: Output,
    a_scale: Output,
    a_zero_point: Output,
    b: Output,
    b_scale: Output,
    b_zero_point: Output,
    y_scale: Output,
    y_zero_point: Output,
) -> Output:
    """The quantised product of quantised matrices; scales are one number, or one a row or column."""
    left = less_zero(ctx, a, column(ctx, a_zero_point))
    right = less_zero(ctx, b, b_zero_point)
    total = ctx.emit(matmul.MatMul1(), left, right)
    return requantized(ctx, total, column(ctx, a_scale), b_scale, y_scale, y_zero_point)


@onnx_op("QLinearConv", versions=(10,))
@attributes_of(conv)
def qlinear_conv(
    ctx: Context,
    x: Output,
    x_scale: Output,
    x_zero_point: Output,
    w: Output,
    w_scale: Output,
    w_zero_point: Output,
    y_scale: Output,
    y_zero_point: Output,
    b: Output | None = None,
    **attributes: Any,
) -> Output:
    """The quantised convolution of quantised data and weights, whose scales may be one a filter."""
    along = partial(_along, ctx, rank=ctx.rank(w, "the weights"))
    data = less_zero(ctx, x, along(x_zero_point, axis=1))
    weights = less_zero(ctx, w, along(w_zero_point, axis=0))
    total = conv(ctx, data, weights, **attributes)
    if b is not None:
        # The sum is one of integers: a bias may have more digits than float32.
        whole = layers.in_type(ctx, total, element_types.i32)
        total = layers.in_type(ctx, layers.add(ctx, whole, along(b, axis=1)), _F32)
    return requantized(ctx, total, *(along(value, axis=1) for value in (x_scale, w_scale, y_scale, y_zero_point)))


# --- products of 8-bit integers ---


@onnx_op("MatMulInteger", versions=(10,))
def mat_mul_integer(
    ctx: Context,
    a: Output,
    b: Output,
    a_zero_point: Output | None = None,
    b_zero_point: Output | None = None,
) -> Output:
    """The i32 product of 8-bit matrices less their zero points (one number, or one a row or column)."""
    if a_zero_point is not None and a_zero_point.shape.has_rank and a_zero_point.shape.rank == 1:
        a_zero_point = layers.unsqueeze(ctx, a_zero_point, 1)
    left, right = less_zero(ctx, a, a_zero_point, _I32), less_zero(ctx, b, b_zero_point, _I32)
    return ctx.emit(matmul.MatMul1(), left, right)


@onnx_op("ConvInteger", versions=(10,))
@attributes_of(conv)
def conv_integer(
    ctx: Context,
    x: Output,
    w: Output,
    x_zero_point: Output | None = None,
    w_zero_point: Output | None = None,
    **attributes: Any,
) -> Output:
    """The i32 convolution of 8-bit data and weights less their zero points; padding adds nothing."""
    if w_zero_point is not None and w_zero_point.shape.has_rank and w_zero_point.shape.rank == 1:
        per_filter = ctx.constant([-1] + [1] * (ctx.rank(w, "the weights") - 1))
        w_zero_point = ctx.emit(movement.Reshape1(special_zero=False), w_zero_point, per_filter)
    data, weights = less_zero(ctx, x, x_zero_point, _I32), less_zero(ctx, w, w_zero_point, _I32)
    return conv(ctx, data, weights, **attributes)
