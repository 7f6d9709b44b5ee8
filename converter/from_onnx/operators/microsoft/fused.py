"""onnxruntime's fused operators: products, convolutions, Gelus, normalisations, blocks of packed weights.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.from_onnx.operators.onnx.activation import gelu, leaky_relu, swish
from converter.from_onnx.operators.onnx.convolution import conv
from converter.from_onnx.operators.onnx.matmul import gemm
from converter.from_onnx.operators.onnx.normalization import layer_normalization
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output, element_types, normalize_axis
from ir_runtime.operations import activation as ir
from ir_runtime.operations import elementwise, matmul, movement, reduction
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import arange, concat_lists, dim_of

# --- products ---


def _batches_first(ctx: Context, value: Output, apply: int, name: str) -> Output:
    """A matrix that has its rows in front of the batches, with them behind."""
    if not apply:
        return value
    rank = ctx.rank(value, name)
    if rank < 3:
        return value
    order = [*range(1, rank - 1), 0, rank - 1]
    return layers.transpose(ctx, value, ctx.constant(order))


# FusedMatMul was called TransposeMatMul before.
@onnx_op("TransposeMatMul", domain=MICROSOFT, versions=(1,), without=("transBatchA", "transBatchB"))
@onnx_op("FusedMatMul", domain=MICROSOFT, versions=(1,))
def fused_mat_mul(
    ctx: Context,
    a: Output,
    b: Output,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
    transBatchA: int = 0,  # noqa: N803
    transBatchB: int = 0,  # noqa: N803
) -> Output:
    """``alpha * A * B``, either one transposed; ``transBatch`` moves the first dimension behind the batches."""
    left = _batches_first(ctx, a, transBatchA, "A")
    right = _batches_first(ctx, b, transBatchB, "B")
    y = ctx.emit(matmul.MatMul1(transpose_a=bool(transA), transpose_b=bool(transB)), left, right)
    return y if alpha == 1 else layers.multiply(ctx, y, ctx.like(alpha, y))


def activated(ctx: Context, x: Output, name: str | None, parameters: Sequence[float | None]) -> Output:
    """The activation that a fused operator names; ``parameters`` are its attributes in ONNX's order."""
    values = [value for value in parameters if value is not None]
    if not name:
        return x
    if name == "Relu":
        return ctx.emit(ir.ReLU1(), x)
    if name == "Sigmoid":
        return ctx.emit(ir.Sigmoid1(), x)
    if name == "Tanh":
        return ctx.emit(elementwise.Tanh1(), x)
    if name == "LeakyRelu":
        return leaky_relu(ctx, x, alpha=values[0] if values else 0.01)
    if name == "Clip":
        if len(values) < 2:
            raise ctx.invalid(f"the activation Clip needs two parameters, but {len(values)} are given")
        return ctx.emit(ir.Clamp1(min=values[0], max=values[1]), x)
    if name == "HardSigmoid":
        alpha, beta = values[:2] if len(values) >= 2 else (0.2, 0.5)
        return ctx.emit(ir.HardSigmoid1(), x, ctx.like(alpha, x), ctx.like(beta, x))
    raise ctx.unsupported(f"the activation '{name}' is not known")


@onnx_op("FusedGemm", domain=MICROSOFT, versions=(1,))
@attributes_of(gemm)
def fused_gemm(
    ctx: Context,
    a: Output,
    b: Output,
    c: Output | None = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **attributes: Any,
) -> Output:
    """A Gemm and an activation of its result."""
    y = gemm(ctx, a, b, c, **attributes)
    return activated(ctx, y, activation, (activation_alpha, activation_beta, activation_gamma))


@onnx_op("FusedConv", domain=MICROSOFT, versions=(1,))
@attributes_of(conv)
def fused_conv(
    ctx: Context,
    x: Output,
    w: Output,
    b: Output | None = None,
    z: Output | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] | None = None,
    **attributes: Any,
) -> Output:
    """A convolution, ``z`` added to its result, and an activation of that."""
    y = conv(ctx, x, w, b, **attributes)
    return activated(ctx, layers.add(ctx, y, z), activation, activation_params or ())


# --- Gelu and its relatives ---


@onnx_op("Gelu", domain=MICROSOFT, versions=(1,))
def exact_gelu(ctx: Context, x: Output) -> Output:
    """x times the normal distribution's share below x."""
    return gelu(ctx, x)


@onnx_op("BiasGelu", domain=MICROSOFT, versions=(1,))
def bias_gelu(ctx: Context, a: Output, b: Output) -> Output:
    """The Gelu of a sum."""
    return gelu(ctx, layers.add(ctx, a, b))


@onnx_op("FastGelu", domain=MICROSOFT, versions=(1,))
def fast_gelu(ctx: Context, x: Output, bias: Output | None = None) -> Output:
    """The Gelu's approximation by tanh, of a sum where there is a bias."""
    return gelu(ctx, layers.add(ctx, x, bias), approximate="tanh")


@onnx_op("QuickGelu", domain=MICROSOFT, versions=(1,))
def quick_gelu(ctx: Context, x: Output, *, alpha: float = 1.7020000219345093) -> Output:
    """x sigmoid(alpha x)."""
    return swish(ctx, x, alpha=alpha)


