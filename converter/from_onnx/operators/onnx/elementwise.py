"""ONNX's arithmetic, logic, bits and unary mathematics, its comparisons, Where and Clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_form, onnx_op, unary
from ir_runtime.graph import Dimension, Operation, Output, element_types
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations import activation, movement
from ir_runtime.operations import elementwise as ir
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type

Unary = Callable[[Context, Output], Output]
Binary = Callable[[Context, Output, Output], Output]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


# --- registration of operators with one input, two inputs, any number of inputs ---


def _two_inputs(op_type: str, body: Binary, versions: Sequence[int], limited: Sequence[int] = ()) -> None:
    """``limited`` versions broadcast only if asked to."""

    def translate(ctx: Context, a: Output, b: Output) -> Output:
        return body(ctx, a, b)

    def translate_limited(ctx: Context, a: Output, b: Output, *, axis: int | None = None, broadcast: int = 0) -> Output:
        return body(ctx, a, aligned(ctx, a, b, axis, bool(broadcast)))

    onnx_op(op_type, versions=versions)(translate)
    if limited:
        onnx_op(op_type, versions=limited)(translate_limited)


def _fit(dimension: Dimension, right: Dimension) -> bool:
    return dimension.merge(right) is not None or Dimension(1, 1) in (dimension, right)


def aligned(ctx: Context, a: Output, b: Output, axis: int | None, broadcast: bool) -> Output:
    """``b`` with dimensions added so that NumPy's broadcasting places it where opsets below 7 do.

    Without ``broadcast`` the shapes must be equal. With it the dimensions of ``b`` are those of
    ``a`` from ``axis`` on, by default the last ones; the result has the shape of ``a``.
    """
    left, right = ctx.declared(a).shape, ctx.declared(b).shape
    if not broadcast:
        if left.merge(right) is None:
            wrong = f"without 'broadcast' the inputs must have one shape, but are {left} and {right}"
            if left.rank != right.rank or not all(_fit(p, q) for p, q in zip(left, right)):
                raise ctx.invalid(wrong)
            ctx.tolerate(wrong)
        return b
    if b.shape.has_rank and b.shape.element_count().high == 1:
        return ctx.emit(movement.Reshape1(), b, ctx.constant([], "i64")) if b.shape.rank else b
    rank_b = ctx.rank(b, "the second input")
    if axis is not None:
        rank_a = ctx.rank(a, "the first input")
        start = axis + rank_a if axis < 0 else axis
        after = rank_a - start - rank_b
        if start < 0 or after < 0:
            raise ctx.invalid(f"axis {axis} does not place {b.shape} within {a.shape}")
        if after:
            b = ctx.emit(movement.Unsqueeze1(), b, ctx.constant(np.arange(rank_b, rank_b + after)))
    right = ctx.declared(b).shape
    if left.has_rank:
        for mine, other in zip(reversed(left.dims), reversed(right.dims)):
            if mine.merge(other) is None and not other.contains(1):
                raise ctx.invalid(f"the second input {right} does not fit into the first, {left}")
    return b


def _any_number(
    op_type: str, body: Binary, versions: Sequence[int],
    finish: Callable[[Context, Output, int], Output] | None = None, also: Sequence[str] = (),
) -> None:  # fmt: skip
    """Versions before 8 do not broadcast."""

    def reduce(ctx: Context, values: Sequence[Output]) -> Output:
        if not values:
            raise ctx.invalid("needs at least one input")
        total = values[0]
        for value in values[1:]:
            total = body(ctx, total, value)
        if finish:
            total = finish(ctx, total, len(values))
        return total

    def translate(ctx: Context, *values: Output) -> Output:
        return reduce(ctx, values)

    def translate_equal(ctx: Context, *values: Output) -> Output:
        for value in values[1:]:
            aligned(ctx, values[0], value, None, broadcast=False)
        return reduce(ctx, values)

    onnx_op(op_type, versions=versions, also=also)(translate)
    onnx_op(op_type, versions=(1, 6), also=also)(translate_equal)


def _layer(cls: type[Operation]) -> Binary:
    return lambda ctx, a, b: ctx.emit(cls(), a, b)


# --- arithmetic ---


def _divide(ctx: Context, a: Output, b: Output) -> Output:
    """Integers are rounded towards zero."""
    return layers.truncated_quotient(ctx, a, b) if a.element_type.is_integral else layers.divide(ctx, a, b)


def _mean(ctx: Context, total: Output, count: int) -> Output:
    return total if count == 1 else layers.divide(ctx, total, ctx.like(count, total))


_two_inputs("Add", _layer(ir.Add1), (7, 13, 14), (1, 6))
_two_inputs("Sub", _layer(ir.Subtract1), (7, 13, 14), (1, 6))
_two_inputs("Mul", _layer(ir.Multiply1), (7, 13, 14), (1, 6))
_two_inputs("Div", _divide, (7, 13, 14), (1, 6))
_any_number("Sum", _layer(ir.Add1), (8, 13), also=_INTEGERS)
_any_number("Mean", _layer(ir.Add1), (8, 13), finish=_mean)
_any_number("Max", _layer(ir.Maximum1), (8, 12, 13))
_any_number("Min", _layer(ir.Minimum1), (8, 12, 13))


def _power(ctx: Context, base: Output, exponent: Output) -> Output:
    """The result has the type of the base, whatever the type of the exponent."""
    element_type = base.element_type
    if not element_type.is_integral:
        return layers.power(ctx, base, in_type(ctx, exponent, element_type))
    if exponent.element_type.is_integral:
        return layers.power(ctx, base, in_type(ctx, exponent, element_type))
    raised = layers.power(ctx, in_type(ctx, base, element_types.f64), in_type(ctx, exponent, element_types.f64))
    return in_type(ctx, raised, element_type)


_two_inputs("Pow", layers.power, (), (1,))
_two_inputs("Pow", _power, (7, 12, 13, 15))


def _modulo(ctx: Context, a: Output, b: Output, *, fmod: Literal[0, 1] = 0) -> Output:
    """With ``fmod`` the sign of ``a``, otherwise (for integers, up to opset 27) that of ``b``."""
    integral = a.element_type.is_integral
    if fmod:
        return ctx.emit(ir.Mod1(), a, b)
    if integral:
        return ctx.emit(ir.FloorMod1(), a, b)
    if ctx.version < 28:
        ctx.tolerate("floating-point inputs need fmod=1 before opset 28, which gives them the divisor's sign")
    return _floor_modulo(ctx, a, b)


def _floor_modulo(ctx: Context, a: Output, b: Output) -> Output:
    """Python's remainder of floats: fmod, plus ``b`` where the signs differ; the result has the sign of ``b``."""
    left = ctx.emit(ir.Mod1(), a, b)
    zero = ctx.like(0, a)
    opposite = ctx.emit(ir.LogicalXor2(), layers.less(ctx, left, zero), layers.less(ctx, b, zero))
    wrong_sign = layers.logical_and(ctx, opposite, layers.not_equal(ctx, left, zero))
    return layers.select(ctx, wrong_sign, layers.add(ctx, left, b), left)


