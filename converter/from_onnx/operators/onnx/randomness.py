"""ONNX's random operators, and Dropout. The numbers are others than another engine's, but distributed alike.

Without ``seed`` every run gives new numbers; with it, the IR's generator starts from the seed's bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.operations import elementwise, movement, randomness, reduction
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import shape_of


def _seed(seed: float | None) -> int:
    """An integer for the IR, where 0 means that no seed is given."""
    if seed is None:
        return 0
    bits: int = struct.unpack("<I", struct.pack("<f", seed))[0]
    return bits + 1


def unit(ctx: Context, shape: Output, seed: float | None, stream: int = 0) -> Output:
    """Evenly distributed f32 numbers from 0 to 1 (exclusive)."""
    number = _seed(seed)
    op = randomness.RandomUniform8(
        output_type=element_types.f32, op_seed=number, global_seed=stream if number else 0, alignment="tensorflow"
    )
    return ctx.emit(op, shape, ctx.constant(0, "f32"), ctx.constant(1, "f32"))


def _scale(ctx: Context, values: Output, factor: float, offset: float, element_type: ElementType) -> Output:
    wide = element_type if element_type is element_types.f64 else element_types.f32
    values = in_type(ctx, values, wide)
    scaled = layers.multiply(ctx, values, ctx.constant(factor, wide))
    return in_type(ctx, layers.add(ctx, scaled, ctx.constant(offset, wide)), element_type)


def _uniform(
    ctx: Context,
    shape: Output,
    element_type: ElementType,
    *,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Output:
    return _scale(ctx, unit(ctx, shape, seed), high - low, low, element_type)


def _normal(
    ctx: Context,
    shape: Output,
    element_type: ElementType,
    *,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Output:
    """Box and Muller: sqrt(-2 ln u) cos(2 pi v) of two even numbers, u not 0, is normally distributed."""
    scalar_one = ctx.constant(1, "f32")
    u = layers.subtract(ctx, scalar_one, unit(ctx, shape, seed, 1))
    v = unit(ctx, shape, seed, 2)
    squared = layers.multiply(ctx, ctx.emit(elementwise.Log1(), u), ctx.constant(-2, "f32"))
    turn = layers.multiply(ctx, v, ctx.constant(2 * math.pi, "f32"))
    radius = layers.square_root(ctx, squared)
    values = layers.multiply(ctx, radius, ctx.emit(elementwise.Cos1(), turn))
    return _scale(ctx, values, scale, mean, element_type)


def _declared(ctx: Context, shape: Sequence[int]) -> Output:
    return ctx.constant(np.asarray(shape, np.int64))


def _output_type(dtype: int | None, like: Output) -> ElementType:
    return like.element_type if dtype is None else element_type_of(dtype)


@onnx_op("RandomUniform", versions=(1, 22))
@attributes_of(_uniform)
def random_uniform(ctx: Context, *, shape: Sequence[int], dtype: int = 1, **attributes: Any) -> Output:
    """Evenly distributed numbers from ``low`` to ``high``."""
    return _uniform(ctx, _declared(ctx, shape), element_type_of(dtype), **attributes)


@onnx_op("RandomUniformLike", versions=(1, 22))
@attributes_of(_uniform)
def random_uniform_like(ctx: Context, data: Output, *, dtype: int | None = None, **attributes: Any) -> Output:
    """Evenly distributed numbers in the shape of the input."""
    return _uniform(ctx, shape_of(ctx, data), _output_type(dtype, data), **attributes)


@onnx_op("RandomNormal", versions=(1, 22))
@attributes_of(_normal)
def random_normal(ctx: Context, *, shape: Sequence[int], dtype: int = 1, **attributes: Any) -> Output:
    """Normally distributed numbers of that mean and standard deviation."""
    return _normal(ctx, _declared(ctx, shape), element_type_of(dtype), **attributes)


@onnx_op("RandomNormalLike", versions=(1, 22))
@attributes_of(_normal)
def random_normal_like(ctx: Context, data: Output, *, dtype: int | None = None, **attributes: Any) -> Output:
    """Normally distributed numbers in the shape of the input."""
    return _normal(ctx, shape_of(ctx, data), _output_type(dtype, data), **attributes)


@onnx_op("Bernoulli", versions=(15, 22))
def bernoulli(ctx: Context, data: Output, *, dtype: int | None = None, seed: float | None = None) -> Output:
    """1 with the probability that the input holds, otherwise 0."""
    chance = in_type(ctx, data, element_types.f32)
    hit = layers.less(ctx, unit(ctx, shape_of(ctx, data), seed), chance)
    return in_type(ctx, hit, _output_type(dtype, data))


@onnx_op("Multinomial", versions=(7, 22))
def multinomial(
    ctx: Context, data: Output, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Output:
    """Class numbers drawn, with replacement, by unnormalised logarithms of probabilities."""
    element_type = element_type_of(dtype)
    if element_type not in (element_types.i32, element_types.i64):
        raise ctx.invalid(f"dtype must be int32 or int64, but is {element_type}")
    if sample_size < 1:
        raise ctx.invalid(f"sample_size must be positive, but is {sample_size}")
    logits = in_type(ctx, data, element_types.f32)
    # Only differences count; below 0 nothing overflows when it is exponentiated.
    greatest = ctx.emit(reduction.ReduceMax1(keep_dims=True), logits, ctx.constant([1]))
    logits = layers.subtract(ctx, logits, greatest)
    op = randomness.Multinomial13(
        convert_type=element_type, with_replacement=True, log_probs=True, op_seed=_seed(seed), global_seed=0
    )
    return ctx.emit(op, logits, ctx.constant([sample_size]))


def _undropped(ctx: Context, x: Output, mask_type: ElementType) -> tuple[Output, Output | None]:
    """The input, and a mask that is true everywhere."""
    if not ctx.wants(1):
        return x, None
    shape = shape_of(ctx, x)
    return x, ctx.emit(movement.Broadcast3(mode="numpy"), ctx.constant(1, mask_type), shape)


@onnx_op("Dropout", versions=(1, 6))
def dropout_1(ctx: Context, x: Output, *, is_test: int = 0, ratio: float = 0.5) -> tuple[Output, Output | None]:
    """Inference, with ``is_test`` set; training is refused."""
    if not is_test and ratio != 0:
        raise ctx.unsupported("is_test=0 asks for training, whose result is random")
    return _undropped(ctx, x, x.element_type)


@onnx_op("Dropout", versions=(7, 10))
def dropout_7(ctx: Context, x: Output, *, ratio: float = 0.5) -> tuple[Output, Output | None]:
    """Always inference; the mask has the type of the input in version 7, and is boolean in version 10."""
    return _undropped(ctx, x, x.element_type if ctx.version < 10 else element_types.boolean)


@onnx_op("Dropout", versions=(12, 13, 22))
def dropout(
    ctx: Context,
    x: Output,
    ratio: Output | None = None,
    training_mode: Output | None = None,
    *,
    seed: int | None = None,
) -> tuple[Output, Output | None]:
    """Inference unless ``training_mode`` is true.

    In training the share ``ratio`` of the numbers is dropped at random, and the others grow so that the mean stays.
    """
    training = None if training_mode is None else training_mode.type.constant
    share = ctx.constant(0.5, "f32") if ratio is None else in_type(ctx, ratio, element_types.f32)
    share = as_scalar(ctx, share, "the ratio")
    constant = share.type.constant
    inference = training_mode is None or (training is not None and not training.any())
    if training_mode is None or inference or (constant is not None and not constant.any()):
        return _undropped(ctx, x, element_types.boolean)
    if constant is not None and not 0 <= float(constant) < 1:
        raise ctx.invalid(f"the ratio must be from 0 to below 1, but is {float(constant)}")
    trains = as_scalar(ctx, training_mode, "training_mode")
    # Nothing is less than 0, so without training everything is kept, and nothing grows.
    dropped = layers.select(ctx, trains, share, ctx.constant(0, "f32"))
    mask = layers.greater_equal(ctx, unit(ctx, shape_of(ctx, x), seed), dropped)
    scalar_one = ctx.constant(1, "f32")
    growth = layers.divide(ctx, scalar_one, layers.subtract(ctx, scalar_one, dropped))
    grown = layers.multiply(ctx, x, in_type(ctx, growth, x.element_type))
    return layers.select(ctx, mask, grown, ctx.like(0, x)), mask
