"""Values made from shapes and numbers, and random ones.

Random numbers come from another generator than OpenVINO's, so their values are others. onnxruntime 1.32 has kernels for
them up to opset 21 alone.
"""

from __future__ import annotations

import math
from typing import Union

import numpy as np

from converter.onnx_file.types import onnx_number
from converter.to_onnx import Context, Value, ir_op, layers
from converter.to_onnx.registry import writes
from ir_runtime.graph import ElementType, element_types
from ir_runtime.operations.generation import CumSum3, Eye9, Range1, Range4, ShapeOf1, ShapeOf3
from ir_runtime.operations.randomness import Multinomial13, RandomUniform8

writes("Shape", ShapeOf1, ShapeOf3)


@ir_op(Range1, Range4)
def range_(ctx: Context, op: Range1 | Range4, start: Value, stop: Value, step: Value) -> Value:
    """Range, in float32 where a bound is a float, else in int64 or int32"""
    result_types = {bound.element_type for bound in (start, stop, step)}
    if any(element_type is element_types.f64 for element_type in result_types):
        work = element_types.f64
    elif any(element_type.is_real for element_type in result_types):
        work = element_types.f32
    else:
        work = element_types.i32 if result_types == {element_types.i32} else element_types.i64
    bounds = [layers.scalar(ctx, ctx.cast(bound, work)) for bound in (start, stop, step)]
    return ctx.emit("Range", *bounds)


@ir_op(CumSum3)
def cum_sum(ctx: Context, op: CumSum3, x: Value, axis: Value) -> Value:
    """CumSum"""
    at = axis if axis.element_type is element_types.i32 else ctx.cast(axis, element_types.i64)
    return ctx.emit(
        "CumSum", x, layers.scalar(ctx, at), exclusive=int(op.exclusive) or None, reverse=int(op.reverse) or None
    )


@ir_op(Eye9)
def eye(ctx: Context, op: Eye9, rows: Value, columns: Value, diagonal: Value, batch: Value | None = None) -> Value:
    """Equal of the column's number and the row's plus the diagonal, and Expand to the batch"""
    zero, step_one = ctx.constant(0), ctx.constant(1)
    counts = [layers.reshape(ctx, ctx.cast(count, element_types.i64), []) for count in (rows, columns)]
    down, across = (ctx.emit("Range", zero, count, step_one) for count in counts)
    shifted = ctx.emit("Add", down, layers.reshape(ctx, ctx.cast(diagonal, element_types.i64), [1]))
    eye_matrix = ctx.cast(ctx.emit("Equal", ctx.emit("Unsqueeze", shifted, ctx.constant([1])), across), op.output_type)
    if batch is None or layers.known_list(ctx, batch) == []:
        return eye_matrix
    return ctx.emit(
        "Expand", eye_matrix, layers.concat(ctx, [layers.int64_list(ctx, batch), ctx.emit("Shape", eye_matrix)], 0)
    )


_Random = Union[RandomUniform8, Multinomial13]

_SEEDS = 1 << 24
"""Seeds are float32, which holds the whole numbers below."""


def _seed(op: _Random) -> float | None:
    """Return one seed for the layer's two; none where every call gives other numbers.

    A layer that was made from ONNX has the bits of its seed, and one more, as 0 means none.
    """
    if op.global_seed == op.op_seed == 0:
        return None
    if not op.global_seed and 0 < op.op_seed <= 1 << 32:
        seed = float(np.uint32(op.op_seed - 1).view(np.float32))
        if seed == 0 or 1 <= abs(seed) < math.inf:
            return seed
    return float((op.global_seed * 1_000_003 + op.op_seed) % _SEEDS)


def _uniform(
    ctx: Context, op: _Random, shape: Value, element_type: ElementType, low: float = 0.0, high: float = 1.0
) -> Value:
    """Floats from low up to high."""
    like = ctx.emit("ConstantOfShape", shape, type=element_types.f32)
    return ctx.emit(
        "RandomUniformLike",
        like,
        type=element_type,
        dtype=onnx_number(element_type),
        seed=_seed(op),
        low=float(low),
        high=float(high),
    )


