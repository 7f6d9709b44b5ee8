"""Integer arithmetic that stays exact in an engine that divides, compares and raises in float32.

The plug-in computes 32- and 64-bit integers as i32. Sums, products, maxima, shifts and bits are exact there;
division, remainder, comparison and powers go through float32, which holds whole numbers below 2^24 alone. The
functions here express the latter through the former.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Operation, Output, element_types
from ir_runtime.operations import elementwise as ir
from ir_runtime.rewriting import Builder, layers
from ir_runtime.rewriting.layers import in_type

from .intervals import interval_of


def in_signed_order(builder: Builder, value: Output) -> Output:
    """u32 as i32 numbers of the same order, which is how the plug-in compares; others unchanged.

    u64 values are compared as they are: the plug-in has no room for those beyond i32 anyway.
    """
    if value.element_type is not element_types.u32:
        return value
    element_type = element_types.i32
    return builder.emit(
        ir.BitwiseXor13(), in_type(builder, value, element_type), builder.constant(-(1 << 31), element_type)
    )


def extreme(builder: Builder, cls: type[Operation], a: Output, b: Output) -> Output:
    """Maximum or Minimum."""
    element_type = a.element_type
    result = builder.emit(cls(), in_signed_order(builder, a), in_signed_order(builder, b))
    if result.element_type is element_type:
        return result
    flipped = builder.emit(ir.BitwiseXor13(), result, builder.constant(-(1 << 31), result.element_type))
    return in_type(builder, flipped, element_type)


def limit(builder: Builder, op: Operation, value: Output) -> Output:
    """ReLU or Clamp, whose bounds are what it makes of the limits of the type."""
    least, most = value.element_type.limits
    low, high = op.evaluate(np.array([least, most], value.element_type.dtype))
    if low > least:
        value = extreme(builder, ir.Maximum1, value, builder.like(low, value))
    return extreme(builder, ir.Minimum1, value, builder.like(high, value)) if high < most else value


def alike(builder: Builder, cls: type[Operation], a: Output, b: Output) -> Output:
    """Equal or NotEqual: what differs in any bit is not 0, and float32 rounds nothing but 0 to 0."""
    return builder.emit(cls(), builder.emit(ir.BitwiseXor13(), a, b), builder.like(0, a))


def less(builder: Builder, a: Output, b: Output) -> Output:
    """a < b."""
    a, b = in_signed_order(builder, a), in_signed_order(builder, b)
    return alike(builder, ir.NotEqual1, builder.emit(ir.Maximum1(), a, b), a)


def less_equal(builder: Builder, a: Output, b: Output) -> Output:
    """a <= b."""
    a, b = in_signed_order(builder, a), in_signed_order(builder, b)
    return alike(builder, ir.Equal1, builder.emit(ir.Maximum1(), a, b), b)


def _minus_product(builder: Builder, a: Output, b: Output, c: Output) -> Output:
    """a - b * c. Subtract, because the plug-in fuses Multiply and Add of integers into one wrong product."""
    return builder.emit(ir.Subtract1(), a, builder.emit(ir.Multiply1(), b, c))


def divide(builder: Builder, a: Output, b: Output) -> Output:
    """The quotient of integers, rounded towards zero."""
    power = _power_of_two(b)
    if power is not None and interval_of(a)[0] >= 0:
        return builder.emit(ir.BitwiseRightShift15(), a, builder.like(power, a))
    return _long_division(builder, a, b)[0]


def _power_of_two(value: Output) -> int | None:
    constant = value.type.constant
    number = int(constant) if constant is not None and constant.ndim == 0 else 0
    return number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None


def floor_divide(builder: Builder, a: Output, b: Output) -> Output:
    """The quotient of integers, rounded down."""
    if interval_of(a)[0] >= 0 and interval_of(b)[0] >= 0:
        return divide(builder, a, b)
    quotient, left = _long_division(builder, a, b)
    less_one = builder.emit(ir.Subtract1(), quotient, builder.like(1, a))
    return layers.select(builder, _is_rounded_up(builder, left, b), less_one, quotient)


def remainder(builder: Builder, a: Output, b: Output) -> Output:
    """Remainder of division rounded towards zero; it has the sign of ``a``."""
    return _long_division(builder, a, b)[1]


def floor_remainder(builder: Builder, a: Output, b: Output) -> Output:
    """Remainder of division rounded down; it has the sign of ``b``."""
    left = _long_division(builder, a, b)[1]
    if not a.element_type.is_signed:
        return left
    return layers.select(builder, _is_rounded_up(builder, left, b), builder.emit(ir.Add1(), left, b), left)


def _is_rounded_up(builder: Builder, left: Output, divisor: Output) -> Output:
    """Return the mask where rounding towards zero, with the remainder ``left``, was upwards."""
    zero = builder.like(0, left)
    opposite = builder.emit(ir.Less1(), builder.emit(ir.BitwiseXor13(), left, divisor), zero)
    return builder.emit(ir.LogicalAnd1(), opposite, builder.emit(ir.NotEqual1(), left, zero))


def _long_division(builder: Builder, a: Output, b: Output) -> tuple[Output, Output]:
    """Quotient, rounded towards zero, and remainder.

    Dividing in float32 leaves a remainder some hundred times the divisor at most. Dividing that again
    leaves one divisor too few or too many, and once more one too many, which has the wrong sign.
    """
    division = ir.Divide1(m_pythondiv=False)
    quotient = builder.emit(division, a, b)
    left = _minus_product(builder, a, quotient, b)
    for _ in range(2):
        more = builder.emit(division, left, b)
        quotient = builder.emit(ir.Add1(), quotient, more)
        left = _minus_product(builder, left, more, b)
    zero, unit = builder.like(0, a), builder.like(1, a)
    if a.element_type.is_signed:
        wrong = _is_rounded_up(builder, left, a)
        against = builder.emit(ir.Less1(), builder.emit(ir.BitwiseXor13(), a, b), zero)
        unit = layers.select(builder, against, builder.like(-1, a), unit)
        b = layers.select(builder, against, builder.emit(ir.Negative1(), b), b)
    else:
        # Holds only in an engine that has unsigned numbers as signed ones.
        wrong = builder.emit(ir.Less1(), left, zero)
    quotient = builder.emit(ir.Subtract1(), quotient, layers.select(builder, wrong, unit, zero))
    return quotient, builder.emit(ir.Add1(), left, layers.select(builder, wrong, b, zero))


def power(builder: Builder, base: Output, exponent: Output) -> Output:
    """Integers raised to integers; a negative exponent rounds towards zero, as C converts."""
    constant = exponent.type.constant
    if constant is not None and constant.size == 1 and base.shape.has_rank and exponent.shape.rank <= base.shape.rank:
        number = int(constant.reshape(-1)[0])
        if 0 < number < 64:
            return _known_power(builder, base, number)
    return _any_power(builder, base, exponent)


def _known_power(builder: Builder, base: Output, exponent: int) -> Output:
    """By repeated squaring."""
    if exponent == 1:
        return builder.emit(ir.Multiply1(), base, builder.like(1, base))  # an output must not be an input
    result: Output | None = None
    while exponent:
        if exponent & 1:
            result = base if result is None else builder.emit(ir.Multiply1(), result, base)
        exponent >>= 1
        if exponent:
            base = builder.emit(ir.Multiply1(), base, base)
    assert result is not None
    return result


def _any_power(builder: Builder, base: Output, exponent: Output) -> Output:
    """The product of base^(2^i) over the bits i that the exponent has."""
    element_type = base.element_type
    exponent = in_type(builder, exponent, element_type)
    zero, identity = builder.like(0, base), builder.like(1, base)
    odd = builder.emit(ir.BitwiseAnd13(), exponent, identity)
    # From 64 on nothing but its parity counts: other bases than -1, 0 and 1 have overflowed.
    beyond = builder.emit(ir.Greater1(), exponent, builder.like(63, base))
    bits = layers.select(builder, beyond, builder.emit(ir.Add1(), odd, builder.like(62, base)), exponent)
    result, square = identity, base
    for index in range(6):
        part = builder.emit(ir.BitwiseAnd13(), bits, builder.like(1 << index, base))
        factor = layers.select(builder, builder.emit(ir.NotEqual1(), part, zero), square, identity)
        result = builder.emit(ir.Multiply1(), result, factor)
        if index < 5:
            square = builder.emit(ir.Multiply1(), square, square)
    if not element_type.is_signed:
        return result
    unit = builder.emit(ir.Equal1(), builder.emit(ir.Abs1(), base), identity)
    whole = builder.emit(ir.LogicalOr1(), builder.emit(ir.GreaterEqual1(), exponent, zero), unit)
    return layers.select(builder, whole, result, zero)
