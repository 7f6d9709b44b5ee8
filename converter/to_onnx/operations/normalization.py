"""Normalizations."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import known_axes, rank_of, reshape
from converter.to_onnx.registry import write_inline, writes
from ir_runtime.operations import normalization as ir

writes("BatchNormalization", ir.BatchNormInference5, epsilon="epsilon")


@ir_op(ir.BatchNormInference1)
def batch_norm_1(
    ctx: Context, op: ir.BatchNormInference1, gamma: Value, beta: Value, x: Value, mean: Value, variance: Value
) -> Value:
    """BatchNormalization, with the data first"""
    return ctx.emit("BatchNormalization", x, gamma, beta, mean, variance, epsilon=op.epsilon)


@ir_op(ir.MVN6)
def mvn(ctx: Context, op: ir.MVN6, x: Value, axes: Value) -> Value:
    """LayerNormalization over the last dimensions; else by means"""
    rank = rank_of(ctx, x, "the data")
    over = sorted(known_axes(ctx, axes, rank) or ())
    sizes = [x.shape[axis] for axis in over]
    is_last = over == list(range(rank - len(over), rank)) and all(size.is_static for size in sizes)
    if not (over and is_last and op.normalize_variance and op.eps_mode == "INSIDE_SQRT" and ctx.at_least(17)):
        return ctx.decompose()[0]
    ones = ctx.like(np.ones([size.value for size in sizes]), x)
    return ctx.emit("LayerNormalization", x, ones, axis=rank - len(over), epsilon=op.eps)


write_inline(ir.MVN2, ir.NormalizeL21)


@ir_op(ir.LRN1)
def lrn(ctx: Context, op: ir.LRN1, x: Value, axes: Value) -> Value:
    """LRN over the channels; over other axes by sums of slices of the squares"""
    rank = rank_of(ctx, x, "the data")
    if known_axes(ctx, axes, rank) == [1] and op.size % 2 and rank > 2:
        return ctx.emit("LRN", x, alpha=op.alpha, beta=op.beta, bias=op.bias, size=op.size)
    return ctx.decompose()[0]


@ir_op(ir.GroupNormalization12)
def group_normalization(ctx: Context, op: ir.GroupNormalization12, x: Value, scale: Value, bias: Value) -> Value:
    """GroupNormalization (opset 21); before that InstanceNormalization of the groups"""
    if ctx.at_least(21):
        return ctx.emit("GroupNormalization", x, scale, bias, num_groups=op.num_groups, epsilon=op.epsilon)
    rank = rank_of(ctx, x, "the data")
    groups = ctx.emit("Reshape", x, ctx.constant([0, op.num_groups, -1]))
    ones = ctx.like([1.0] * op.num_groups, x)
    zeros = ctx.like([0.0] * op.num_groups, x)
    normalized = ctx.emit("InstanceNormalization", groups, ones, zeros, epsilon=op.epsilon)
    sizes = [0, *(dimension.value if dimension.is_static else -1 for dimension in x.shape.dims[1:])]
    target = ctx.emit("Shape", x) if sizes.count(-1) > 1 or 0 in sizes[1:] else ctx.constant(sizes)
    normalized = ctx.emit("Reshape", normalized, target)
    behind = [-1, *[1] * (rank - 2)]
    if not _is_filled(scale, 1.0):
        normalized = ctx.emit("Mul", normalized, reshape(ctx, scale, behind))
    return normalized if _is_filled(bias, 0.0) else ctx.emit("Add", normalized, reshape(ctx, bias, behind))


def _is_filled(value: Value, number: float) -> bool:
    """True if a value is a constant of one number."""
    return value.type.constant is not None and bool((value.type.constant == number).all())