@ir_op(RandomUniform8)
def random_uniform(ctx: Context, op: RandomUniform8, shape: Value, low: Value, high: Value) -> Value:
    """RandomUniformLike; whole numbers by Floor"""
    element_type, shape = op.output_type, layers.int64_list(ctx, shape)
    if element_type.is_integral:
        span = ctx.cast(ctx.emit("Sub", layers.scalar(ctx, high), layers.scalar(ctx, low)), element_types.f64)
        steps = ctx.emit("Floor", ctx.emit("Mul", _uniform(ctx, op, shape, element_types.f64), span))
        return ctx.emit("Add", ctx.cast(steps, element_type), layers.scalar(ctx, low))
    work = element_types.f64 if element_type is element_types.f64 else element_types.f32
    bounds = layers.known_number(ctx, low), layers.known_number(ctx, high)
    if bounds[0] is not None and bounds[1] is not None:
        return _uniform(ctx, op, shape, work, bounds[0], bounds[1])
    start, end = (layers.scalar(ctx, ctx.cast(bound, work)) for bound in (low, high))
    return ctx.emit("Add", ctx.emit("Mul", _uniform(ctx, op, shape, work), ctx.emit("Sub", end, start)), start)


@ir_op(Multinomial13)
def multinomial(ctx: Context, op: Multinomial13, weights: Value, count: Value) -> Value:
    """Multinomial; without replacement TopK of the logarithms with Gumbel noise, one random number each"""
    samples = layers.size_from(ctx, count)
    if not op.with_replacement:
        return _greatest(ctx, op, _logarithms(ctx, op, weights), layers.as_list(ctx, samples))
    if isinstance(samples, int):
        number = element_types.i32 if op.convert_type is element_types.i32 else element_types.i64
        return ctx.emit(
            "Multinomial",
            _logarithms(ctx, op, weights),
            type=number,
            sample_size=samples,
            seed=_seed(op),
            dtype=onnx_number(number),
        )
    # The number of samples is an attribute of Multinomial. A computed one: places among the sums of the weights.
    if op.log_probs:
        weights = ctx.emit("Exp", ctx.emit("LogSoftmax", weights, axis=-1))
    sums = ctx.emit("CumSum", ctx.cast(weights, element_types.f32), ctx.constant(1))
    whole = ctx.emit("Slice", sums, ctx.constant([-1]), ctx.constant([1 << 30]), ctx.constant([1]))
    shape = layers.shape_list(ctx, [layers.size_of(ctx, weights, 0), samples])
    drawn = ctx.emit("Mul", _uniform(ctx, op, shape, element_types.f32), whole)
    is_before = ctx.emit("LessOrEqual", layers.unsqueeze(ctx, sums, [1]), layers.unsqueeze(ctx, drawn, [2]))
    return ctx.emit("ReduceSum", ctx.cast(is_before, element_types.i64), ctx.constant([2]), keepdims=0)


def _logarithms(ctx: Context, op: Multinomial13, weights: Value) -> Value:
    return weights if op.log_probs else ctx.emit("Log", weights)


def _greatest(ctx: Context, op: Multinomial13, logarithms: Value, count: Value) -> Value:
    """The greatest sums of logarithms and Gumbel noise are a sample without replacement."""
    logarithms = ctx.cast(logarithms, element_types.f32)
    drawn = _uniform(ctx, op, ctx.emit("Shape", logarithms), element_types.f32)
    noise = ctx.emit("Neg", ctx.emit("Log", ctx.emit("Neg", ctx.emit("Log", drawn))))
    scores = ctx.emit("Add", logarithms, noise)
    return ctx.emit_many("TopK", scores, count, count=2, axis=1, largest=1, sorted=1)[1]