onnx_op("Mod", versions=(10, 13, 28))(_modulo)


# --- comparison and logic ---


_two_inputs("Equal", _layer(ir.Equal1), (7, 11, 13, 19), (1,))
_two_inputs("Less", _layer(ir.Less1), (7, 9, 13), (1,))
_two_inputs("LessOrEqual", _layer(ir.LessEqual1), (12, 16))
_two_inputs("Greater", _layer(ir.Greater1), (7, 9, 13), (1,))
_two_inputs("GreaterOrEqual", _layer(ir.GreaterEqual1), (12, 16))
_two_inputs("And", _layer(ir.LogicalAnd1), (7,), (1,))
_two_inputs("Or", _layer(ir.LogicalOr1), (7,), (1,))
_two_inputs("Xor", _layer(ir.LogicalXor2), (7,), (1,))
onnx_op("Not", versions=(1,))(unary(ir.LogicalNot1))


def _is_nan(ctx: Context, x: Output) -> Output:
    return ctx.emit(ir.IsNaN10(), in_type(ctx, x, element_types.f32) if x.element_type.bits < 16 else x)


onnx_op("IsNaN", versions=(9, 13, 20))(_is_nan)


@onnx_op("IsInf", versions=(10, 20))
def is_inf(ctx: Context, x: Output, *, detect_negative: int = 1, detect_positive: int = 1) -> Output:
    """Where x is infinite, with a sign that is to be detected."""
    wide = in_type(ctx, x, element_types.f32) if x.element_type.bits < 16 else x
    return ctx.emit(ir.IsInf10(detect_negative=bool(detect_negative), detect_positive=bool(detect_positive)), wide)


