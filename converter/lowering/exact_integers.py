"""Integer arithmetic that stays exact in an engine that divides, compares and raises in float32.

OpenVINO's CPU plug-in computes 32- and 64-bit integers as i32. Sums, products, maxima, shifts and bits
are exact there; division, remainder, comparison and powers go through float32, which holds whole
numbers below 2^24 alone. The functions here express the latter through the former wherever operands
may be larger, and emit the plain layer wherever they cannot.
"""

from __future__ import annotations

import numpy as np

from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Output
from ir_runtime.operation import Operation
from ir_runtime.operations import elementwise as ir
from ir_runtime.shapes import INFINITY

from .layers import in_type

_EXACT = (1 << 24) - 1
"""The greatest number that float32 tells from its successor."""
_OF_EXTENTS = _EXACT // 2
"""What numbers made from open extents are taken to stay below; sums of two are exact, too."""
_UNSIGNED = {element_types.u32: element_types.i32}
_SCAN_LIMIT = 1 << 22
"""Bytes of a constant that are worth reading to learn how large its values are."""


def limits(value: Output) -> tuple[int, int] | None:
    """Between which numbers an integer tensor's values lie; None where only its type is known.

    Bounds without an end are those of numbers that are made from extents, and these count as numbers that
    float32 holds: models compute with extents all the time, and hardly ever with larger ones.
    """
    bounds = value.type.known_bounds
    if bounds is not None:
        if not bounds.lower.size:
            return 0, 0
        low, high = int(bounds.lower.min()), int(bounds.upper.max())
        return (-_OF_EXTENTS if low <= -INFINITY else low), (_OF_EXTENTS if high >= INFINITY else high)
    tensor = value.tensor
    if tensor is None or tensor.byte_size > _SCAN_LIMIT:
        return None
    values = tensor.array()
    return (int(values.min()), int(values.max())) if values.size else (0, 0)


def is_small(value: Output, limit: int = _EXACT) -> bool:
    """Whether no value that the tensor may have is beyond ``limit``, or float32."""
    kind = value.element_type
    if not kind.is_integral or kind.bits <= 16:
        return True
    known = limits(value)
    return known is not None and -limit <= known[0] and known[1] <= limit


def _both_may_be_large(a: Output, b: Output) -> bool:
    # A small operand is enough: rounding the other one never carries it past a number that float32 holds.
    return not is_small(a) and not is_small(b)


def in_signed_order(ctx: Builder, value: Output) -> Output:
    """u32 as i32 numbers of the same order, which is how the plug-in compares; others unchanged.

    u64 values are compared as they are: the plug-in has no room for those beyond i32 anyway.
    """
    kind = _UNSIGNED.get(value.element_type)
    if kind is None:
        return value
    return ctx.emit(ir.BitwiseXor13(), in_type(ctx, value, kind), ctx.constant(-(1 << 31), kind))


def extreme(ctx: Builder, cls: type[Operation], a: Output, b: Output) -> Output:
    """Maximum or Minimum, of unsigned numbers too."""
    kind = a.element_type
    result = ctx.emit(cls(), in_signed_order(ctx, a), in_signed_order(ctx, b))
    if kind not in _UNSIGNED:
        return result
    flipped = ctx.emit(ir.BitwiseXor13(), result, ctx.constant(-(1 << 31), _UNSIGNED[kind]))
    return in_type(ctx, flipped, kind)


def select(ctx: Builder, condition: Output, then: Output, otherwise: Output) -> Output:
    """``then`` where the condition holds, ``otherwise`` elsewhere.

    The plug-in fuses a comparison with the Select behind it and moves the selected values through
    float32, too; a layer in between keeps them apart.
    """
    fused = isinstance(condition.node.op, (ir.Comparison, ir.Predicate))
    if not fused or (is_small(then) and is_small(otherwise)):
        return ctx.emit(ir.Select1(), condition, then, otherwise)
    return ctx.emit(ir.Select1(), ctx.emit(ir.LogicalNot1(), condition), otherwise, then)


def equal(ctx: Builder, a: Output, b: Output) -> Output:
    """a = b."""
    if not _both_may_be_large(a, b):
        return ctx.emit(ir.Equal1(), a, b)
    # What differs in any bit is not 0, and float32 rounds nothing but 0 to 0.
    return ctx.emit(ir.Equal1(), ctx.emit(ir.BitwiseXor13(), a, b), ctx.like(0, a))


def less(ctx: Builder, a: Output, b: Output) -> Output:
    """a < b."""
    if not _both_may_be_large(a, b):
        return ctx.emit(ir.Less1(), *_comparable(ctx, a, b))
    a, b = in_signed_order(ctx, a), in_signed_order(ctx, b)
    beyond = ctx.emit(ir.BitwiseXor13(), ctx.emit(ir.Maximum1(), a, b), a)
    return ctx.emit(ir.NotEqual1(), beyond, ctx.like(0, a))


def less_equal(ctx: Builder, a: Output, b: Output) -> Output:
    """a <= b."""
    if not _both_may_be_large(a, b):
        return ctx.emit(ir.LessEqual1(), *_comparable(ctx, a, b))
    a, b = in_signed_order(ctx, a), in_signed_order(ctx, b)
    beyond = ctx.emit(ir.BitwiseXor13(), ctx.emit(ir.Maximum1(), a, b), b)
    return ctx.emit(ir.Equal1(), beyond, ctx.like(0, a))


def _comparable(ctx: Builder, a: Output, b: Output) -> tuple[Output, Output]:
    """Operands that the plug-in orders rightly: u32 beyond i32 looks negative to it."""
    if is_small(a) and is_small(b):
        return a, b
    return in_signed_order(ctx, a), in_signed_order(ctx, b)


