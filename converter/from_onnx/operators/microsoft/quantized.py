"""onnxruntime's quantised operators: what they do to real numbers, between taking scales away and putting them on.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from converter.from_onnx.lowering.shapes import as_scalar, channels_first
from converter.from_onnx.operators.microsoft.attention import self_attention, thirds
from converter.from_onnx.operators.microsoft.fused import embed_layer_normalization
from converter.from_onnx.operators.onnx.activation import leaky_relu
from converter.from_onnx.operators.onnx.pooling import average_pool
from converter.from_onnx.operators.onnx.quantization import (
    column,
    dequantize,
    dynamic_quantize,
    less_zero,
    qlinear_conv,
    quantize,
    requantized,
)
from converter.from_onnx.operators.onnx.recurrent import LSTM, Inputs, Options, run
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Operation, Output, element_types, normalize_axis
from ir_runtime.operations import activation as ir
from ir_runtime.operations import elementwise, matmul, movement, reduction
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import shape_of


def _put_on(ctx: Context, value: Output, scale: Output, zero: Output | None, like: Output) -> Output:
    """``value`` quantised; without a zero point as 8 bits of the sign that ``like`` has."""
    return quantize(ctx, value, scale, ctx.like(0, like) if zero is None else zero)


# --- element by element ---


def _binary(op_type: str, op: Operation, *, in_steps: bool = False) -> None:
    def translate(
        ctx: Context,
        a: Output,
        a_scale: Output,
        a_zero_point: Output | None = None,
        b: Output | None = None,
        b_scale: Output | None = None,
        b_zero_point: Output | None = None,
        c_scale: Output | None = None,
        c_zero_point: Output | None = None,
    ) -> Output:
        b, b_scale = ctx.required(b, "B"), ctx.required(b_scale, "B_scale")
        c_scale = ctx.required(c_scale, "C_scale")
        if in_steps:
            a_scale, b_scale = (ctx.emit(elementwise.Divide1(), scale, c_scale) for scale in (a_scale, b_scale))
            c_scale = ctx.like(1, c_scale)
        left = dequantize(ctx, a, a_scale, a_zero_point)
        right = dequantize(ctx, b, b_scale, b_zero_point)
        return _put_on(ctx, ctx.emit(op, left, right), c_scale, c_zero_point, a)

    onnx_op(op_type, domain=MICROSOFT, versions=(1,))(translate)


# Sums are made in steps of the result, as onnxruntime does: scales of 1 / 127.5 and 1 / 255 put all of them in the
# middle between two steps, and the rounding of real numbers would move each to one side or the other.
_binary("QLinearAdd", elementwise.Add1(), in_steps=True)
_binary("QLinearMul", elementwise.Multiply1())


def _on_real_numbers(op_type: str, name: str = "x", result_name: str = "y") -> Callable[[Callable[..., Output]], None]:
    """Decorator: register a function of real numbers for an operator of quantized ones.

    A scale and a zero point of the input follow it, then those of the result; attributes are those of the function.
    """

    def register(function: Callable[..., Output]) -> None:
        def translate(
            ctx: Context,
            x: Output,
            x_scale: Output,
            x_zero_point: Output | None = None,
            y_scale: Output | None = None,
            y_zero_point: Output | None = None,
            **attributes: Any,
        ) -> Output:
            result = function(ctx, dequantize(ctx, x, x_scale, x_zero_point), **attributes)
            return _put_on(ctx, result, ctx.required(y_scale, f"{result_name}_scale"), y_zero_point, x)

        names = {"x": name, "y": result_name}
        parameters = [
            parameter.replace(name=re.sub("^[xy]", lambda match: names[match[0]], parameter.name))
            for parameter in inspect.signature(translate).parameters.values()
        ]
        translate.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        translate.__doc__ = function.__doc__
        onnx_op(op_type, domain=MICROSOFT, versions=(1,))(attributes_of(function)(translate))

    return register


@_on_real_numbers("QLinearSigmoid")
def _sigmoid(ctx: Context, x: Output) -> Output:
    """1 / (1 + e^-x)."""
    return ctx.emit(ir.Sigmoid1(), x)


@_on_real_numbers("QLinearLeakyRelu")
def _leaky_relu(ctx: Context, x: Output, *, alpha: float = 0.009999999776482582) -> Output:
    """alpha x where x is negative."""
    return leaky_relu(ctx, x, alpha=alpha)


@_on_real_numbers("QLinearSoftmax")
def _softmax(ctx: Context, x: Output, *, axis: int = -1, opset: int) -> Output:
    """Softmax along ``axis``; before opset 13 over all dimensions from there on."""
    at = normalize_axis(axis, ctx.rank(x, "the input"))
    if opset >= 13:
        return ctx.emit(ir.SoftMax8(axis=at), x)
    shape = shape_of(ctx, x)
    flat = ctx.emit(movement.Reshape1(special_zero=True), x, ctx.constant([0] * at + [-1]))
    return ctx.emit(movement.Reshape1(), ctx.emit(ir.SoftMax8(axis=at), flat), shape)


@onnx_op("QLinearConcat", domain=MICROSOFT, versions=(1,))
def qlinear_concat(ctx: Context, y_scale: Output, y_zero_point: Output, *inputs: Output, axis: int) -> Output:
    """Data, each with a scale and a zero point, one after another."""
    if len(inputs) % 3 or not inputs:
        raise ctx.invalid(f"each input needs a scale and a zero point, but there are {len(inputs)} tensors")
    parts = [dequantize(ctx, *inputs[start : start + 3]) for start in range(0, len(inputs), 3)]
    at = normalize_axis(axis, ctx.rank(inputs[0], "the first input"))
    return quantize(ctx, ctx.emit(movement.Concat1(axis=at), *parts), y_scale, y_zero_point)


@onnx_op("QLinearWhere", domain=MICROSOFT, versions=(1,))
def qlinear_where(
    ctx: Context,
    condition: Output,
    x: Output,
    x_scale: Output,
    x_zero_point: Output,
    y: Output,
    y_scale: Output,
    y_zero_point: Output,
    z_scale: Output,
    z_zero_point: Output,
) -> Output:
    """x where the condition holds, y elsewhere."""
    left, right = dequantize(ctx, x, x_scale, x_zero_point), dequantize(ctx, y, y_scale, y_zero_point)
    return quantize(ctx, layers.select(ctx, condition, left, right), z_scale, z_zero_point)


# --- pooling ---


@_on_real_numbers("QLinearAveragePool")
@attributes_of(average_pool, without=("dilations",))
def _average_pool(ctx: Context, x: Output, *, channels_last: int = 0, **attributes: Any) -> Output:
    """The means of windows."""
    pool = partial(average_pool, ctx, **attributes)
    return channels_first(ctx, x, pool) if channels_last else pool(x)


@onnx_op("QLinearGlobalAveragePool", domain=MICROSOFT, versions=(1,))
def qlinear_global_average_pool(
    ctx: Context,
    x: Output,
    x_scale: Output,
    x_zero_point: Output,
    y_scale: Output,
    y_zero_point: Output,
    *,
    channels_last: int = 0,
) -> Output:
    """The mean of each channel."""
    rank = ctx.rank(x, "the data")
    first = 1 if channels_last else 2
    axes = ctx.constant(list(range(first, first + rank - 2)))
    wide = dequantize(ctx, x, x_scale, x_zero_point)
    return quantize(ctx, ctx.emit(reduction.ReduceMean1(keep_dims=True), wide, axes), y_scale, y_zero_point)


@_on_real_numbers("QLinearReduceMean", "data", "reduced")
def _reduce_mean(ctx: Context, data: Output, *, axes: Sequence[int], keepdims: int) -> Output:
    """The mean over ``axes``."""
    over = [normalize_axis(axis, ctx.rank(data, "the data")) for axis in axes]
    return ctx.emit(reduction.ReduceMean1(keep_dims=bool(keepdims)), data, ctx.constant(over))


# --- products ---


def _rescaled_product(
    ctx: Context, left: Output, right: Output, a_scale: Output, b_scale: Output, bias: Output | None
) -> Output:
    """The product of whole numbers times both scales. Scales of columns follow the last dimension."""
    total = in_type(ctx, ctx.emit(matmul.MatMul1(), left, right), a_scale.element_type)
    factor = layers.multiply(ctx, a_scale, b_scale)
    if factor.shape.has_rank and factor.shape.rank == 1 and factor.shape[0].high == 1:
        factor = as_scalar(ctx, factor, "the scale")
    return layers.add(ctx, layers.multiply(ctx, total, factor), bias)


@onnx_op("DynamicQuantizeMatMul", domain=MICROSOFT, versions=(1,))
def dynamic_quantize_mat_mul(
    ctx: Context,
    a: Output,
    b: Output,
    b_scale: Output,
    b_zero_point: Output | None = None,
    bias: Output | None = None,
) -> Output:
    """Real A, rounded to 8 bits of its own range, times quantised B."""
    rounded, a_scale, a_zero = dynamic_quantize(ctx, a)
    left = less_zero(ctx, rounded, a_zero)
    return _rescaled_product(ctx, left, less_zero(ctx, b, b_zero_point), a_scale, b_scale, bias)


@onnx_op("MatMulIntegerToFloat", domain=MICROSOFT, versions=(1,))
def mat_mul_integer_to_float(
    ctx: Context,
    a: Output,
    b: Output,
    a_scale: Output,
    b_scale: Output,
    a_zero_point: Output | None = None,
    b_zero_point: Output | None = None,
    bias: Output | None = None,
) -> Output:
    """The real product of quantised matrices."""
    left, right = less_zero(ctx, a, a_zero_point), less_zero(ctx, b, b_zero_point)
    return _rescaled_product(ctx, left, right, a_scale, b_scale, bias)


@onnx_op("QGemm", domain=MICROSOFT, versions=(1,))
def qgemm(
    ctx: Context,
    a: Output,
    a_scale: Output,
    a_zero_point: Output,
    b: Output,
    b_scale: Output,
    b_zero_point: Output,
    c: Output | None = None,
    y_scale: Output | None = None,
    y_zero_point: Output | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Output:
    """``alpha * A * B + C`` of quantised matrices; C has both scales and alpha. Real without a scale for Y.

    The scales and zero points of B are one number, or one for each column of the product.
    """
    if (y_scale is None) != (y_zero_point is None):
        raise ctx.invalid("y_scale and y_zero_point must be given together")
    left = less_zero(ctx, a, a_zero_point)
    right = less_zero(ctx, b, column(ctx, b_zero_point) if transB else b_zero_point)
    total = ctx.emit(matmul.MatMul1(transpose_a=bool(transA), transpose_b=bool(transB)), left, right)
    if c is not None:
        # As integers: C may have more digits than float32 holds.
        whole = layers.add(ctx, in_type(ctx, total, c.element_type), c)
        total = in_type(ctx, whole, total.element_type)
    factor = a_scale if alpha == 1 else layers.multiply(ctx, a_scale, ctx.like(alpha, a_scale))
    if y_scale is not None and y_zero_point is not None:
        return requantized(ctx, total, factor, b_scale, y_scale, y_zero_point)
    return layers.multiply(ctx, total, layers.multiply(ctx, factor, b_scale))


@onnx_op("QLinearConv", domain=MICROSOFT, versions=(1,))
@attributes_of(qlinear_conv)
def qlinear_conv_of_layout(
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
    *,
    channels_last: int = 0,
    **attributes: Any,
) -> Output:
    """ONNX's operator, whose data may have their channels last; the weights have them first either way."""

    def convolve(data: Output) -> Output:
        weights = w, w_scale, w_zero_point
        return qlinear_conv(ctx, data, x_scale, x_zero_point, *weights, y_scale, y_zero_point, b, **attributes)

    return channels_first(ctx, x, convolve) if channels_last else convolve(x)


