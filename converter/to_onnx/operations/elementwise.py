"""Arithmetic, comparison, logic, bits, unary mathematics, conversions and Select."""

from __future__ import annotations

import math

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import unsqueeze
from converter.to_onnx.registry import writes
from ir_runtime.graph import ElementType, Operation, element_types
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.type_promotion import ConvertPromoteTypes14

for _operation in (ir.Equal1, ir.Greater1, ir.Less1, ir.Abs1, ir.Sign1, ir.IsNaN10):
    writes(_operation.type, _operation)
writes("Sub", ir.Subtract1)
writes("Mul", ir.Multiply1)
writes("Neg", ir.Negative1)
writes("Pow", ir.Power1)
writes("Max", ir.Maximum1)
writes("Min", ir.Minimum1)
writes("GreaterOrEqual", ir.GreaterEqual1)
writes("LessOrEqual", ir.LessEqual1)
writes("And", ir.LogicalAnd1)
writes("Or", ir.LogicalOr1)
writes("Xor", ir.LogicalXor2, ir.Xor1)
writes("Not", ir.LogicalNot1)
writes("Mod", ir.Mod1, fmod=1)


@ir_op(ir.NotEqual1)
def not_equal(ctx: Context, op: ir.Binary, a: Value, b: Value) -> Value:
    """Not(Equal)"""
    return ctx.emit("Not", ctx.emit("Equal", a, b))


@ir_op(ir.SquaredDifference1)
def squared_difference(ctx: Context, op: ir.Binary, a: Value, b: Value) -> Value:
    """Mul(d, d) of d = Sub(a, b)"""
    difference = ctx.emit("Sub", a, b)
    return ctx.emit("Mul", difference, difference)


@ir_op(ir.Divide1)
def divide(ctx: Context, op: ir.Divide1, a: Value, b: Value) -> Value:
    """Div, which rounds integers towards zero; one less where the rest is not 0 and has another sign than b"""
    quotient = ctx.emit("Div", a, b)
    if a.element_type.category != "signed" or not op.m_pythondiv or (_is_positive(a) and _is_positive(b)):
        return quotient
    rest = ctx.emit("Mod", a, b, fmod=1)
    zero = ctx.like(0, a)
    is_less = ctx.emit("Less", rest, zero)
    if not _is_positive(b):
        is_more = ctx.emit("And", ctx.emit("Greater", rest, zero), ctx.emit("Less", b, zero))
        is_less = ctx.emit("Or", ctx.emit("And", is_less, ctx.emit("Greater", b, zero)), is_more)
    return ctx.emit("Sub", quotient, ctx.cast(is_less, a.element_type))


def _is_positive(value: Value) -> bool:
    bounds = value.type.known_bounds
    return bounds is not None and bool((bounds.lower >= 0).all())


@ir_op(ir.FloorMod1)
def floor_mod(ctx: Context, op: ir.Binary, a: Value, b: Value) -> Value:
    """Mod; for floats fmod, plus b where that has another sign than b"""
    if not a.element_type.is_real:
        return ctx.emit("Mod", a, b)
    rest = ctx.emit("Mod", a, b, fmod=1)
    zero = ctx.like(0, rest)
    differs = ctx.emit("Xor", ctx.emit("Less", rest, zero), ctx.emit("Less", b, zero))
    has_rest = ctx.emit("Not", ctx.emit("Equal", rest, zero))
    return ctx.emit("Where", ctx.emit("And", differs, has_rest), ctx.emit("Add", rest, b), rest)


def _bitwise(op_type: str, logical: str, operation: type[Operation]) -> None:
    def export(ctx: Context, op: ir.Binary, a: Value, b: Value) -> Value:
        if a.element_type is element_types.boolean:
            return ctx.emit(logical, a, b)
        if ctx.at_least(18):
            return ctx.emit(op_type, a, b)
        return _of_bits(ctx, a.element_type, ctx.emit(logical, _bits(ctx, a), _bits(ctx, b)))

    export.__doc__ = f"{op_type}; of booleans, and before opset 18 of single bits, {logical}"
    ir_op(operation)(export)


