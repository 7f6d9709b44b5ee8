"""Operators that onnxruntime's tools write when they optimise and quantise, with near relatives in ONNX.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Any

from converter.from_onnx.lowering.axis_order import channels_first
from converter.from_onnx.operators.microsoft.fused import fused_mat_mul
from converter.from_onnx.operators.onnx.normalization import layer_normalization
from converter.from_onnx.operators.onnx.pooling import max_pool
from converter.from_onnx.operators.onnx.quantization import less_zero, qlinear_conv, requantized
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output
from ir_runtime.operations import matmul
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

# onnxruntime's optimiser puts this one into ONNX's domain in files of any opset, as it was before version 17.
onnx_op("LayerNormalization", versions=(1,))(layer_normalization)


# --- products ---


# What FusedMatMul was called before.
onnx_op("TransposeMatMul", domain=MICROSOFT, versions=(1,), without=("transBatchA", "transBatchB"))(fused_mat_mul)


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
    rows = _rows(ctx, b_zero_point) if transB else b_zero_point
    left, right = less_zero(ctx, a, a_zero_point), less_zero(ctx, b, rows)
    total = ctx.emit(matmul.MatMul1(transpose_a=bool(transA), transpose_b=bool(transB)), left, right)
    if c is not None:
        # As integers: C may have more digits than float32 holds.
        whole = layers.add(ctx, in_type(ctx, total, c.element_type), c)
        total = in_type(ctx, whole, total.element_type)
    factor = a_scale if alpha == 1 else layers.multiply(ctx, a_scale, ctx.like(alpha, a_scale))
    if y_scale is not None and y_zero_point is not None:
        return requantized(ctx, total, factor, b_scale, y_scale, y_zero_point)
    return layers.multiply(ctx, total, layers.multiply(ctx, factor, b_scale))


def _rows(ctx: Context, value: Output) -> Output:
    """Return one value per row as a column; a single value fits both ways."""
    if value.shape.has_rank and value.shape.rank == 1:
        return layers.unsqueeze(ctx, value, 1)
    return value


# --- images with their channels last ---


@onnx_op("NhwcMaxPool", domain=MICROSOFT, versions=(1,))
@attributes_of(max_pool, without=("storage_order",))
def nhwc_max_pool(ctx: Context, x: Output, **attributes: Any) -> Output:
    """The greatest number of each window of ``[n, ..., c]``."""

    def pool(data: Output) -> Output:
        result = max_pool(ctx, data, **attributes)
        return result if isinstance(result, Output) else result[0]

    return channels_first(ctx, x, pool)


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
