"""onnxruntime's operators that other providers than its CPU's run, as its descriptions define them.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from converter.from_onnx.operators.microsoft.fused import activated, fast_gelu, fused_mat_mul
from converter.from_onnx.operators.onnx.activation import gelu
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output, normalize_axis
from ir_runtime.operations import activation as ir
from ir_runtime.operations import elementwise, matmul, signal
from ir_runtime.rewriting.expressions import Expression, concat

_onnx_op = functools.partial(onnx_op, domain=MICROSOFT, has_kernel=False)

# --- gates and activations ---


@_onnx_op("SwiGLU", versions=(1,))
def swiglu(
    ctx: Context,
    gate: Expression,
    up: Expression | None = None,
    *,
    activation_alpha: float = 1.0,
    activation_beta: float = 0.0,
    limit: float = 0.0,
    round_activation: int = 0,
) -> Expression:
    """g sigmoid(alpha g) (u + beta), where both may be limited; without ``up`` the halves of ``gate`` are both."""
    gate, up = gate.split(2, gate.rank - 1) if up is None else (gate, up)
    wide, linear = gate.as_type("f32"), up.as_type("f32")
    if limit > 0:
        wide, linear = wide.minimum(limit), linear.clip(-limit, limit)
    opened = wide * (wide * activation_alpha).sigmoid()
    if round_activation:
        opened = opened.as_type(gate.element_type).as_type("f32")
    return (opened * (linear + activation_beta)).as_type(gate.element_type)


@_onnx_op("RouterGateUpProj", versions=(1,))
@attributes_of(swiglu, without=("round_activation",))
def router_and_gates(
    ctx: Context, x: Expression, w: Expression, *, activation: str = "swiglu", router_size: int, **attributes: Any
) -> list[Expression]:
    """The first ``router_size`` columns of a product, and the others as the halves of SwiGLU."""
    if activation != "swiglu":
        raise ctx.invalid(f"activation must be 'swiglu', but is {activation!r}")
    product = x.matmul(w)
    last = product.rank - 1
    return [product.cut(last, 0, router_size), swiglu(ctx, product.cut(last, router_size), **attributes)]


@_onnx_op("BiasSplitGelu", versions=(1,))
def bias_split_gelu(ctx: Context, x: Expression, bias: Expression) -> Expression:
    """The first half of x + bias times the Gelu of the second, along the last dimension."""
    left, right = (x + bias).split(2, x.rank - 1)
    return left * Expression(right.builder, gelu(ctx, right.value))


@_onnx_op("GemmFastGelu", versions=(1,))
def gemm_fast_gelu(ctx: Context, x: Output, w: Output, bias: Output | None = None) -> Output:
    """A product, a bias and the Gelu's approximation by tanh."""
    return fast_gelu(ctx, ctx.emit(matmul.MatMul1(), x, w), bias)


@_onnx_op("FusedMatMulActivation", versions=(1,))
@attributes_of(fused_mat_mul)
def fused_mat_mul_activation(
    ctx: Context,
    a: Output,
    b: Output,
    *,
    activation: str,
    activation_alpha: float | None = None,
    activation_axis: int | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **attributes: Any,
) -> Output:
    """A FusedMatMul and an activation of its result."""
    y = fused_mat_mul(ctx, a, b, **attributes)
    if activation == "Softmax":
        axis = -1 if activation_axis is None else activation_axis
        return ctx.emit(ir.SoftMax8(axis=normalize_axis(axis, ctx.rank(y, "the product"))), y)
    return activated(ctx, y, activation, (activation_alpha, activation_beta, activation_gamma))


@_onnx_op("BiasSoftmax", versions=(1,))
def bias_softmax(
    ctx: Context, data: Expression, bias: Expression, *, axis: int = 1, is_inner_broadcast: int
) -> Expression:
    """The softmax of data + bias over all dimensions from ``axis`` on.

    The bias lacks dimensions of the data, or has 1 there: those from the first one on that differs up to ``axis``
    (inner), or the first ones (outer).
    """
    rank = ctx.rank(data.value, "the data")
    at = normalize_axis(axis, rank)
    missing = rank - ctx.rank(bias.value, "the bias")
    if missing and is_inner_broadcast:
        bias = bias.unsqueeze(*range(at - missing, at))
    total = data + bias
    rows = total.reshape(*total.sizes()[:at], -1)
    return rows.emit(ir.SoftMax8(axis=at)).reshape(*data.sizes())


@_onnx_op("GemmaRotaryEmbedding", versions=(1,))
def gemma_rotary_embedding(
    ctx: Context, emb: Expression, q: Expression, q_rot: Expression, k: Expression, k_rot: Expression
) -> list[Expression]:
    """Queries and keys ``[b, n, s, d]`` rotated by the angles ``emb`` ``[b, s, d]``; ``q_rot`` has swapped halves."""
    cos, sin = (part.as_type(q.element_type).unsqueeze(1) for part in (emb.cos(), emb.sin()))
    return [q * cos + q_rot * sin, k * cos + k_rot * sin]


