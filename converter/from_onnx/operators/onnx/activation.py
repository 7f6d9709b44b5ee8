"""ONNX's activations: Relu and its relatives, Sigmoid and its approximations, Gelu, Softmax, Hardmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from converter.from_onnx.translation import Context, onnx_op, unary
from ir_runtime.graph import Dimension, Output, element_types, normalize_axis
from ir_runtime.operations import activation as ir
from ir_runtime.operations import indexing, movement, sorting
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import dim_of as dimension_of
from ir_runtime.rewriting.shape_layers import shape_of

_ONE = Dimension(1, 1)


# --- one input and no attributes ---


def _relu(ctx: Context, x: Output) -> Output:
    if x.element_type.is_integral:
        return layers.maximum(ctx, x, ctx.like(0, x))
    return ctx.emit(ir.ReLU1(), x)


onnx_op("Relu", versions=(1, 6, 13, 14))(_relu)
onnx_op("Sigmoid", versions=(1, 6, 13))(unary(ir.Sigmoid1))
onnx_op("HardSwish", versions=(14, 22))(unary(ir.HSwish4))
onnx_op("Softplus", versions=(1, 22))(unary(ir.SoftPlus4))
onnx_op("Softsign", versions=(1, 22))(unary(ir.SoftSign9))
onnx_op("Mish", versions=(18, 22))(unary(ir.Mish4))


# --- one input and coefficients ---


@onnx_op("LeakyRelu", versions=(1, 6, 16))
def leaky_relu(ctx: Context, x: Output, *, alpha: float = 0.01) -> Output:
    """alpha x where x is negative."""
    if x.shape.has_rank and x.shape.rank:
        return ctx.emit(ir.PReLU1(), x, ctx.constant([alpha], x.element_type))
    return _by_formula(ctx, x, ctx.like(alpha, x))


@onnx_op("Elu", versions=(1, 6, 22))
def elu(ctx: Context, x: Output, *, alpha: float = 1.0) -> Output:
    """alpha (e^x - 1) where x is negative."""
    return ctx.emit(ir.Elu1(alpha=alpha), x)


@onnx_op("Celu", versions=(12, 28))
def celu(ctx: Context, x: Output, *, alpha: float = 1.0) -> Output:
    """max(0, x) + min(0, alpha (e^(x / alpha) - 1)), which is alpha times the Elu of x / alpha."""
    if alpha == 0:
        raise ctx.invalid("alpha must not be 0")
    if alpha == 1:
        return ctx.emit(ir.Elu1(alpha=1.0), x)
    element_type = x.element_type
    wide = x if element_type.bits >= 32 else in_type(ctx, x, element_types.f32)
    scale = ctx.like(alpha, wide)
    scaled = layers.divide(ctx, wide, scale)
    if alpha > 0:
        return in_type(ctx, layers.multiply(ctx, ctx.emit(ir.Elu1(alpha=1.0), scaled), scale), element_type)
    grown = layers.subtract(ctx, layers.exponential(ctx, scaled), ctx.like(1, wide))
    zero = ctx.like(0, wide)
    negative = layers.minimum(ctx, layers.multiply(ctx, grown, scale), zero)
    positive = layers.maximum(ctx, wide, zero)
    return in_type(ctx, layers.add(ctx, positive, negative), element_type)


@onnx_op("Selu", versions=(1,))
def selu_1(ctx: Context, x: Output, *, alpha: float = 1.673200011253357, gamma: float = 1.0506999492645264) -> Output:
    """The Elu, scaled by gamma; the coefficients have four digits by default."""
    return selu(ctx, x, alpha=alpha, gamma=gamma)


@onnx_op("Selu", versions=(6, 22))
def selu(ctx: Context, x: Output, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Output:
    """The Elu, scaled by gamma."""
    return ctx.emit(ir.Selu1(), x, ctx.like(alpha, x), ctx.like(gamma, x))


@onnx_op("ThresholdedRelu", versions=(1, 10, 22))  # 1 while ONNX had it on trial
def thresholded_relu(ctx: Context, x: Output, *, alpha: float = 1.0) -> Output:
    """x where it is above alpha, 0 elsewhere."""
    above = layers.greater(ctx, x, ctx.like(alpha, x))
    return layers.select(ctx, above, x, ctx.like(0, x))


@onnx_op("HardSigmoid", versions=(1, 6, 22))
def hard_sigmoid(ctx: Context, x: Output, *, alpha: float = 0.2, beta: float = 0.5) -> Output:
    """alpha x + beta, limited to [0, 1]."""
    return ctx.emit(ir.HardSigmoid1(), x, ctx.like(alpha, x), ctx.like(beta, x))


@onnx_op("Gelu", versions=(20,))
def gelu(ctx: Context, x: Output, *, approximate: Literal["none", "tanh"] = "none") -> Output:
    """x times the normal distribution's share below x, or an approximation by tanh."""
    return ctx.emit(ir.Gelu7(approximation_mode="ERF" if approximate == "none" else "TANH"), x)


@onnx_op("Swish", versions=(24,))
def swish(ctx: Context, x: Output, *, alpha: float = 1.0) -> Output:
    """x sigmoid(alpha x)."""
    return ctx.emit(ir.Swish4(), x) if alpha == 1 else ctx.emit(ir.Swish4(), x, ctx.like(alpha, x))


@onnx_op("SwiGLU", versions=(28,))
def swiglu(ctx: Context, a: Output, b: Output, *, alpha: float = 1.0) -> Output:
    """The Swish of the gate ``a`` times ``b``, which has the same shape."""
    gate, other = ctx.declared(a).shape, ctx.declared(b).shape
    if gate.merge(other) is None:
        raise ctx.invalid(f"the inputs must have one shape, but are {gate} and {other}")
    return layers.multiply(ctx, swish(ctx, a, alpha=alpha), b)


