"""The inverse of the error function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.registry import ir_op
from ir_runtime.graph import element_types
from ir_runtime.operations.error_function import END, MIDDLE, OUTER, ErfInv17


def _polynomial(ctx: Context, coefficients: Sequence[float], x: Value) -> Value:
    """Horner's rule, from the highest power down."""
    first, *others = coefficients
    value = ctx.like(first, x)
    for one in others:
        value = ctx.emit("Add", ctx.emit("Mul", value, x), ctx.like(one, x))
    return value


def _ratio(ctx: Context, coefficients: tuple[Sequence[float], Sequence[float]], x: Value) -> Value:
    return ctx.emit("Div", *(_polynomial(ctx, one, x) for one in coefficients))


@ir_op(ErfInv17, local_function=True)
def erf_inv(ctx: Context, op: ErfInv17, x: Value) -> Value:
    """Quotients of polynomials in float64: in the middle, towards the ends and at the ends"""
    half = ctx.emit("Mul", ctx.cast(x, element_types.f64), ctx.constant(np.float64(0.5)))

    def like(number: float) -> Value:
        return ctx.like(number, half)

    reach = ctx.emit("Abs", half)
    squared = ctx.emit("Mul", half, half)
    middle = ctx.emit("Mul", half, _ratio(ctx, MIDDLE, ctx.emit("Sub", like(0.180625), squared)))
    # The depth is infinite at -1 and 1, and NaN beyond.
    depth = ctx.emit("Sqrt", ctx.emit("Neg", ctx.emit("Log", ctx.emit("Sub", like(0.5), reach))))
    outer = _ratio(ctx, OUTER, ctx.emit("Sub", depth, like(1.6)))
    end = _ratio(ctx, END, ctx.emit("Sub", depth, like(5.0)))
    tail = ctx.emit("Where", ctx.emit("Greater", depth, like(5.0)), end, outer)
    tail = ctx.emit("Where", ctx.emit("Equal", reach, like(0.5)), like(np.inf), tail)
    tail = ctx.emit("Mul", tail, ctx.emit("Sign", half))
    is_middle = ctx.emit("LessOrEqual", reach, like(0.425))
    found = ctx.emit("Where", is_middle, middle, tail)
    return ctx.cast(ctx.emit("Div", found, like(np.sqrt(2))), x.element_type)
