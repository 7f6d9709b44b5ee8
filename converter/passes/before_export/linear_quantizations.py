"""Fuse the layers that the IR has for QuantizeLinear and DequantizeLinear, of all elements or along an axis.

x -> Divide(scale) -> Round -> Add(zero point) -> Clamp to the limits of the type -> Convert
codes -> Convert -> Subtract(zero point) -> Multiply(scale)
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Array, ElementType, Node, Output, PartialShape, element_types
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Add1, Convert1, Divide1, Round5, Subtract1
from ir_runtime.rewriting import Builder, Replacement, anything, either, fail, layer

from .operators import emit_operator, may_use
from .registry import before_export

_CODES = {"u8": 10, "i8": 10, "u16": 21, "i16": 21, "u4": 21, "i4": 21}
"""Types of codes, and the first opset that quantizes to them."""
_HALF = 19
"""The first opset that quantizes float16."""


def _to_even(value: Output) -> str | None:
    return None if value.node.op.mode == "half_to_even" else "rounds otherwise"  # type: ignore[attr-defined]


_ROUNDED = layer(Round5, layer(Divide1, anything("x"), anything("scale")), check=_to_even)
_QUANTIZED = layer(Convert1, layer(Clamp1, either(layer(Add1, _ROUNDED, anything("zero")), _ROUNDED), name="clamp"))
_OTHER = fail("its layers are not those of a quantization to codes that the opset has")


@before_export.replaces("quantize_linear")
def quantize_linear(builder: Builder, node: Node) -> Replacement:
    """Replace the Convert to codes by QuantizeLinear."""
    match, codes = _QUANTIZED.find(node.outputs[0]), node.outputs[0].element_type
    clamp, zero = match.node("clamp").op, match["zero"] if "zero" in match else None  # noqa: SIM401
    assert isinstance(clamp, Clamp1)
    if not _has_opset(codes, match["clamp"].element_type) or (clamp.min, clamp.max) != codes.limits:
        return _OTHER
    return _fuse(builder, node, "QuantizeLinear", match["x"], match["scale"], zero, codes)


@before_export.replaces("dequantize_linear")
def dequantize_linear(builder: Builder, node: Node) -> Replacement:
    """Replace the product with the scale by DequantizeLinear."""
    for difference, scale in node.orders:
        zero = None
        if isinstance(difference.node.op, Subtract1):
            difference, zero = difference.node.inputs
        if not isinstance(difference.node.op, Convert1) or _constant(scale) is None:
            continue
        codes = difference.node.inputs[0]
        if codes.node.op.role == "parameter" or not _has_opset(codes.element_type, difference.element_type):
            continue  # what an image is multiplied by is no step of codes
        return _fuse(builder, node, "DequantizeLinear", codes, scale, zero, codes.element_type)
    return _OTHER


def _has_opset(codes: ElementType, numbers: ElementType) -> bool:
    """Return whether ONNX's operators quantize between these types in the opset."""
    least = _CODES.get(codes.name)
    if least is None or numbers not in (element_types.f32, element_types.f16):
        return False
    return may_use(max(least, _HALF if numbers is element_types.f16 else 0))


def _fuse(
    builder: Builder, node: Node, op_type: str, x: Output, scale: Output, zero: Output | None, codes: ElementType
) -> Replacement:
    """Replace the layer by the operator of a constant scale and zero point, one for all elements or of an axis."""
    factors, shape = _constant(scale), node.outputs[0].shape
    points = np.zeros((), np.int64) if zero is None else _constant(zero)
    if factors is None or points is None or str(shape) != str(x.shape) or not codes.holds(points):
        return fail("the scale or the zero point is computed, or of another shape or type")
    axis = _axis(shape, factors, points)
    if axis is None or (axis >= 0 and not may_use(13)):
        return fail("the scale or the zero point differs along several axes, or along one before opset 13")
    count = max(factors.size, points.size)
    size = () if axis < 0 else (count,)
    step, offset = (np.broadcast_to(parameter.reshape(-1), (count,)).reshape(size) for parameter in (factors, points))
    zeros = None
    if op_type == "QuantizeLinear" or offset.any():
        zeros = builder.constant(offset.astype(codes.dtype), codes)
    inputs = [x, builder.constant(step, scale.element_type), zeros]
    return emit_operator(builder, op_type, inputs, node.outputs, axis=axis if axis >= 0 else None)


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