@onnx_op("QAttention", domain=MICROSOFT, versions=(1,))
@attributes_of(self_attention)
def qattention(
    ctx: Context,
    x: Output,
    weight: Output,
    bias: Output,
    input_scale: Output,
    weight_scale: Output,
    mask_index: Output | None = None,
    input_zero_point: Output | None = None,
    weight_zero_point: Output | None = None,
    past: Output | None = None,
    **attributes: Any,
) -> tuple[Output, Output]:
    """Attention whose input and projection are quantised; the rest is real."""
    left, right = less_zero(ctx, x, input_zero_point), less_zero(ctx, weight, weight_zero_point)
    whole = _rescaled_product(ctx, left, right, input_scale, weight_scale, bias)
    return self_attention(ctx, thirds(ctx, whole), mask_index, past, **attributes)


@onnx_op("DynamicQuantizeLSTM", domain=MICROSOFT, versions=(1,))
@attributes_of(Options, without=("layout", "linear_before_reset", "output_sequence", "quantizes_data"))
def dynamic_quantize_lstm(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    initial_c: Output | None = None,
    p: Output | None = None,
    w_scale: Output | None = None,
    w_zero_point: Output | None = None,
    r_scale: Output | None = None,
    r_zero_point: Output | None = None,
    **attributes: Any,
) -> tuple[Output, ...]:
    """An LSTM with quantized weights ``[d, i, 4 h]``, which are the transposed ones of ONNX's LSTM.

    The data of all steps are rounded to 8 bits once, by their range; the hidden states are rounded before each step, by
    the range that they have there. onnxruntime with several threads takes the range of a part of a batch.
    """

    def weights(value: Output, scale: Output, zero: Output) -> Output:
        parts = []
        for part in (scale, zero):
            # One a direction, or one for each of its columns.
            column = ctx.constant([0, 1, -1] if ctx.rank(part, "a scale") == 2 else [-1, 1, 1])
            parts.append(ctx.emit(movement.Reshape1(special_zero=True), part, column))
        real = layers.multiply(ctx, less_zero(ctx, value, parts[1]), parts[0])
        return layers.transpose(ctx, real, ctx.constant([0, 2, 1]))

    w = weights(w, ctx.required(w_scale, "W_scale"), ctx.required(w_zero_point, "W_zero_point"))
    r = weights(r, ctx.required(r_scale, "R_scale"), ctx.required(r_zero_point, "R_zero_point"))
    options = Options(quantizes_data=True, **attributes)
    return run(ctx, LSTM, Inputs(x, w, r, b, sequence_lens, [initial_h, initial_c], p), options)


