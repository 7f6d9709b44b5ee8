"""Activations."""

from __future__ import annotations

import math

from converter.onnx_file.domains import MICROSOFT
from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import known_number, scalar, unsqueeze
from converter.to_onnx.registry import writes
from ir_runtime.graph import Operation, element_types
from ir_runtime.operations import activation as ir

writes("Sigmoid", ir.Sigmoid1)
writes("Softplus", ir.SoftPlus4)
writes("Softsign", ir.SoftSign9)
writes("HardSigmoid", ir.HSigmoid5, alpha=1 / 6, beta=0.5)
writes("Elu", ir.Elu1, alpha="alpha")
writes("Softmax", ir.SoftMax1, ir.SoftMax8, axis="axis")
writes("LogSoftmax", ir.LogSoftmax5, axis="axis")


@ir_op(ir.ReLU1)
def relu(ctx: Context, op: Operation, x: Value) -> Value:
    """Relu; of integers Max"""
    return ctx.emit("Relu", x) if x.element_type.is_real else ctx.emit("Max", x, ctx.like(0, x))


@ir_op(ir.HSwish4)
def h_swish(ctx: Context, op: Operation, x: Value) -> Value:
    """HardSwish; before opset 14 Mul(x, HardSigmoid(x))"""
    if ctx.at_least(14):
        return ctx.emit("HardSwish", x)
    return ctx.emit("Mul", x, ctx.emit("HardSigmoid", x, alpha=1 / 6, beta=0.5))


@ir_op(ir.Mish4)
def mish(ctx: Context, op: Operation, x: Value) -> Value:
    """Mish; before opset 18 Mul(x, Tanh(Softplus(x)))"""
    if ctx.at_least(18):
        return ctx.emit("Mish", x)
    return ctx.emit("Mul", x, ctx.emit("Tanh", ctx.emit("Softplus", x)))


@ir_op(ir.Gelu2, ir.Gelu7)
def gelu(ctx: Context, op: Operation, x: Value) -> Value:
    """Gelu; before opset 20 by Erf or Tanh, or as onnxruntime's own operator"""
    mode = getattr(op, "approximation_mode", "ERF")
    if ctx.at_least(20):
        return ctx.emit("Gelu", x, approximate="none" if mode == "ERF" else "tanh")
    has_dimensions = x.shape.has_rank and x.shape.rank > 0  # which FastGelu requires
    if ctx.contrib and x.element_type in (element_types.f32, element_types.f16) and (mode == "ERF" or has_dimensions):
        op_type = "Gelu" if mode == "ERF" else "FastGelu"
        return ctx.emit(op_type, x, domain=MICROSOFT, type=x.element_type, shape=x.shape)
    half = ctx.emit("Mul", ctx.like(0.5, x), x)
    if mode == "ERF":
        part = ctx.emit("Erf", ctx.emit("Mul", x, ctx.like(math.sqrt(0.5), x)))
    else:
        cube = ctx.emit("Mul", x, ctx.emit("Mul", x, x))
        inner = ctx.emit("Add", x, ctx.emit("Mul", ctx.like(0.044715, x), cube))
        part = ctx.emit("Tanh", ctx.emit("Mul", ctx.like(math.sqrt(2 / math.pi), x), inner))
    return ctx.emit("Mul", half, ctx.emit("Add", ctx.like(1, x), part))


@ir_op(ir.Clamp1)
def clamp(ctx: Context, op: ir.Clamp1, x: Value) -> Value:
    """Clip; Relu for the bounds 0 and infinity"""
    element_type = x.element_type
    if element_type.is_real:
        if op.min == 0 and op.max == math.inf:
            return ctx.emit("Relu", x)
        low, high = op.min, op.max
        return ctx.emit("Clip", x, _bound(ctx, low, -math.inf, x), _bound(ctx, high, math.inf, x))
    least, most = element_type.limits
    low = least if op.min <= least else min(math.ceil(op.min), most)
    high = most if op.max >= most else max(math.floor(op.max), least)
    return ctx.emit("Clip", x, ctx.like(low, x), ctx.like(high, x))


def _bound(ctx: Context, bound: float, none: float, x: Value) -> Value | None:
    return None if bound == none else ctx.like(bound, x)


@ir_op(ir.Selu1)
def selu(ctx: Context, op: ir.Selu1, x: Value, alpha: Value, scale: Value) -> Value:
    """Selu; by Elu where the parameters are computed"""
    factor, gamma = known_number(ctx, alpha), known_number(ctx, scale)
    if factor is not None and gamma is not None:
        return ctx.emit("Selu", x, alpha=factor, gamma=gamma)
    zero = ctx.like(0, x)
    below = ctx.emit("Mul", scalar(ctx, alpha), ctx.emit("Elu", ctx.emit("Min", x, zero), alpha=1.0))
    return ctx.emit("Mul", scalar(ctx, scale), ctx.emit("Where", ctx.emit("Greater", x, zero), x, below))


@ir_op(ir.HardSigmoid1)
def hard_sigmoid(ctx: Context, op: ir.HardSigmoid1, x: Value, alpha: Value, beta: Value) -> Value:
    """HardSigmoid; by Clip where the parameters are computed"""
    slope, shift = known_number(ctx, alpha), known_number(ctx, beta)
    if slope is not None and shift is not None:
        return ctx.emit("HardSigmoid", x, alpha=slope, beta=shift)
    line = ctx.emit("Add", ctx.emit("Mul", x, scalar(ctx, alpha)), scalar(ctx, beta))
    return ctx.emit("Clip", line, ctx.like(0, x), ctx.like(1, x))


@ir_op(ir.Swish4)
def swish(ctx: Context, op: ir.Swish4, x: Value, beta: Value | None = None) -> Value:
    """Mul(x, Sigmoid(x)), with beta as a factor in the Sigmoid where it is not 1"""
    inner = x
    if beta is not None and known_number(ctx, beta) != 1:
        inner = ctx.emit("Mul", x, scalar(ctx, beta))
    return ctx.emit("Mul", x, ctx.emit("Sigmoid", inner))


@ir_op(ir.PReLU1)
def prelu(ctx: Context, op: ir.PReLU1, x: Value, slope: Value) -> Value:
    """PRelu; a list of one slope a channel gets dimensions behind it"""
    if x.shape.has_rank and slope.shape.has_rank and slope.shape.rank == 1 and x.shape.rank > 2:
        count, channels = slope.shape[0], x.shape[1]
        if count.merge(channels) is not None and not (count.is_static and count.value == 1):
            slope = unsqueeze(ctx, slope, list(range(1, x.shape.rank - 1)))
    if slope.shape.has_rank and x.shape.has_rank and slope.shape.rank > x.shape.rank:
        ctx.fail("the slope has more dimensions than the data")
    number = known_number(ctx, slope)
    if number is not None:
        return ctx.emit("LeakyRelu", x, alpha=number)
    return ctx.emit("PRelu", x, slope)
