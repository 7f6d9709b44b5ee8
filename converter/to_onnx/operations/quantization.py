"""Values with the error of a rounding to few levels."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import known_number
from ir_runtime.graph import Array, ElementType, element_types
from ir_runtime.operations.quantization import FakeConvert13, FakeQuantize1
from ir_runtime.records import record

_OFF_ZERO = 1e-3
"""Largest distance of a zero point from a whole number, in steps."""


@record
class _Grid:
    """The whole numbers that stand for the levels: their type, step, zero point, and axis (None: one for all)."""

    element_type: ElementType
    scale: Array
    zero: Array
    axis: int | None


@ir_op(FakeQuantize1)
def fake_quantize(
    ctx: Context, op: FakeQuantize1, x: Value, low: Value, high: Value, out_low: Value, out_high: Value
) -> Value:
    """QuantizeLinear and DequantizeLinear where zero is a level; else rounding spelled out"""
    limits = low, high, out_low, out_high
    grid = _grid(ctx, op, x, *limits)
    if grid is not None:
        return _quantize(ctx, x, grid)
    if x.element_type.bits < 32:
        x, low, high, out_low, out_high = (ctx.cast(operand, element_types.f32) for operand in (x, *limits))
    steps = ctx.like(op.levels - 1, x)
    index = ctx.emit("Div", ctx.emit("Sub", x, low), ctx.emit("Sub", high, low))
    index = ctx.emit("Round", ctx.emit("Mul", index, steps))
    quantized = ctx.emit("Mul", ctx.emit("Div", index, steps), ctx.emit("Sub", out_high, out_low))
    quantized = ctx.emit("Add", quantized, out_low)
    # Each limit is compared by itself: low may be above high.
    quantized = ctx.emit("Where", ctx.emit("LessOrEqual", x, ctx.emit("Min", low, high)), out_low, quantized)
    return ctx.emit("Where", ctx.emit("Greater", x, ctx.emit("Max", low, high)), out_high, quantized)


def _grid(
    ctx: Context, op: FakeQuantize1, x: Value, low: Value, high: Value, out_low: Value, out_high: Value
) -> _Grid | None:
    """None where the levels are not all numbers of 8 or 16 bits, times a step."""
    limits = [ctx.constant_values(limit) for limit in (low, high, out_low, out_high)]
    if any(limit is None for limit in limits) or op.levels not in (256, 65536) or not x.shape.has_rank:
        return None
    bottom, top, to_bottom, to_top = (np.asarray(limit, np.float64) for limit in limits)
    if not (np.array_equal(bottom, to_bottom) and np.array_equal(top, to_top)) or not (top > bottom).all():
        return None
    scale = (top - bottom) / (op.levels - 1)
    zero = -bottom / scale
    if (np.abs(zero - np.rint(zero)) > _OFF_ZERO).any() or (zero < -0.5).any() or (zero > op.levels - 0.5).any():
        return None
    wide = op.levels > 256
    if wide and not ctx.at_least(21):
        return None
    zero = np.rint(zero)
    signed = bool((zero == op.levels // 2).all())
    element_type = element_types.element_type(f"{'i' if signed else 'u'}{16 if wide else 8}")
    if signed:
        zero = zero - op.levels // 2
    if scale.size == 1:
        return _Grid(element_type, scale.reshape(()), zero.reshape(()), None)
    shape = (1,) * (x.shape.rank - scale.ndim) + scale.shape
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if len(axes) != 1 or len(shape) != x.shape.rank or scale.shape != zero.shape:
        return None
    return _Grid(element_type, scale.reshape(-1), zero.reshape(-1), axes[0])


def _quantize(ctx: Context, x: Value, grid: _Grid) -> Value:
    scale, zero = ctx.like(grid.scale, x), ctx.constant(grid.zero, grid.element_type)
    constant = ctx.constant_values(x)
    if constant is not None:
        # Weights are stored as the whole numbers that they become.
        shape = [1] * constant.ndim
        if grid.axis is not None:
            shape[grid.axis] = -1
        low, high = grid.element_type.limits
        steps = np.rint(constant.astype(np.float64) / grid.scale.reshape(shape) + grid.zero.reshape(shape))
        whole = ctx.constant(np.clip(steps, low, high), grid.element_type)
    else:
        whole = ctx.emit("QuantizeLinear", x, scale, zero, type=grid.element_type, axis=grid.axis)
    return ctx.emit("DequantizeLinear", whole, scale, zero, type=x.element_type, axis=grid.axis)


@ir_op(FakeConvert13)
def fake_convert(ctx: Context, op: FakeConvert13, x: Value, scale: Value, shift: Value | None = None) -> Value:
    """Cast to 8 bits (opset 19) and back, between Mul and Div"""
    ctx.opsets.require(19, f"the element type {op.destination_type}")
    if x.element_type.bits < 32:
        x, scale = ctx.cast(x, element_types.f32), ctx.cast(scale, element_types.f32)
        shift = None if shift is None else ctx.cast(shift, element_types.f32)
    greatest = 448.0 if op.destination_type is element_types.f8e4m3 else 57344.0
    if shift is not None and known_number(ctx, shift) == 0:
        shift = None
    moved = ctx.emit("Mul", x, scale)
    if shift is not None:
        moved = ctx.emit("Sub", moved, shift)
    limited = ctx.emit("Clip", moved, ctx.like(-greatest, moved), ctx.like(greatest, moved))
    back = ctx.cast(ctx.cast(limited, op.destination_type), x.element_type)
    if shift is not None:
        back = ctx.emit("Add", back, shift)
    return ctx.emit("Div", back, scale)
