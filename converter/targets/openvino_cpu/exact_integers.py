"""Integer arithmetic that stays exact in an engine that divides, compares and raises in float32.

The plug-in computes 32- and 64-bit integers as i32. Sums, products, maxima, shifts and bits are exact there;
division, remainder, comparison and powers go through float32, which holds whole numbers below 2^24 alone. The
functions here express the latter through the former.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ir_runtime.graph import Operation, element_types
from ir_runtime.rewriting.expressions import Expression, where

from .intervals import interval_of

_SIGN = -(1 << 31)


def _in_signed_order(value: Expression) -> Expression:
    """u32 as i32 numbers of the same order, which is how the plug-in compares; others unchanged.

    u64 values are compared as they are: the plug-in has no room for those beyond i32 anyway.
    """
    return value.as_type("i32").bits_xor(_SIGN) if value.element_type is element_types.u32 else value


def maximum(a: Expression, b: Any) -> Expression:
    return _back(a, _in_signed_order(a).maximum(_in_signed_order(a.of(b))))


def minimum(a: Expression, b: Any) -> Expression:
    return _back(a, _in_signed_order(a).minimum(_in_signed_order(a.of(b))))


def _back(a: Expression, extreme: Expression) -> Expression:
    """The extreme of numbers in the order of i32, in the type of ``a``."""
    return extreme if extreme.element_type is a.element_type else extreme.bits_xor(_SIGN).as_type(a.element_type)


def limit(op: Operation, value: Expression) -> Expression:
    """ReLU or Clamp, whose bounds are what it makes of the limits of the type."""
    least, most = value.element_type.limits
    low, high = op.evaluate(np.array([least, most], value.element_type.dtype))
    if low > least:
        value = maximum(value, low)
    return minimum(value, high) if high < most else value


def equal(a: Expression, b: Expression) -> Expression:
    """What differs in any bit is not 0, and float32 rounds nothing but 0 to 0."""
    return a.bits_xor(b).equal(a.of(0))


def not_equal(a: Expression, b: Expression) -> Expression:
    return a.bits_xor(b).not_equal(a.of(0))


def less(a: Expression, b: Expression) -> Expression:
    a, b = _in_signed_order(a), _in_signed_order(b)
    return not_equal(a.maximum(b), a)


def less_equal(a: Expression, b: Expression) -> Expression:
    a, b = _in_signed_order(a), _in_signed_order(b)
    return equal(a.maximum(b), b)


def divide(a: Expression, b: Expression) -> Expression:
    """The quotient of integers, rounded towards zero."""
    power = _power_of_two(b)
    if power is not None and interval_of(a.value)[0] >= 0:
        return a.shift_down(power)
    return _long_division(a, b)[0]


def _power_of_two(value: Expression) -> int | None:
    constant = value.value.type.constant
    number = int(constant) if constant is not None and constant.ndim == 0 else 0
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


def floor_divide(a: Expression, b: Expression) -> Expression:
    """The quotient of integers, rounded down."""
    if interval_of(a.value)[0] >= 0 and interval_of(b.value)[0] >= 0:
        return divide(a, b)
    quotient, left = _long_division(a, b)
    less_one = quotient - 1
    return where(_is_rounded_up(left, b), less_one, quotient)


def remainder(a: Expression, b: Expression) -> Expression:
    """Remainder of division rounded towards zero; it has the sign of ``a``."""
    return _long_division(a, b)[1]


def floor_remainder(a: Expression, b: Expression) -> Expression:
    """Remainder of division rounded down; it has the sign of ``b``."""
    left = _long_division(a, b)[1]
    return where(_is_rounded_up(left, b), left + b, left) if a.element_type.is_signed else left


def _is_rounded_up(left: Expression, divisor: Expression) -> Expression:
    """Return the mask where rounding towards zero, with the remainder ``left``, was upwards."""
    zero = left.of(0)
    return (left.bits_xor(divisor) < zero) & left.not_equal(zero)


def _long_division(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Quotient, rounded towards zero, and remainder.

    Dividing in float32 leaves a remainder some hundred times the divisor at most. Dividing that again
    leaves one divisor too few or too many, and once more one too many, which has the wrong sign.
    Subtract, because the plug-in fuses Multiply and Add of integers into one wrong product.
    """
    quotient = a.truncated(b)
    left = a - quotient * b
    for _ in range(2):
        more = left.truncated(b)
        quotient = quotient + more
        left = left - more * b
    zero, unit = a.of(0), a.of(1)
    if a.element_type.is_signed:
        wrong = _is_rounded_up(left, a)
        against = a.bits_xor(b) < zero
        unit = where(against, a.of(-1), unit)
        b = where(against, -b, b)
    else:
        # Holds only in an engine that has unsigned numbers as signed ones.
        wrong = left < zero
    return quotient - where(wrong, unit, zero), left + where(wrong, b, zero)


def power(base: Expression, exponent: Expression) -> Expression:
    """Integers raised to integers; a negative exponent rounds towards zero, as C converts."""
    numbers, shape = exponent.elements(), base.value.shape
    if numbers is not None and len(numbers) == 1 and shape.has_rank and exponent.rank <= shape.rank:
        number = int(numbers[0])
        if 0 < number < 64:
            return _known_power(base, number)
    return _any_power(base, exponent)


def _known_power(base: Expression, exponent: int) -> Expression:
    """By repeated squaring."""
    if exponent == 1:
        return base * 1  # an output must not be an input
    result: Expression | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if exponent:
            base = base * base
    assert result is not None
    return result


def _any_power(base: Expression, exponent: Expression) -> Expression:
    """The product of base^(2^i) over the bits i that the exponent has."""
    exponent = exponent.as_type(base.element_type)
    zero, identity = base.of(0), base.of(1)
    odd = exponent.bits_and(identity)
    # From 64 on nothing but its parity counts: other bases than -1, 0 and 1 have overflowed.
    beyond = exponent.greater(63)
    bits = where(beyond, odd + 62, exponent)
    result, square = identity, base
    for index in range(6):
        part = bits.bits_and(1 << index)
        result = result * where(part.not_equal(zero), square, identity)
        if index < 5:
            square = square * square
    if not base.element_type.is_signed:
        return result
    unit = abs(base).equal(identity)
    return where(exponent.greater_equal(zero) | unit, result, zero)