@onnx_form("IsFinite", versions=(1,))
def is_finite(ctx: Context, x: Output) -> Output:
    """Where x is neither infinite nor NaN. ONNX has no such operator; OpenVINO's importer takes it besides IsInf."""
    if not x.element_type.is_real:
        raise ctx.invalid(
            f"ONNX has no operator of that name; it is read for floating-point data, but got {x.element_type}"
        )
    ctx.tolerate("ONNX has no operator of that name; it is read as: neither infinite nor NaN")
    wide = in_type(ctx, x, element_types.f32) if x.element_type.bits < 16 else x
    return ctx.emit(ir.IsFinite10(), wide)


# --- bits ---


@onnx_op("BitShift", versions=(11, 28))
def bit_shift(ctx: Context, x: Output, y: Output, *, direction: Literal["LEFT", "RIGHT"]) -> Output:
    """x shifted by y bits. A shift by all its bits, or by a negative number, leaves nothing but the sign."""
    element_type = x.element_type
    most = ctx.like(element_type.bits - 1, x)
    inside = _is_limited(y, element_type.bits - 1)
    amount = y
    if not inside:
        # Shifts by the whole width or more; a negative number is one of these as an unsigned number.
        beyond = layers.greater(ctx, y, most)
        if element_type.is_signed:
            beyond = layers.logical_or(ctx, beyond, layers.less(ctx, y, ctx.like(0, y)))
        amount = layers.select(ctx, beyond, most, y)
    shift = ir.BitwiseLeftShift15() if direction == "LEFT" else ir.BitwiseRightShift15()
    shifted = ctx.emit(shift, x, amount)
    if inside or (direction == "RIGHT" and element_type.is_signed):
        return shifted
    return layers.select(ctx, beyond, ctx.like(0, x), shifted)


def _is_limited(y: Output, most: int) -> bool:
    """True if all numbers are from 0 to ``most``: by their bounds, or by a Where that puts ``most`` for others."""
    bounds = y.type.known_bounds
    if bounds is not None and (bounds.lower >= 0).all() and (bounds.upper <= most).all():
        return True
    while isinstance(y.node.op, ir.Convert1) and y.node.inputs[0].element_type.is_integral:
        y = y.node.inputs[0]
    if not isinstance(y.node.op, ir.Select1) or not y.element_type.is_integral:
        return False
    beyond, limit, shift_amount = y.node.inputs
    checks = [source.node for source in beyond.node.inputs] if isinstance(beyond.node.op, ir.LogicalOr1) else []
    above, *rest = checks or [beyond.node]
    below = [
        comparison for comparison in rest if isinstance(comparison.op, ir.Less1) and _is_number(comparison.inputs[1], 0)
    ]
    is_above = isinstance(above.op, ir.Greater1) and _is_number(above.inputs[1], most) and _is_number(limit, most)
    compared = [compared_value.inputs[0] for compared_value in (above, *below)]
    # A number that is within the limits is the same in every type that it is converted to.
    is_same = all(_sources(compared_value) & _sources(shift_amount) for compared_value in compared)
    return is_above and is_same and (bool(below) or not compared[0].element_type.is_signed)


def _sources(value: Output) -> set[Output]:
    """A whole number, and what it was converted from."""
    values = {value}
    while isinstance(value.node.op, ir.Convert1) and value.node.inputs[0].element_type.is_integral:
        (value,) = value.node.inputs
        values.add(value)
    return values


def _is_number(value: Output, number: int) -> bool:
    constant = value.type.constant
    return constant is not None and constant.size == 1 and constant.reshape(-1)[0] == number


_two_inputs("BitwiseAnd", _layer(ir.BitwiseAnd13), (18,))
_two_inputs("BitwiseOr", _layer(ir.BitwiseOr13), (18,))
_two_inputs("BitwiseXor", _layer(ir.BitwiseXor13), (18,))
onnx_op("BitwiseNot", versions=(18,))(unary(ir.BitwiseNot13))


# --- one input ---