# --- the two directions by themselves ---


@onnx_op("QuantizeLinear", domain=MICROSOFT, versions=(1,))
def quantize_linear(
    ctx: Context, x: Output, y_scale: Output, y_zero_point: Output | None = None, *, axis: int | None = None
) -> Output:
    """ONNX's operator before ONNX had it for 16 and 4 bits."""
    return quantize(ctx, x, y_scale, y_zero_point, axis=1 if axis is None else axis)


@onnx_op("DequantizeLinear", domain=MICROSOFT, versions=(1,))
def dequantize_linear(
    ctx: Context, x: Output, x_scale: Output, x_zero_point: Output | None = None, *, axis: int | None = None
) -> Output:
    """ONNX's operator before ONNX had it for 16 and 4 bits."""
    return dequantize(ctx, x, x_scale, x_zero_point, axis=1 if axis is None else axis)


@onnx_op("MatMulInteger16", domain=MICROSOFT, versions=(1,))
def mat_mul_integer_16(ctx: Context, a: Output, b: Output) -> Output:
    """The product of matrices of 16-bit integers in 32 bits, without a sign where neither has one."""
    unsigned = a.element_type is b.element_type is element_types.u16
    wide = (in_type(ctx, operand, element_types.i32) for operand in (a, b))
    y = ctx.emit(matmul.MatMul1(), *wide)
    return in_type(ctx, y, element_types.u32 if unsigned else element_types.i32)


