"""ONNX's Constant, ConstantOfShape, Identity, Cast and CastLike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.lowering.shapes import given_list
from converter.from_onnx.translation import Context, onnx_op
from converter.from_onnx.translation.values import Value
from converter.onnx_file.messages import DATA_TYPES, SparseTensorProto, TensorProto
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.operations import activation, movement
from ir_runtime.operations import elementwise as ir
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

# --- Constant ---


@onnx_op("Constant", versions=(1, 9))
def constant_1(ctx: Context, *, value: TensorProto) -> Output:
    """The tensor in ``value``."""
    return ctx.stored(value)


_PLAIN = ("value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")


@onnx_op("Constant", versions=(11,), without=_PLAIN)
@onnx_op("Constant", versions=(12, 13, 19, 21, 23, 24, 25))
def constant(
    ctx: Context,
    *,
    value: TensorProto | None = None,
    sparse_value: SparseTensorProto | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Output:
    """Exactly one of the attributes: a tensor, which may be stored sparsely, or a number or text, or a list of them."""
    plain = {
        "value_float": (value_float, element_types.f32),
        "value_floats": (value_floats, element_types.f32),
        "value_int": (value_int, element_types.i64),
        "value_ints": (value_ints, element_types.i64),
        "value_string": (value_string, element_types.string),
        "value_strings": (value_strings, element_types.string),
    }
    names_present = [name for name, (attribute_value, _) in plain.items() if attribute_value is not None]
    names_present += [
        name
        for name, attribute_value in (("value", value), ("sparse_value", sparse_value))
        if attribute_value is not None
    ]
    if len(names_present) != 1:
        raise ctx.invalid(f"needs exactly one attribute, but has {', '.join(names_present) or 'none'}")
    if sparse_value is not None:
        return ctx.stored(sparse_value)
    if value is not None:
        return ctx.stored(value)
    attribute, element_type = plain[names_present[0]]
    return ctx.constant(attribute, element_type)


# --- ConstantOfShape ---


@onnx_op("ConstantOfShape", versions=(9, 20, 21, 23, 24, 25))
def constant_of_shape(ctx: Context, shape: Output, *, value: TensorProto | None = None) -> Output:
    """The single element of ``value`` (0 of type float32 by default), repeated to ``shape``."""
    element = ctx.constant(0, "f32") if value is None else ctx.stored(value)
    if element.shape.element_count().value != 1:
        raise ctx.invalid(f"value must have one element, but has the shape {element.shape}")
    shape = given_list(ctx, shape, "the shape")
    dimensions = shape.type.constant
    if dimensions is not None and dimensions.size and dimensions.min() < 0:
        raise ctx.invalid(f"the shape {dimensions.tolist()} has a negative dimension")
    scalar = ctx.emit(movement.Reshape1(), element, ctx.constant([]))
    if shape.shape.has_rank and shape.shape[0].high == 0:
        return scalar
    return ctx.emit(movement.Broadcast3(mode="numpy"), scalar, shape)


# --- Identity ---


@onnx_op("Identity", versions=(1, 13, 14, 16, 19, 21, 23, 24, 25), takes_values=True)
def identity(ctx: Context, x: Value) -> Value:
    """The input, which may be a sequence or an optional."""
    return x


# --- Cast ---

_Rounding = Literal["up", "down", "nearest"]

_MAX_FINITE = {element_types.f8e4m3: 448.0, element_types.f8e5m2: 57344.0}
"""The greatest finite number of each type; a saturating conversion limits to it."""


def _cast(ctx: Context, x: Output, element_type: ElementType, saturate: bool = True, round_mode: str = "up") -> Output:
    source = x.element_type
    if source is element_type:
        return x
    if element_types.string in (source, element_type):
        return _cast_of_strings(ctx, x, element_type)
    if element_type is element_types.f8e8m0:
        return _cast_to_power_of_two(ctx, x, saturate, round_mode)
    if element_type in _MAX_FINITE:
        wide = in_type(ctx, x, element_types.f32)
        most = _MAX_FINITE[element_type]
        return in_type(ctx, _limit(ctx, wide, -most, most) if saturate else wide, element_type)
    if element_type is element_types.boolean:
        return in_type(ctx, x, element_type)
    if element_type.is_packed and source.is_integral and isinstance(x.node.op, ir.Convert1):
        # Numbers whose fraction was cut off: the conversion to these types cuts it off itself.
        (whole,) = x.node.inputs
        x = whole if whole.element_type.is_real and whole.element_type.bits >= 16 else x
        source = x.element_type
    if element_type.is_packed or (source.bits < 16 and source.is_real and not element_type.is_real):
        x = in_type(ctx, x, element_types.f32)
    return in_type(ctx, x, element_type)


def _limit(ctx: Context, x: Output, least: float, most: float) -> Output:
    """x within [least, most]; NaN stays NaN."""
    limited = ctx.emit(activation.Clamp1(min=least, max=most), x)
    return layers.select(ctx, ctx.emit(ir.IsNaN10(), x), x, limited)


def _cast_to_power_of_two(ctx: Context, x: Output, saturate: bool, round_mode: str) -> Output:
    """To f8e8m0, a power of two from 2^-127 to 2^127 or NaN."""
    element_type = element_types.f8e8m0
    if not saturate:
        raise ctx.unsupported("the IR has no conversion to float8e8m0 that does not saturate")
    wide = _limit(ctx, in_type(ctx, x, element_types.f32), 2.0**-127, 2.0**127)
    nearest = in_type(ctx, in_type(ctx, wide, element_type), element_types.f32)
    if round_mode == "nearest":  # the IR rounds the middle to the even exponent, ONNX up
        off = ctx.emit(ir.GreaterEqual1(), wide, layers.multiply(ctx, nearest, ctx.like(1.5, wide)))
        neighbour = layers.multiply(ctx, nearest, ctx.like(2, wide))
    elif round_mode == "up":
        off = layers.less(ctx, nearest, wide)
        neighbour = layers.multiply(ctx, nearest, ctx.like(2, wide))
    else:
        off = layers.greater(ctx, nearest, wide)
        neighbour = layers.multiply(ctx, nearest, ctx.like(0.5, wide))
    return in_type(ctx, layers.select(ctx, off, neighbour, nearest), element_type)


def _cast_of_strings(ctx: Context, x: Output, element_type: ElementType) -> Output:
    """Constant texts are converted here; OpenVINO has no conversion of texts."""
    values = x.type.constant
    if values is None or element_type is element_types.string:
        raise ctx.unsupported(f"the IR does not convert {x.element_type} to {element_type}")
    numbers = []
    for text in values.reshape(-1).tolist():
        try:
            numbers.append(float(text) if element_type.is_real else int(text))
        except ValueError as error:
            raise ctx.invalid(f"{text!r} is not a number of type {element_type}") from error
    return ctx.constant(
        np.array(numbers, np.float64 if element_type.is_real else np.int64).reshape(values.shape), element_type
    )


@onnx_op("Cast", versions=(1,))
def cast_1(ctx: Context, x: Output, *, to: str) -> Output:
    """``to`` is the type's name."""
    if to not in DATA_TYPES:
        raise ctx.invalid(f"{to!r} is not the name of an element type")
    return _cast(ctx, x, element_type_of(DATA_TYPES[to]))


@onnx_op("Cast", versions=(6, 9, 13), without=("saturate", "round_mode"))
@onnx_op("Cast", versions=(19, 21, 23), without=("round_mode",))
@onnx_op("Cast", versions=(24, 25, 28))
def cast(ctx: Context, x: Output, *, to: int, saturate: int = 1, round_mode: _Rounding = "up") -> Output:
    """``to`` is the type's number.

    With ``saturate`` numbers beyond the range of an 8-bit float become its greatest number, else infinity or NaN;
    ``round_mode`` is for conversions to float8e8m0.
    """
    return _cast(ctx, x, element_type_of(to), bool(saturate), round_mode)


@onnx_op("CastLike", versions=(15,), without=("saturate", "round_mode"))
@onnx_op("CastLike", versions=(19, 21, 23), without=("round_mode",))
@onnx_op("CastLike", versions=(24, 25))
def cast_like(
    ctx: Context, x: Output, target_type: Output, *, saturate: int = 1, round_mode: _Rounding = "up"
) -> Output:
    """As Cast of that version, to the type of the second input."""
    return _cast(ctx, x, target_type.element_type, bool(saturate), round_mode)
