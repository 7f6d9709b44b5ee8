"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import known_axes, known_list, rank_of, reduce, unsqueeze
from converter.to_onnx.registry import ir_op
from ir_runtime.operations.normalization import (
    LRN1,
    MVN2,
    MVN6,
    BatchNormInference1,
    BatchNormInference5,
    GroupNormalization12,
    NormalizeL21,
)


@ir_op(BatchNormInference5)
def batch_norm(
    ctx: Context, op: BatchNormInference5, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value
) -> Value:
    """BatchNormalization"""
    return ctx.emit("BatchNormalization", x, gamma, beta, mean, variance, epsilon=op.epsilon)


@ir_op(BatchNormInference1)
def batch_norm_1(
    ctx: Context, op: BatchNormInference1, gamma: Value, beta: Value, x: Value, mean: Value, variance: Value
) -> Value:
    """BatchNormalization, with the data first"""
    return ctx.emit("BatchNormalization", x, gamma, beta, mean, variance, epsilon=op.epsilon)


@ir_op(MVN6)
def mvn(ctx: Context, op: MVN6, x: Value, axes: Value) -> Value:
    """LayerNormalization over the last dimensions; else by means"""
    rank = rank_of(ctx, x, "the data")
    over = known_axes(ctx, axes, rank)
    if over is None:
        ctx.fail("the axes must be known")
    return _normalized(ctx, x, over, op.eps, variance=op.normalize_variance, outside=op.eps_mode == "OUTSIDE_SQRT")


@ir_op(MVN2)
def mvn_2(ctx: Context, op: MVN2, x: Value) -> Value:
    """As MVN-6, over all dimensions but the batch, and the channels without ``across_channels``"""
    over = list(range(1 if op.across_channels else 2, rank_of(ctx, x, "the data")))
    return _normalized(ctx, x, over, op.eps, variance=op.normalize_variance, outside=False)


def _normalized(ctx: Context, x: Value, axes: Sequence[int], eps: float, *, variance: bool, outside: bool) -> Value:
    if not axes:
        return ctx.emit("Sub", x, x)
    rank = rank_of(ctx, x)
    sizes = [x.shape[axis] for axis in sorted(axes)]
    is_last = sorted(axes) == list(range(rank - len(axes), rank))
    if variance and not outside and is_last and all(one.is_static for one in sizes) and ctx.at_least(17):
        ones = ctx.like(np.ones([one.value for one in sizes]), x)
        return ctx.emit("LayerNormalization", x, ones, axis=rank - len(axes), epsilon=eps)
    centred = ctx.emit("Sub", x, reduce(ctx, "ReduceMean", x, axes))
    if not variance:
        return centred
    squares = reduce(ctx, "ReduceMean", ctx.emit("Mul", centred, centred), axes)
    small = ctx.like(eps, x)
    if outside:
        return ctx.emit("Div", centred, ctx.emit("Add", ctx.emit("Sqrt", squares), small))
    return ctx.emit("Div", centred, ctx.emit("Sqrt", ctx.emit("Add", squares, small)))


@ir_op(NormalizeL21)
def normalize_l2(ctx: Context, op: NormalizeL21, x: Value, axes: Value) -> Value:
    """x by the root of its sum of squares, with ``eps`` added or as the least value"""
    known = known_list(ctx, axes)
    squares = ctx.emit("Mul", x, x)
    if known != []:
        squares = reduce(ctx, "ReduceSum", squares, axes if known is None else known)
    small = ctx.like(op.eps, x)
    limited = ctx.emit("Add" if op.eps_mode == "add" else "Max", squares, small)
    return ctx.emit("Div", x, ctx.emit("Sqrt", limited))


@ir_op(LRN1)
def lrn(ctx: Context, op: LRN1, x: Value, axes: Value) -> Value:
    """LRN over the channels; over other axes by AveragePool of the squares"""
    rank = rank_of(ctx, x, "the data")
    over = known_axes(ctx, axes, rank)
    if over is None:
        ctx.fail("the axes must be known")
    if over == [1] and op.size % 2 and rank > 2:
        return ctx.emit("LRN", x, alpha=op.alpha, beta=op.beta, bias=op.bias, size=op.size)
    reach = (op.size - 1) // 2
    squares = ctx.emit("Mul", x, x)
    for axis in over:
        squares = _window_sums(ctx, squares, axis, rank, reach)
    share = ctx.like(op.alpha / op.size ** len(over), x)
    base = ctx.emit("Add", ctx.like(op.bias, x), ctx.emit("Mul", share, squares))
    return ctx.emit("Div", x, ctx.emit("Pow", base, ctx.like(op.beta, x)))


def _window_sums(ctx: Context, x: Value, axis: int, rank: int, reach: int) -> Value:
    """Sums of the neighbours up to ``reach`` away along an axis: it is moved behind the others, and pooled."""
    order = [*[i for i in range(rank) if i != axis], axis]
    moved = ctx.emit("Transpose", x, perm=order)
    flat = ctx.emit("Unsqueeze", ctx.emit("Flatten", moved, axis=rank - 1), ctx.constant([1]))
    window = 2 * reach + 1
    means = ctx.emit("AveragePool", flat, kernel_shape=[window], pads=[reach, reach], count_include_pad=1)
    sums = ctx.emit("Mul", means, ctx.like(window, x))
    back = ctx.emit("Reshape", sums, ctx.emit("Shape", moved))
    return ctx.emit("Transpose", back, perm=[order.index(i) for i in range(rank)])


@ir_op(GroupNormalization12)
def group_normalization(ctx: Context, op: GroupNormalization12, x: Value, scale: Value, bias: Value) -> Value:
    """GroupNormalization (opset 21); before that InstanceNormalization of the groups"""
    if ctx.at_least(21):
        return ctx.emit("GroupNormalization", x, scale, bias, num_groups=op.num_groups, epsilon=op.epsilon)
    rank = rank_of(ctx, x, "the data")
    groups = ctx.emit("Reshape", x, ctx.constant([0, op.num_groups, -1]))
    ones = ctx.like([1.0] * op.num_groups, x)
    zeros = ctx.like([0.0] * op.num_groups, x)
    made = ctx.emit("InstanceNormalization", groups, ones, zeros, epsilon=op.epsilon)
    made = ctx.emit("Reshape", made, ctx.emit("Shape", x))
    behind = list(range(1, rank - 1))
    return ctx.emit("Add", ctx.emit("Mul", made, unsqueeze(ctx, scale, behind)), unsqueeze(ctx, bias, behind))