_bitwise("BitwiseAnd", "And", ir.BitwiseAnd13)
_bitwise("BitwiseOr", "Or", ir.BitwiseOr13)
_bitwise("BitwiseXor", "Xor", ir.BitwiseXor13)


@ir_op(ir.BitwiseNot13)
def bitwise_not(ctx: Context, op: ir.Unary, x: Value) -> Value:
    """BitwiseNot; of booleans Not, before opset 18 the difference from the number of which all bits are set"""
    if x.element_type is element_types.boolean:
        return ctx.emit("Not", x)
    if ctx.at_least(18):
        return ctx.emit("BitwiseNot", x)
    return ctx.emit("Sub", ctx.like(-1 if x.element_type.category == "signed" else x.element_type.limits[1], x), x)


_WORD = 32


def _bits(ctx: Context, x: Value) -> Value:
    """The bits of whole numbers as booleans, in a new last dimension, the lowest first."""
    wide = ctx.cast(ctx.cast(x, element_types.i64), element_types.u64)
    indices = ctx.constant(np.arange(x.element_type.bits, dtype=np.uint64))
    shifted = ctx.emit("BitShift", unsqueeze(ctx, wide, [-1]), indices, direction="RIGHT")
    return ctx.cast(ctx.emit("Mod", shifted, ctx.constant(2, element_types.u64)), element_types.boolean)


def _of_bits(ctx: Context, element_type: ElementType, bits: Value) -> Value:
    """The whole numbers, as int64, whose bits are in the last dimension, as :func:`_bits` gives them."""
    # onnxruntime's sums of int64 are rounded to 53 bits: each word of 32 bits has its own.
    total: Value | None = None
    for first in reversed(range(0, element_type.bits, _WORD)):
        weights = np.zeros(element_type.bits, np.int64)
        weights[first : first + _WORD] = 1 << np.arange(min(_WORD, element_type.bits - first))
        if element_type.category == "signed" and first + _WORD >= element_type.bits:
            weights[-1] = -weights[-1]  # two's complement
        parts = ctx.emit("Where", bits, ctx.constant(weights), ctx.constant(0))
        word = ctx.emit("ReduceSum", parts, ctx.constant([-1]), keepdims=0)
        total = word if total is None else ctx.emit("Add", ctx.emit("Mul", total, ctx.constant(1 << _WORD)), word)
    assert total is not None
    return total


@ir_op(ir.BitwiseLeftShift15)
def left_shift(ctx: Context, op: ir.Binary, a: Value, b: Value) -> Value:
    """BitShift of the bits as an unsigned type"""
    unsigned = element_types.element_type(f"u{a.element_type.bits}")
    return ctx.emit("BitShift", ctx.cast(a, unsigned), ctx.cast(b, unsigned), direction="LEFT")


@ir_op(ir.BitwiseRightShift15)
def right_shift(ctx: Context, op: ir.Binary, a: Value, b: Value) -> Value:
    """BitShift; of signed types, whose sign is shifted in, ~(~a >> b) where a is negative"""
    element_type = a.element_type
    if element_type.category == "unsigned":
        return ctx.emit("BitShift", a, b, direction="RIGHT")
    unsigned = element_types.element_type(f"u{element_type.bits}")
    is_negative = ctx.emit("Less", a, ctx.like(0, a))
    # -1 - a has all bits of a flipped.
    flipped = ctx.emit("Where", is_negative, ctx.emit("Sub", ctx.like(-1, a), a), a)
    shifted = ctx.emit("BitShift", ctx.cast(flipped, unsigned), ctx.cast(b, unsigned), direction="RIGHT")
    shifted = ctx.cast(shifted, element_type)
    return ctx.emit("Where", is_negative, ctx.emit("Sub", ctx.like(-1, shifted), shifted), shifted)