def _sign(ctx: Context, x: Output) -> Output:
    if x.element_type.is_signed:
        return ctx.emit(ir.Sign1(), x)
    return in_type(ctx, layers.not_equal(ctx, x, ctx.like(0, x)), x.element_type)


def _erf(ctx: Context, x: Output) -> Output:
    """Integers are computed in float32; the result is rounded towards zero."""
    if x.element_type.is_real:
        return ctx.emit(ir.Erf1(), x)
    return in_type(ctx, ctx.emit(ir.Erf1(), in_type(ctx, x, element_types.f32)), x.element_type)


onnx_op("Neg", versions=(1, 6, 13))(unary(ir.Negative1))
onnx_op("Abs", versions=(1, 6, 13))(lambda ctx, x: ctx.emit(ir.Abs1(), x) if x.element_type.is_signed else x)
onnx_op("Sign", versions=(9, 13))(_sign)
onnx_op("Ceil", versions=(1, 6, 13))(unary(ir.Ceiling1))
onnx_op("Floor", versions=(1, 6, 13))(unary(ir.Floor1))
onnx_op("Round", versions=(11, 22))(lambda ctx, x: ctx.emit(ir.Round5(mode="half_to_even"), x))
onnx_op("Sqrt", versions=(1, 6, 13))(unary(ir.Sqrt1))
onnx_op("Reciprocal", versions=(1, 6, 13))(lambda ctx, x: layers.divide(ctx, ctx.like(1, x), x))
onnx_op("Exp", versions=(1, 6, 13))(unary(ir.Exp1))
onnx_op("Log", versions=(1, 6, 13))(unary(ir.Log1))
onnx_op("Tanh", versions=(1, 6, 13))(unary(ir.Tanh1))
onnx_op("Erf", versions=(9, 13))(_erf)
for _cls in (ir.Sin1, ir.Cos1, ir.Tan1, ir.Asin1, ir.Acos1, ir.Atan1):
    onnx_op(_cls.type, versions=(7, 22))(unary(_cls))
for _cls in (ir.Sinh1, ir.Cosh1, ir.Asinh4, ir.Acosh4, ir.Atanh4):
    onnx_op(_cls.type, versions=(9, 22))(unary(_cls))


@onnx_op("Where", versions=(9, 16))
def where(ctx: Context, condition: Output, x: Output, y: Output) -> Output:
    """x where the condition holds, y elsewhere; all three broadcast."""
    return layers.select(ctx, condition, x, y)


@onnx_op("Clip", versions=(11, 12, 13))
def clip(ctx: Context, x: Output, min: Output | None = None, max: Output | None = None) -> Output:
    """Min(max, Max(x, min)), so that ``max`` wins where they contradict; a missing one is the type's limit."""
    element_type = x.element_type
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and bound.shape.has_rank and bound.shape.element_count().low > 1:
            raise ctx.invalid(f"{name} must be a scalar, but has the shape {bound.shape}")
    if element_type.is_real:
        constants = [None if bound is None else bound.type.constant for bound in (min, max)]
        if all(bound is None or values is not None for bound, values in zip((min, max), constants)):
            greatest = float(finfo(element_type).max)
            ends = zip(constants, (-greatest, greatest))
            least, most = (end if values is None else float(values.reshape(-1)[0]) for values, end in ends)
            return ctx.emit(activation.Clamp1(min=least if least < most else most, max=most), x)
    if min is not None:
        x = layers.maximum(ctx, x, as_scalar(ctx, min, "min"))
    return x if max is None else layers.minimum(ctx, x, as_scalar(ctx, max, "max"))


@onnx_op("Clip", versions=(1,))
def clip_1(ctx: Context, x: Output, *, max: float | None = None, min: float | None = None) -> Output:
    """A bound that is not given does not limit."""
    if min is not None and max is not None:
        return ctx.emit(activation.Clamp1(min=min if min < max else max, max=max), x)
    if min is not None:
        return layers.maximum(ctx, x, ctx.like(min, x))
    return x if max is None else layers.minimum(ctx, x, ctx.like(max, x))


@onnx_op("Clip", versions=(6,))
def clip_6(
    ctx: Context, x: Output, *, max: float = 3.4028234663852886e38, min: float = -3.4028234663852886e38
) -> Output:
    """The bounds are attributes."""
    return ctx.emit(activation.Clamp1(min=min if min < max else max, max=max), x)