def _minus_product(ctx: Builder, a: Output, b: Output, c: Output) -> Output:
    """a - b * c. Subtract, because the plug-in fuses Multiply and Add of integers into one wrong product."""
    return ctx.emit(ir.Subtract1(), a, ctx.emit(ir.Multiply1(), b, c))


def divide(ctx: Builder, a: Output, b: Output) -> Output:
    """The quotient of integers, rounded towards zero."""
    known, divisor = limits(a), b.type.constant
    if is_small(a):
        return ctx.emit(ir.Divide1(m_pythondiv=False), a, b)
    if known is not None and known[0] >= 0 and divisor is not None and divisor.size == 1:
        power = int(divisor.reshape(-1)[0])
        if power > 0 and power & (power - 1) == 0:
            shift = np.full(divisor.shape, power.bit_length() - 1)
            return ctx.emit(ir.BitwiseRightShift15(), a, ctx.constant(shift, a.element_type))
    return _long_division(ctx, a, b)[0]


def remainder(ctx: Builder, a: Output, b: Output) -> Output:
    """What division rounded towards zero leaves; it has the sign of ``a``."""
    if is_small(a):
        return ctx.emit(ir.Mod1(), a, b)
    return _long_division(ctx, a, b)[1]


def floor_remainder(ctx: Builder, a: Output, b: Output) -> Output:
    """What division rounded down leaves; it has the sign of ``b``."""
    if is_small(a, _EXACT // 2) and is_small(b, _EXACT // 2):
        return ctx.emit(ir.FloorMod1(), a, b)
    left = _long_division(ctx, a, b)[1]
    if not a.element_type.is_signed:
        return left
    zero = ctx.like(0, a)
    opposite = ctx.emit(ir.Less1(), ctx.emit(ir.BitwiseXor13(), left, b), zero)
    moved = ctx.emit(ir.LogicalAnd1(), opposite, ctx.emit(ir.NotEqual1(), left, zero))
    return select(ctx, moved, ctx.emit(ir.Add1(), left, b), left)


def _long_division(ctx: Builder, a: Output, b: Output) -> tuple[Output, Output]:
    """Quotient, rounded towards zero, and remainder.

    Dividing in float32 leaves a remainder some hundred times the divisor at most. Dividing that again
    leaves one divisor too few or too many, and once more one too many, which has the wrong sign.
    """
    division = ir.Divide1(m_pythondiv=False)
    quotient = ctx.emit(division, a, b)
    left = _minus_product(ctx, a, quotient, b)
    for _ in range(2):
        more = ctx.emit(division, left, b)
        quotient = ctx.emit(ir.Add1(), quotient, more)
        left = _minus_product(ctx, left, more, b)
    zero, one = ctx.like(0, a), ctx.like(1, a)
    if a.element_type.is_signed:
        opposite = ctx.emit(ir.Less1(), ctx.emit(ir.BitwiseXor13(), left, a), zero)
        wrong = ctx.emit(ir.LogicalAnd1(), opposite, ctx.emit(ir.NotEqual1(), left, zero))
        against = ctx.emit(ir.Less1(), ctx.emit(ir.BitwiseXor13(), a, b), zero)
        one = select(ctx, against, ctx.like(-1, a), one)
        b = select(ctx, against, ctx.emit(ir.Negative1(), b), b)
    else:
        # Holds only in an engine that has unsigned numbers as signed ones.
        wrong = ctx.emit(ir.Less1(), left, zero)
    quotient = ctx.emit(ir.Subtract1(), quotient, select(ctx, wrong, one, zero))
    return quotient, ctx.emit(ir.Add1(), left, select(ctx, wrong, b, zero))


def power(ctx: Builder, base: Output, exponent: Output) -> Output:
    """Integers raised to integers; a negative exponent rounds towards zero, as C converts."""
    known = exponent.type.constant
    if known is not None and known.size == 1 and base.shape.has_rank and exponent.shape.rank <= base.shape.rank:
        number = int(known.reshape(-1)[0])
        if 0 < number < 64:
            return _known_power(ctx, base, number)
    return _any_power(ctx, base, exponent)


def _known_power(ctx: Builder, base: Output, exponent: int) -> Output:
    """By repeated squaring."""
    result: Output | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else ctx.emit(ir.Multiply1(), result, base)
        exponent >>= 1
        if exponent:
            base = ctx.emit(ir.Multiply1(), base, base)
    assert result is not None
    return result


def _any_power(ctx: Builder, base: Output, exponent: Output) -> Output:
    """The product of base^(2^i) over the bits i that the exponent has."""
    kind = base.element_type
    exponent = in_type(ctx, exponent, kind)
    zero, one = ctx.like(0, base), ctx.like(1, base)
    odd = ctx.emit(ir.BitwiseAnd13(), exponent, one)
    # From 64 on nothing but its parity counts: other bases than -1, 0 and 1 have overflowed.
    beyond = ctx.emit(ir.Greater1(), exponent, ctx.like(63, base))
    bits = select(ctx, beyond, ctx.emit(ir.Add1(), odd, ctx.like(62, base)), exponent)
    result, square = one, base
    for index in range(6):
        part = ctx.emit(ir.BitwiseAnd13(), bits, ctx.like(1 << index, base))
        factor = select(ctx, ctx.emit(ir.NotEqual1(), part, zero), square, one)
        result = ctx.emit(ir.Multiply1(), result, factor)
        if index < 5:
            square = ctx.emit(ir.Multiply1(), square, square)
    if not kind.is_signed:
        return result
    unit = ctx.emit(ir.Equal1(), ctx.emit(ir.Abs1(), base), one)
    whole = ctx.emit(ir.LogicalOr1(), ctx.emit(ir.GreaterEqual1(), exponent, zero), unit)
    return select(ctx, whole, result, zero)