@onnx_op("Shrink", versions=(9,))
def shrink(ctx: Context, x: Output, *, bias: float = 0.0, lambd: float = 0.5) -> Output:
    """x + bias below -lambd, x - bias above lambd, 0 between; of integers it is rounded towards zero."""
    element_type = x.element_type
    values = x
    if element_type.is_integral:
        values = in_type(ctx, x, element_types.f32 if element_type.bits <= 16 else element_types.f64)
    amount, zero = ctx.like(bias, values), ctx.like(0, values)
    below = layers.less(ctx, values, ctx.like(-lambd, values))
    above = layers.greater(ctx, values, ctx.like(lambd, values))
    less = layers.subtract(ctx, values, amount)
    more = layers.add(ctx, values, amount)
    upper = layers.select(ctx, above, less, zero)
    return in_type(ctx, layers.select(ctx, below, more, upper), element_type)


# --- PRelu ---


def _by_formula(ctx: Context, x: Output, slope: Output) -> Output:
    negative = layers.less(ctx, x, ctx.like(0, x))
    return layers.select(ctx, negative, layers.multiply(ctx, x, slope), x)


@onnx_op("PRelu", versions=(7, 9, 16))
def prelu(ctx: Context, x: Output, slope: Output) -> Output:
    """The slope broadcasts to x as NumPy has it; one slope, or one for each channel, is a layer of the IR."""
    if x.shape.has_rank and slope.shape.has_rank and slope.shape.rank > x.shape.rank:
        raise ctx.invalid(f"the slope, which is {slope.shape}, cannot be broadcast to x, which is {x.shape}")
    if not x.element_type.is_real or not x.shape.has_rank or x.shape.rank == 0 or not slope.shape.is_static:
        return _by_formula(ctx, x, slope)
    dimensions = [1] * (x.shape.rank - slope.shape.rank) + list(slope.shape.static())
    declared = ctx.declared(x).shape
    for dimension, mine in zip(dimensions, declared):
        if dimension != 1 and not mine.contains(dimension):
            raise ctx.invalid(f"the slope, which is {slope.shape}, cannot be broadcast to x, which is {declared}")
    if all(dimension == 1 for at, dimension in enumerate(dimensions) if at != 1):
        channels = dimensions[1] if len(dimensions) > 1 else 1
        flat = ctx.emit(movement.Reshape1(), slope, ctx.constant([channels]))
        return ctx.emit(ir.PReLU1(), x, flat)
    return _by_formula(ctx, x, slope)


@onnx_op("PRelu", versions=(1, 6))
def prelu_1(ctx: Context, x: Output, slope: Output) -> Output:
    """One slope, or one for each channel: a list of slopes belongs to the channels."""
    rank = ctx.rank(x, "x")
    if slope.shape.has_rank and slope.shape.rank == 1 and rank > 1 and slope.shape[0] != _ONE:
        behind = ctx.constant(np.arange(1, rank - 1))
        slope = ctx.emit(movement.Unsqueeze1(), slope, behind) if rank > 2 else slope
    return prelu(ctx, x, slope)


# --- Softmax and its relatives ---

Along = Callable[[Context, Output, int], Output]
"""Computes something along the given dimension."""


def _hardmax(ctx: Context, x: Output, axis: int) -> Output:
    """1 at the first greatest element, 0 elsewhere."""
    op = sorting.TopK11(axis=axis, mode="max", sort="value", index_element_type=element_types.i64, stable=True)
    best = ctx.emit_all(op, x, ctx.constant(1))[1]
    values = dimension_of(ctx, x, axis), ctx.like(1, x), ctx.like(0, x)
    index = layers.squeeze(ctx, best, ctx.constant([axis]))
    return ctx.emit(indexing.OneHot1(axis=axis), index, *values)


def _over_the_rest(ctx: Context, x: Output, axis: int, along: Along) -> Output:
    """Over all dimensions from ``axis`` on as if they were one."""
    rank = ctx.rank(x, "the input")
    if rank == 0:
        ctx.tolerate(f"the input must have a dimension {axis}, but is a scalar")
        first = ctx.constant([0])
        return layers.squeeze(ctx, along(ctx, ctx.emit(movement.Unsqueeze1(), x, first), 0), first)
    at = normalize_axis(axis, rank)
    if all(dimension == _ONE for dimension in x.shape.dims[at + 1 :]):
        return along(ctx, x, at)
    flat = ctx.emit(movement.Reshape1(special_zero=True), x, ctx.constant([0] * at + [-1]))
    shape = shape_of(ctx, x)
    return ctx.emit(movement.Reshape1(), along(ctx, flat, at), shape)


def _register(op_type: str, along: Along) -> None:
    def over_the_rest(ctx: Context, x: Output, *, axis: int = 1) -> Output:
        # Exporters wrote negative axes before opset 11 allowed them, and every runtime takes them.
        return _over_the_rest(ctx, x, axis, along)

    def along_axis(ctx: Context, x: Output, *, axis: int = -1) -> Output:
        return along(ctx, x, normalize_axis(axis, ctx.rank(x, "the input")))

    onnx_op(op_type, versions=(1, 11))(over_the_rest)
    onnx_op(op_type, versions=(13,))(along_axis)


_register("Softmax", lambda ctx, x, axis: ctx.emit(ir.SoftMax8(axis=axis), x))
_register("LogSoftmax", lambda ctx, x, axis: ctx.emit(ir.LogSoftmax5(axis=axis), x))
_register("Hardmax", _hardmax)