@_onnx_op("BiasDropout", versions=(1,))
def bias_dropout(
    ctx: Context,
    data: Expression,
    bias: Expression,
    residual: Expression | None = None,
    ratio: Expression | None = None,
    training_mode: Expression | None = None,
    *,
    seed: int | None = None,
) -> Expression:
    """Data + bias + residual: nothing is dropped where a model is not trained."""
    if ctx.wants(1):
        raise ctx.unsupported("the mask of what is dropped is for training, and not supported")
    if training_mode is not None and ctx.known(training_mode.value, "training_mode").any():
        raise ctx.unsupported("dropping elements is for training, and not supported")
    total = data + bias
    return total if residual is None else total + residual


# --- complex numbers: the last dimension has the real and the imaginary part ---


@_onnx_op("ComplexMul", versions=(1,))
def complex_multiply(ctx: Context, a: Expression, b: Expression) -> Expression:
    """The product of complex numbers."""
    return _complex_product(a, b, 1.0)


@_onnx_op("ComplexMulConj", versions=(1,))
def complex_multiply_conjugate(ctx: Context, a: Expression, b: Expression) -> Expression:
    """The product of complex numbers with the conjugates of others."""
    return _complex_product(a, b, -1.0)


def _complex_product(a: Expression, b: Expression, sign: float) -> Expression:
    (real, imaginary), (other, its) = a.split(2, a.rank - 1), b.split(2, b.rank - 1)
    its = its * sign
    return concat([real * other - imaginary * its, real * its + imaginary * other], max(a.rank, b.rank) - 1)


@_onnx_op("Rfft", versions=(1,))
def real_fourier_transform(
    ctx: Context, x: Expression, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1
) -> Expression:
    """The first half, and one more, of the transform of real numbers along the last dimensions, ``[..., 2]``."""
    _check_transform(ctx, normalized, onesided, signal_ndim, x.rank)
    return x.emit(signal.RDFT9(), x.of(range(x.rank - signal_ndim, x.rank), "i64"))


@_onnx_op("Irfft", versions=(1,))
def inverse_real_fourier_transform(
    ctx: Context, x: Expression, *, normalized: int = 0, onesided: int = 1, signal_ndim: int
) -> Expression:
    """The real numbers of an even length whose transform along the dimensions before the last one is x."""
    rank = x.rank - 1
    _check_transform(ctx, normalized, onesided, signal_ndim, rank)
    return x.emit(signal.IRDFT9(), x.of(range(rank - signal_ndim, rank), "i64"))


def _check_transform(ctx: Context, normalized: int, onesided: int, signal_ndim: int, rank: int) -> None:
    if normalized or not onesided:
        raise ctx.invalid(f"normalized must be 0 and onesided 1, but they are {normalized} and {onesided}")
    if not 1 <= signal_ndim <= rank:
        raise ctx.invalid(f"signal_ndim must be from 1 to {rank}, but is {signal_ndim}")


# --- the rest ---


@_onnx_op("TorchEmbedding", versions=(1,))
def torch_embedding(
    ctx: Context,
    weight: Expression,
    indices: Expression,
    padding_idx: Expression | None = None,
    scale_grad_by_freq: Expression | None = None,
) -> Expression:
    """Rows of a table; what the other inputs say is for training."""
    return weight.gather(indices)


@_onnx_op("MulInteger", versions=(1,))
def multiply_integers(
    ctx: Context,
    a: Expression,
    a_zero_point: Expression | None = None,
    b: Expression | None = None,
    b_zero_point: Expression | None = None,
) -> Expression:
    """The products of 8-bit numbers less their zero points, as i32."""
    if b is None:
        raise ctx.invalid("the input B is required, but missing")
    sides = []
    for value, zero in ((a, a_zero_point), (b, b_zero_point)):
        wide = value.as_type("i32")
        sides.append(wide if zero is None else wide - zero.as_type("i32"))
    return sides[0] * sides[1]


@_onnx_op("ReduceSumInteger", versions=(1,))
def sum_integers(ctx: Context, data: Expression, *, axes: Sequence[int], keepdims: int) -> Expression:
    """The sum of 8-bit numbers, as 32-bit ones."""
    wide = data.as_type("i32" if data.element_type.is_signed else "u32")
    places = axes or range(ctx.rank(data.value, "the data"))
    return wide.sum(*places, keep_dims=bool(keepdims))


@_onnx_op("IsAllFinite", versions=(1,))
def is_all_finite(ctx: Context, *input: Output, isinf_only: int = 0, isnan_only: int = 0) -> Output:
    """True if no element of any input is infinite or NaN, or if none is one of both."""
    if isinf_only and isnan_only:
        raise ctx.invalid("isinf_only and isnan_only exclude each other, but are both 1")
    refused = [] if isinf_only else [elementwise.IsNaN10()]
    refused += [] if isnan_only else [elementwise.IsInf10()]
    wide = [Expression(ctx, tensor).at_least_float32() for tensor in input]
    return concat([~value.emit(op).reshape(-1) for value in wide for op in refused], 0).all(0).value