# --- normalisations ---

# onnxruntime's optimiser puts this one into ONNX's domain in files of any opset, as it was before version 17.
onnx_op("LayerNormalization", versions=(1,))(layer_normalization)


def _by_root_mean_square(ctx: Context, x: Output, axis: int, epsilon: float) -> tuple[Output, Output]:
    """x divided by its root mean square, in float32 at least, and what it was multiplied by."""
    rank = ctx.rank(x, "the input")
    axes = ctx.constant(np.arange(normalize_axis(axis, rank), rank))
    wide = x if x.element_type.bits >= 32 else in_type(ctx, x, element_types.f32)
    squares = layers.multiply(ctx, wide, wide)
    mean = ctx.emit(reduction.ReduceMean1(keep_dims=True), squares, axes)
    root = layers.square_root(ctx, layers.add(ctx, mean, ctx.like(epsilon, mean)))
    inverse = layers.divide(ctx, ctx.like(1, root), root)
    return layers.multiply(ctx, wide, inverse), inverse


@onnx_op("SimplifiedLayerNormalization", versions=(1,))
def simplified_layer_normalization(
    ctx: Context,
    x: Output,
    scale: Output,
    *,
    axis: int = -1,
    epsilon: float = 9.999999747378752e-06,
    stash_type: int = 1,
) -> tuple[Output, Output]:
    """x divided by its root mean square from ``axis`` on, scaled; onnxruntime has it in ONNX's own domain."""
    normalized, inverse = _by_root_mean_square(ctx, x, axis, epsilon)
    scaled = layers.multiply(ctx, normalized, in_type(ctx, scale, normalized.element_type))
    return in_type(ctx, scaled, scale.element_type), inverse


def _sum(ctx: Context, x: Output, skip: Output, bias: Output | None) -> Output:
    return layers.add(ctx, layers.add(ctx, x, skip), bias)


@onnx_op("SkipLayerNormalization", domain=MICROSOFT, versions=(1,))
def skip_layer_normalization(
    ctx: Context,
    x: Output,
    skip: Output,
    gamma: Output,
    beta: Output | None = None,
    bias: Output | None = None,
    *,
    epsilon: float = 9.999999960041972e-13,
) -> tuple[Output | None, ...]:
    """The normalised sum of input, skip and bias, its mean and inverse deviation, and the sum itself."""
    total = _sum(ctx, x, skip, bias)
    results = layer_normalization(ctx, total, gamma, beta, epsilon=epsilon)
    return (*results, *[None] * (3 - len(results)), total)


@onnx_op("SkipSimplifiedLayerNormalization", domain=MICROSOFT, versions=(1,))
def skip_simplified_layer_normalization(
    ctx: Context,
    x: Output,
    skip: Output,
    gamma: Output,
    bias: Output | None = None,
    *,
    epsilon: float = 9.999999960041972e-13,
) -> tuple[Output | None, ...]:
    """The same by the root mean square; there is no mean."""
    if ctx.wants(1):
        raise ctx.unsupported("the mean is not computed where the root mean square is normalised")
    total = _sum(ctx, x, skip, bias)
    normalized, inverse = simplified_layer_normalization(ctx, total, gamma, epsilon=epsilon)
    return normalized, None, inverse, total


def _looked_up(ctx: Context, table: Output, indices: Output) -> Output:
    return layers.gather(ctx, table, indices, ctx.constant(0))


@onnx_op("EmbedLayerNormalization", domain=MICROSOFT, versions=(1,))
def embed_layer_normalization(
    ctx: Context,
    input_ids: Output,
    segment_ids: Output | None = None,
    word_embedding: Output | None = None,
    position_embedding: Output | None = None,
    segment_embedding: Output | None = None,
    gamma: Output | None = None,
    beta: Output | None = None,
    mask: Output | None = None,
    position_ids: Output | None = None,
    *,
    epsilon: float = 9.999999960041972e-13,
    mask_index_type: int | None = None,
) -> tuple[Output, ...]:
    """The normalised sum ``[b, s, h]`` of the embeddings of words, positions and segments ``[b, s]``.

    Besides it the number of words in each row, which are those with a 1 in ``mask``, and the sum.
    """
    words = _looked_up(ctx, ctx.required(word_embedding, "word_embedding"), input_ids)
    if position_ids is None:
        position_ids = arange(ctx, dim_of(ctx, input_ids, 1))
    total = layers.add(
        ctx, words, _looked_up(ctx, ctx.required(position_embedding, "position_embedding"), position_ids)
    )
    if segment_embedding is not None:
        total = layers.add(ctx, total, _looked_up(ctx, segment_embedding, ctx.required(segment_ids, "segment_ids")))
    if mask is None:
        rows = concat_lists(ctx, [dim_of(ctx, input_ids, 0)])
        count = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.constant(0, "i32"), rows)
    else:
        ones = in_type(ctx, layers.equal(ctx, mask, ctx.like(1, mask)), element_types.i32)
        count = ctx.emit(reduction.ReduceSum1(keep_dims=False), ones, ctx.constant([1]))
    scale, shift = ctx.required(gamma, "gamma"), ctx.required(beta, "beta")
    return layer_normalization(ctx, total, scale, shift, epsilon=epsilon)[0], count, total
