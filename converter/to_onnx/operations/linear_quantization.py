"""Fuse the layers that the IR has for QuantizeLinear and DequantizeLinear.

x -> Divide(scale) -> Round -> Add(zero point) -> Clamp to the limits of the type -> Convert
codes -> Convert -> Subtract(zero point) -> Multiply(scale)
"""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_idiom
from ir_runtime.graph import Array, ElementType, Operation, Output, PartialShape, element_types
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Multiply1, Round5, Subtract1

_CODES = {"u8": 10, "i8": 10, "u16": 21, "i16": 21, "u4": 21, "i4": 21}
"""Types of codes, and the first opset that quantizes to them."""
_HALF = 19
"""The first opset that quantizes float16."""


@ir_idiom(Convert1)
def quantize_linear(ctx: Context, op: Operation) -> Value | None:
    """QuantizeLinear, of all elements or along an axis"""
    codes = ctx.node.outputs[0].element_type
    clamp = ctx.node.inputs[0].node
    if not isinstance(clamp.op, Clamp1) or not _is_written(ctx, codes, clamp.outputs[0].element_type):
        return None
    low, high = codes.limits
    rounded, zero = clamp.inputs[0], None
    if isinstance(rounded.node.op, Add1):
        rounded, zero = rounded.node.inputs
        zero, rounded = (rounded, zero) if isinstance(zero.node.op, Round5) else (zero, rounded)
    steps = rounded.node
    if (clamp.op.min, clamp.op.max) != (low, high) or not isinstance(steps.op, Round5):
        return None
    quotient = steps.inputs[0].node
    if steps.op.mode != "half_to_even" or not isinstance(quotient.op, Divide1):
        return None
    x, scale = quotient.inputs
    return _write(ctx, "QuantizeLinear", x, scale, zero, codes, codes)


@ir_idiom(Multiply1)
def dequantize_linear(ctx: Context, op: Operation) -> Value | None:
    """DequantizeLinear, of all elements or along an axis"""
    for difference, scale in ctx.node.orders:
        zero = None
        if isinstance(difference.node.op, Subtract1):
            difference, zero = difference.node.inputs
        if not isinstance(difference.node.op, Convert1) or _constant(scale) is None:
            continue
        codes = difference.node.inputs[0]
        if codes.node.op.role == "parameter" or not _is_written(ctx, codes.element_type, difference.element_type):
            continue  # what an image is multiplied by is no step of codes
        return _write(ctx, "DequantizeLinear", codes, scale, zero, codes.element_type, scale.element_type)
    return None


def _is_written(ctx: Context, codes: ElementType, numbers: ElementType) -> bool:
    """True if ONNX's operators quantize between these types in the opset."""
    least = _CODES.get(codes.name)
    if least is None or numbers not in (element_types.f32, element_types.f16):
        return False
    return ctx.at_least(max(least, _HALF if numbers is element_types.f16 else 0))


def _write(
    ctx: Context, operator: str, x: Output, scale: Output, zero: Output | None, codes: ElementType, type: ElementType
) -> Value | None:
    """The operator of a constant scale and zero point; None where these are others than one for all, or of an axis."""
    factors, shape = _constant(scale), ctx.node.outputs[0].shape
    points = np.zeros((), np.int64) if zero is None else _constant(zero)
    if factors is None or points is None or str(shape) != str(x.shape) or not codes.holds(points):
        return None
    axis = _axis(shape, factors, points)
    if axis is None or (axis >= 0 and not ctx.at_least(13)):
        return None
    count = max(factors.size, points.size)
    size = () if axis < 0 else (count,)
    step, offset = (np.broadcast_to(parameter.reshape(-1), (count,)).reshape(size) for parameter in (factors, points))
    zeros = (
        None if operator == "DequantizeLinear" and not offset.any() else ctx.constant(offset.astype(codes.dtype), codes)
    )
    along = axis if axis >= 0 else None
    return ctx.emit(operator, ctx.value(x), ctx.constant(step, scale.element_type), zeros, type=type, axis=along)


def _constant(value: Output) -> Array | None:
    """The elements of a constant, which may be stored in another type; None for what is computed at run time."""
    constant = value.type.constant
    if constant is not None or not isinstance(value.node.op, Convert1):
        return constant
    stored = value.node.inputs[0].type.constant
    return None if stored is None else stored.astype(value.element_type.dtype)


def _axis(shape: PartialShape, *values: Array) -> int | None:
    """The axis along which values differ; -1 where there is one for all elements, None for everything else."""
    if all(value.size == 1 for value in values):
        return -1 if not shape.has_rank or all(value.ndim <= shape.rank for value in values) else None
    axes = set()
    for value in values:
        if value.size == 1:
            continue
        if not shape.has_rank or value.ndim > shape.rank or value.size != max(value.shape):
            return None
        axis = shape.rank - value.ndim + int(np.argmax(value.shape))
        if not shape[axis].is_static or shape[axis].value != value.size:
            return None
        axes.add(axis)
    return axes.pop() if len(axes) == 1 else None