@ir_op(ir.Sqrt1, ir.Exp1, ir.Log1, ir.Erf1)
@ir_op(ir.Sin1, ir.Cos1, ir.Tan1, ir.Asin1, ir.Acos1, ir.Atan1)
@ir_op(ir.Sinh1, ir.Cosh1, ir.Tanh1, ir.Asinh4, ir.Acosh4, ir.Atanh4)
def unary_of_floats(ctx: Context, op: ir.Unary, x: Value) -> Value:
    """The operator of the same name; of integers by way of floats"""
    element_type = x.element_type
    if element_type.is_real:
        return ctx.emit(op.type, x)
    wide = element_types.f64 if element_type.bits > 16 else element_types.f32
    return ctx.emit(op.type, ctx.cast(x, wide))


@ir_op(ir.Ceiling1, ir.Floor1)
def rounded_towards_infinity(ctx: Context, op: ir.Unary, x: Value) -> Value:
    """Ceil or Floor; nothing for integers"""
    return ctx.emit("Ceil" if isinstance(op, ir.Ceiling1) else "Floor", x) if x.element_type.is_real else x


@ir_op(ir.Round5)
def round_(ctx: Context, op: ir.Round5, x: Value) -> Value:
    """Round; away from zero by the whole part, and one more where the rest is at least a half"""
    if not x.element_type.is_real:
        return x
    if op.mode == "half_to_even":
        return ctx.emit("Round", x)
    size = ctx.emit("Abs", x)
    whole = ctx.emit("Floor", size)
    is_up = ctx.emit("GreaterOrEqual", ctx.emit("Sub", size, whole), ctx.like(0.5, x))
    return ctx.emit("Mul", ctx.emit("Sign", x), ctx.emit("Add", whole, ctx.cast(is_up, x.element_type)))


@ir_op(ir.IsInf10)
def is_inf(ctx: Context, op: ir.IsInf10, x: Value) -> Value:
    """IsInf"""
    if not (op.detect_negative or op.detect_positive):
        return ctx.emit("And", ctx.emit("IsNaN", x), ctx.emit("Equal", x, x))
    return ctx.emit("IsInf", x, detect_negative=int(op.detect_negative), detect_positive=int(op.detect_positive))


@ir_op(ir.IsFinite10)
def is_finite(ctx: Context, op: ir.Unary, x: Value) -> Value:
    """Less(Abs(x), infinity), which NaN is not, either"""
    return ctx.emit("Less", ctx.emit("Abs", x), ctx.like(math.inf, x))


@ir_op(ir.Convert1)
def convert(ctx: Context, op: ir.Convert1, x: Value) -> Value:
    """Cast; of floats to types of 4 bits by way of int32, which cuts fractions off instead of rounding them"""
    element_type = op.destination_type
    if element_type.is_packed and element_type.is_integral and x.element_type.is_real:
        x = ctx.cast(x, element_types.i32)
    return ctx.cast(x, element_type)


@ir_op(ir.ConvertLike1)
def convert_like(ctx: Context, op: ir.ConvertLike1, x: Value, like: Value) -> Value:
    """Cast to the type of the second input"""
    return ctx.cast(x, like.element_type)


@ir_op(ir.Select1)
def select(ctx: Context, op: ir.Select1, condition: Value, then: Value, otherwise: Value) -> Value:
    """Where"""
    return ctx.emit("Where", condition, then, otherwise)


@ir_op(ConvertPromoteTypes14)
def convert_promote_types(ctx: Context, op: ConvertPromoteTypes14, a: Value, b: Value) -> list[Value]:
    """Cast of both to the type that inference found"""
    if ctx.node.outputs[0].element_type.is_dynamic:
        ctx.fail("whether an input is a scalar must be known: the common type follows from it")
    return [a, b]