@onnx_op("QEmbedLayerNormalization", domain=MICROSOFT, versions=(1,))
def quantized_embed_layer_normalization(
    ctx: Context,
    input_ids: Output,
    segment_ids: Output | None = None,
    word_embedding_quant: Output | None = None,
    position_embedding_quant: Output | None = None,
    segment_embedding: Output | None = None,
    gamma_quant: Output | None = None,
    beta_quant: Output | None = None,
    mask: Output | None = None,
    word_embedding_scale: Output | None = None,
    position_embedding_scale: Output | None = None,
    segment_embedding_scale: Output | None = None,
    gamma_scale: Output | None = None,
    beta_scale: Output | None = None,
    word_embedding_zero_point: Output | None = None,
    position_embedding_zero_point: Output | None = None,
    segment_embedding_zero_point: Output | None = None,
    gamma_zero_point: Output | None = None,
    beta_zero_point: Output | None = None,
    *,
    epsilon: float = 9.999999960041972e-13,
) -> list[Output]:
    """EmbedLayerNormalization, whose tables and factors are quantized."""

    def table(name: str, x: Output | None, scale: Output | None, zero_point: Output | None) -> Output:
        return dequantize(ctx, ctx.required(x, name), ctx.required(scale, f"{name} scale"), zero_point)

    segments = None
    if segment_embedding is not None:
        segments = table("segment_embedding", segment_embedding, segment_embedding_scale, segment_embedding_zero_point)
    results = embed_layer_normalization(
        ctx,
        input_ids,
        segment_ids,
        table("word_embedding_quant", word_embedding_quant, word_embedding_scale, word_embedding_zero_point),
        table(
            "position_embedding_quant",
            position_embedding_quant,
            position_embedding_scale,
            position_embedding_zero_point,
        ),
        segments,
        table("gamma_quant", gamma_quant, gamma_scale, gamma_zero_point),
        table("beta_quant", beta_quant, beta_scale, beta_zero_point),
        mask,
        epsilon=epsilon,
    )
    return list(results[:2])
