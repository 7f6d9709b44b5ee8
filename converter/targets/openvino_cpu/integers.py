"""Rules for integers that float32 does not hold: arithmetic, products and reductions.

The plug-in computes 32- and 64-bit integers as i32. Sums, products, maxima, shifts and bits are exact there; division,
remainder, comparison and powers go through float32, which holds whole numbers below 2^24 alone. The functions of the
first part express the latter through the former.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Operation, Output, element_types, normalize_axes
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.activation import Clamp1, ReLU1
from ir_runtime.operations.convolution import GroupConvolution1
from ir_runtime.operations.matmul import Einsum7, Equation, MatMul1
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.operations.reduction import ReduceL1_4, ReduceMax1, ReduceMean1, ReduceMin1, ReduceSum1, Reduction
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.expressions import Expression, where
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import element_count

from .intervals import EXACT, interval_of, is_small

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


_IN_FLOAT32 = "float32 holds every number exactly"
_IsExact = Callable[[Output, Output], bool]
_Meaning = Callable[[Expression, Expression], Expression]


def _are_small(a: Output, b: Output) -> bool:
    return is_small(a) and is_small(b)


def _is_one_small(a: Output, b: Output) -> bool:
    # Rounding the other one never carries it past a number that float32 holds.
    return is_small(a) or is_small(b)


def _are_in_order(a: Output, b: Output) -> bool:
    return _are_small(a, b) if a.element_type is element_types.u32 else _is_one_small(a, b)


def _are_of_one_order(a: Output, b: Output) -> bool:
    return a.element_type is not element_types.u32 or _are_small(a, b)


_MEANINGS: dict[type[Operation], tuple[_IsExact, _Meaning]] = {
    ir.Mod1: (lambda a, b: is_small(a), remainder),
    ir.FloorMod1: (lambda a, b: is_small(a, EXACT // 2) and is_small(b, EXACT // 2), floor_remainder),
    ir.Power1: (lambda a, b: False, power),
    ir.Maximum1: (_are_of_one_order, maximum),
    ir.Minimum1: (_are_of_one_order, minimum),
    ir.Equal1: (_is_one_small, equal),
    ir.NotEqual1: (_is_one_small, not_equal),
    ir.Less1: (_are_in_order, less),
    ir.LessEqual1: (_are_in_order, less_equal),
    ir.Greater1: (_are_in_order, lambda a, b: less(b, a)),
    ir.GreaterEqual1: (_are_in_order, lambda a, b: less_equal(b, a)),
}
"""For each operation when the plug-in computes it exactly, and what replaces it otherwise."""


@openvino_cpu.replaces(
    "integer_arithmetic", ir.Divide1, Clamp1, ReLU1, *_MEANINGS, seen_in=("2023.3", "2024.6", "2025.4", "2026.4")
)
def integer_arithmetic(builder: Builder, node: Node) -> Replacement:
    """Compute quotients, remainders, powers, comparisons and limits of integers exactly.

    The plug-in computes them in float32, and u32 as i32.

        Divide(a, b)                 becomes   Divide, and twice Divide of what is left, and a last correction
        Equal(a, b)                  becomes   Equal(BitwiseXor(a, b), 0)
        Less(a, b)                   becomes   NotEqual(BitwiseXor(Maximum(a, b), a), 0)
        Maximum(u32, u32)            becomes   Maximum of i32 numbers of the same order
        Power(a, 5)                  becomes   Multiply(a, Multiply(Multiply(a, a), Multiply(a, a)))
        Clamp(a), ReLU(a)            becomes   Minimum(Maximum(a, low), high), Maximum(a, 0)

    Layers of numbers that float32 holds stay as they are.
    """
    a = node.inputs[0]
    if not a.element_type.is_integral or (a.element_type.bits < 32 and not isinstance(node.op, ir.Power1)):
        return fail("it does not compute integers of 32 bits or more")
    x = Expression(builder, a)
    if isinstance(node.op, (Clamp1, ReLU1)):
        return fail(_IN_FLOAT32) if _are_small(a, node.outputs[0]) else limit(node.op, x).value
    b = node.inputs[1]
    if isinstance(node.op, ir.Divide1):
        quotient = floor_divide if node.op.m_pythondiv else divide
        return fail(_IN_FLOAT32) if is_small(a) else quotient(x, Expression(builder, b)).value
    is_exact, meaning = _MEANINGS[type(node.op)]
    return fail(_IN_FLOAT32) if is_exact(a, b) else meaning(x, Expression(builder, b)).value


_TOPMOST = 1 << 31


@openvino_cpu.replaces("right_shift_of_unsigned", seen_in=("2024.6", "2025.4", "2026.4"))
def right_shift_of_unsigned(builder: Builder, node: Node) -> Replacement:
    """Clear the copies of the topmost bit in right shifts of u32.

    The plug-in shifts them as i32, and so copies of the topmost bit fill the upper bits. The rule clears these:

        BitwiseRightShift(u32, n)   becomes   BitwiseRightShift(i32, n) and not BitwiseRightShift(i32 -2^31, n) * 2
    """
    value, amount = node.inputs
    if value.element_type is not element_types.u32 or interval_of(value)[1] < _TOPMOST:
        return fail("the type is not u32, or all numbers are below 2^31")
    signed = element_types.i32
    amount = in_type(builder, amount, signed)
    shifted = builder.emit(ir.BitwiseRightShift15(), in_type(builder, value, signed), amount)
    top = builder.emit(ir.BitwiseRightShift15(), builder.constant(-_TOPMOST, signed), amount)
    copies = builder.emit(ir.BitwiseLeftShift15(), top, builder.constant(1, signed))
    result = builder.emit(ir.BitwiseAnd13(), shifted, builder.emit(ir.BitwiseNot13(), copies))
    return in_type(builder, result, element_types.u32)


@openvino_cpu.replaces("selected_integers", seen_in=("2026.4",))
def selected_integers(builder: Builder, node: Node) -> Replacement:
    """Give the condition of a Select of integers one more dimension.

    The plug-in fuses a Select with the elementwise layer that computes its condition, and rounds what is selected to
    float32. It does so where dimensions are dynamic, or where it does not make a subgraph of the condition.

        Select(c, x, y)      becomes      Squeeze(Select(Unsqueeze(c, 0), x, y), 0)

    A layer that adds a dimension prevents the fusion and moves nothing; it is not removed as a Reshape to the same
    shape is. Where x or y has more dimensions than c, the result has no further one, and there is no Squeeze.
    """
    condition, then, otherwise = node.inputs
    if is_small(then) and is_small(otherwise):
        return fail("it selects no integers that float32 rounds")
    if not condition.node.inputs or isinstance(condition.node.op, Unsqueeze1):
        return fail("no layer that the plug-in fuses computes the condition")
    shape = node.outputs[0].shape
    if not shape.has_rank or node.op.auto_broadcast == "pdpd":  # type: ignore[attr-defined]
        return fail("the rank is dynamic, or it does not broadcast as NumPy does")
    chosen = builder.emit(ir.Select1(), layers.unsqueeze(builder, condition, 0), then, otherwise)
    return chosen if chosen.shape.rank == shape.rank else layers.squeeze(builder, chosen, builder.constant([0]))


_EXACT_BITS = 24
_NARROW_BITS = 16
"""Operands of so many bits besides the sign may become floats where the model makes floats of the product."""
_DEPTH_IF_UNKNOWN = 1 << 14
"""The number of summands that products of integers are made exact for where it is not known."""

Product = Callable[[Output, Output], Output]


@openvino_cpu.replaces("integer_products", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def integer_products(builder: Builder, node: Node) -> Replacement:
    """Make products of integers exact, or products of floats where floats are wanted.

    The plug-in adds up products of integers in float32, which holds integers exactly below 2^24 only. The rule splits
    the integers into groups of bits whose products stay below that. It shifts the sums of each pair of groups to their
    places and adds them as integers, which is exact.

        MatMul(i32, i32) -> Convert(f32)     becomes   MatMul(f32, f32)         where both have 16 bits at most
        MatMul(i32, i32)                     becomes   sum of MatMul(bits of a, bits of b) << their places

    Dynamic quantisation writes the first form. Its sums are scaled as floats, and so they may be floats from the start
    and run in the plug-in's float kernels.
    """
    element_type = node.outputs[0].element_type
    if not element_type.is_integral:
        return fail("it multiplies floats")
    if isinstance(node.op, Einsum7):
        return _einsum(builder, list(node.inputs), Equation.parse(node.op.equation))
    a, b = node.inputs
    narrow = bits_of(a) <= _NARROW_BITS and bits_of(b) <= _NARROW_BITS

    def floats(x: Output, y: Output) -> Output:
        return builder.emit(node.op, as_float(builder, x), as_float(builder, y))

    def integers(x: Output, y: Output) -> Output:
        return layers.in_type(builder, floats(x, y), element_type) if narrow else builder.emit(node.op, x, y)

    if narrow and _becomes_float(node.outputs[0]):
        return layers.in_type(builder, floats(a, b), element_type)
    return exact_product(builder, Factor.of(a), Factor.of(b), _depth(node), integers)


def _becomes_float(value: Output) -> bool:
    """True if nothing reads the integers but conversions to floats, of sums with a bias perhaps."""
    readers = value.uses
    return bool(readers) and all(
        _becomes_float(reader.outputs[0])
        if isinstance(reader.op, ir.Add1)
        else isinstance(reader.op, ir.Convert1) and reader.op.destination_type.is_real
        for reader in readers
    )


def _depth(node: Node) -> int | None:
    """Return the number of products per sum, from either operand, mostly the weights."""
    a, b = node.inputs
    if isinstance(node.op, MatMul1):
        sides = ((a, -2 if node.op.transpose_a else -1), (b, -1 if node.op.transpose_b else -2))
        for factor, axis in sides:
            if factor.shape.has_rank and factor.shape.rank:
                along = factor.shape.dims[axis if factor.shape.rank > 1 else -1]
                if along.is_static:
                    return along.value
        return None
    if not b.shape.has_rank:
        return None
    dimensions = b.shape.dims[2 if isinstance(node.op, GroupConvolution1) else 1 :]
    return math.prod(d.value for d in dimensions) if all(d.is_static for d in dimensions) else None


def bits_of(value: Output) -> int:
    """Return the number of bits of integers without their sign."""
    low, high = interval_of(value)
    return max(1, int(-low - 1 if low < -high else max(high, -low)).bit_length())


def as_float(builder: Builder, value: Output) -> Output:
    """Integers as float32, computed as floats from where their 8 or 16 bits are stored."""
    node = value.node
    if isinstance(node.op, ir.Subtract1) and bits_of(value) <= _NARROW_BITS:
        return layers.subtract(builder, *(as_float(builder, source) for source in node.inputs))
    narrow = isinstance(node.op, ir.Convert1) and node.inputs[0].element_type.is_integral
    if narrow and node.inputs[0].element_type.bits <= _NARROW_BITS:
        value = node.inputs[0]
    return layers.in_type(builder, value, element_types.f32)


# --- exact products ---


@record
class Factor:
    """Integers, each of at most ``bits`` bits besides the sign."""

    output: Output
    bits: int

    @classmethod
    def of(cls, output: Output) -> Factor:
        """A factor whose bits follow from its values, or else from its type."""
        return cls(output, min(32, bits_of(output) if bits_of(output) < 31 else output.element_type.bits))

    def split(self, builder: Builder, width: int) -> list[tuple[int, Output]]:
        """(shift, bits) pairs, lowest first; the topmost carries the sign."""
        if self.bits <= width:
            return [(0, self.output)]
        groups = _groups_of_bits(builder, self.output, width, self.bits)
        constants = [part.type.constant for _, part in groups]
        parts = [group for group, values in zip(groups, constants) if values is None or values.any()]
        return parts or [(0, self.output)]


def _groups_of_bits(builder: Builder, value: Output, width: int, bits: int) -> list[tuple[int, Output]]:
    """(shift, bits) pairs, lowest first; the topmost carries the sign, and what a 64-bit number has above 32 bits."""
    groups = []
    for shift in range(0, bits, width):
        part = builder.emit(ir.BitwiseRightShift15(), value, builder.like(shift, value)) if shift else value
        if shift + width < bits:
            part = builder.emit(ir.BitwiseAnd13(), part, builder.like((1 << width) - 1, part))
        elif value.element_type is element_types.u32:
            # The plug-in shifts u32 as i32, so copies of the topmost bit must go.
            part = builder.emit(ir.BitwiseAnd13(), part, builder.like((1 << (32 - shift)) - 1, part))
        groups.append((shift, part))
    return groups


def exact_product(builder: Builder, a: Factor, b: Factor, depth: int | None, product: Product) -> Output:
    """``product(a, b)``, a sum over ``depth`` products, made of pieces that float32 holds exactly.

    ``product`` gives integers of the factors' type. The right factor, which is mostly the weights,
    is only split where splitting the left one is not enough.
    """
    room = _EXACT_BITS - max(1, depth or _DEPTH_IF_UNKNOWN).bit_length()
    width_b = b.bits
    if room - width_b < min(4, a.bits):
        width_b = max(1, room // 2)
    width_a = max(1, room - width_b)
    left, right = a.split(builder, width_a), b.split(builder, width_b)
    total: Output | None = None
    for shift_b, part_b in right:
        for shift_a, part_a in left:
            partial_product = _shift(builder, product(part_a, part_b), shift_a + shift_b)
            total = partial_product if total is None else layers.add(builder, total, partial_product)
    assert total is not None
    return total


def _shift(builder: Builder, value: Output, bits: int) -> Output:
    # Engines disagree on shifts by 32 or more in 32 bits, so they are made in steps.
    while bits > 0:
        step = min(bits, 16)
        value = builder.emit(ir.BitwiseLeftShift15(), value, builder.like(step, value))
        bits -= step
    return value


# --- Einsum ---


def _einsum(builder: Builder, inputs: list[Output], parsed: Equation) -> Output:
    """Two operands at a time, each product exact."""
    operands, terms = list(inputs), list(parsed.operands)
    if len(operands) == 1:
        operands.append(builder.like(1, operands[0]))
        terms.append("")
    while len(operands) > 1:
        a, b = operands[:2]
        needed = "".join(terms[2:]) + parsed.output
        both = dict.fromkeys(terms[0] + terms[1])
        output = parsed.output if len(terms) == 2 else "".join(letter for letter in both if letter in needed)
        step = Equation((terms[0], terms[1]), output)
        op: Operation = Einsum7(equation=step.text())
        product = exact_product(
            builder,
            Factor.of(a),
            Factor.of(b),
            _summands(step, (a, b)),
            lambda x, y, op=op: builder.emit(op, x, y),  # type: ignore[misc]
        )
        operands[:2], terms[:2] = [product], [output]
    return operands[0]


def _summands(step: Equation, inputs: tuple[Output, Output]) -> int | None:
    """Return the number of products per sum."""
    letters = dict.fromkeys(letter for term in step.operands for letter in term if letter not in step.output)
    whole = Equation(step.operands, "".join(letters)).shape([value.shape for value in inputs])
    return math.prod(whole.static()) if whole.is_static else None


_ROOM = 23
"""Bits of a sum that float32 holds, less one for the remainder of a division."""
_COUNT_IF_UNKNOWN = (1 << 15) - 1
"""The number of summands that is assumed where dimensions are dynamic."""


@openvino_cpu.replaces("integer_reductions", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def integer_reductions(builder: Builder, node: Node) -> Replacement:
    """Reduce integers exactly.

    The plug-in reduces i32, i64, u32 and u64 in float32, which holds integers exactly below 2^24 only. The rule splits
    integers into groups of bits whose sums stay below that. It shifts the sums to their places and adds them as
    integers, which is exact.

        ReduceSum(x)     becomes   ReduceSum(x & m) + (ReduceSum(x >> w & m) << w) + ...
        ReduceL1(x)      becomes   the same of Abs(x)
        ReduceMean(x)    becomes   long division of these sums by the count, from the highest group of bits on
        ReduceMax(x)     becomes   ReduceMax(x >> 16) << 16 + ReduceMax(lower bits of those that have it)

    It saturates the sum of 8-bit integers before it divides it for the mean:

        ReduceMean(x)    becomes   ReduceMean(x as i32) as the type of x

    Where the numbers, or sums of them, are known to stay below 2^24 the layer stays.
    """
    data = node.inputs[0]
    if not data.element_type.is_integral:
        return fail("it reduces floats")
    if data.element_type.bits <= 8 and isinstance(node.op, ReduceMean1):
        wide = layers.in_type(builder, data, element_types.i32)
        return layers.in_type(builder, builder.emit(node.op, wide, node.inputs[1]), data.element_type)
    if data.element_type.bits < 32:
        return fail("the integers have less than 32 bits, and it is no mean of 8 bits")
    largest = max(map(abs, interval_of(data)))
    if isinstance(node.op, (ReduceMax1, ReduceMin1)):
        return _extreme(builder, node) if largest > EXACT else fail("float32 holds every number exactly")
    if largest * _count(node) <= EXACT:
        return fail("float32 holds every sum exactly")
    if isinstance(node.op, ReduceMean1):
        return _mean(builder, node)
    if isinstance(node.op, ReduceL1_4) and data.element_type.is_signed:
        data = layers.absolute(builder, data)
    pieces, width = _pieces(builder, node, data)
    return _combine(builder, pieces, width)


def _count(node: Node) -> int:
    """Return the number of elements that each result combines, as far as it is known."""
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank:
        return _COUNT_IF_UNKNOWN
    reduced = range(shape.rank) if axes is None else normalize_axes(axes.reshape(-1).tolist(), shape.rank)
    dimensions = [shape[axis] for axis in reduced]
    return math.prod(d.value for d in dimensions) if all(d.is_static for d in dimensions) else _COUNT_IF_UNKNOWN


def _pieces(builder: Builder, node: Node, data: Output) -> tuple[list[Output], int]:
    """Sums of the data's bits in groups, lowest first, and how many bits a group has."""
    width = max(1, min(12, _ROOM - max(1, _count(node)).bit_length()))
    summed = ReduceSum1(keep_dims=_keeps(node))
    groups = _groups_of_bits(builder, data, width, 32)
    return [builder.emit(summed, part, node.inputs[1]) for _, part in groups], width


def _keeps(node: Node) -> bool:
    assert isinstance(node.op, Reduction)
    return node.op.keep_dims


def _shifted_up(builder: Builder, data: Output, bits: int) -> Output:
    # A shift, because the plug-in fuses Multiply and Add of integers into a product it gets wrong.
    return builder.emit(ir.BitwiseLeftShift15(), data, builder.like(bits, data))


def _combine(builder: Builder, pieces: Sequence[Output], width: int) -> Output:
    total = pieces[0]
    for index, piece in enumerate(pieces[1:], 1):
        total = layers.add(builder, total, _shifted_up(builder, piece, index * width))
    return total


def _mean(builder: Builder, node: Node) -> Output:
    """Rounded towards zero."""
    data = node.inputs[0]
    pieces, width = _pieces(builder, node, data)
    count = layers.in_type(builder, element_count(builder, *node.inputs), data.element_type)
    zero, unit = builder.like(0, data), builder.like(1, data)
    quotients: list[Output] = []
    rest: Output | None = None
    for piece in reversed(pieces):
        if rest is not None:
            piece = layers.add(builder, _shifted_up(builder, rest, width), piece)
        quotient = layers.truncated_quotient(builder, piece, count)
        rest = layers.subtract(builder, piece, layers.multiply(builder, quotient, count))
        if data.element_type.is_signed:
            # Round down: a negative remainder borrows one count.
            negative = layers.less(builder, rest, zero)
            quotient = layers.select(builder, negative, layers.subtract(builder, quotient, unit), quotient)
            rest = layers.select(builder, negative, layers.add(builder, rest, count), rest)
        quotients.insert(0, quotient)
    mean = _combine(builder, quotients, width)
    if not data.element_type.is_signed:
        return mean
    assert rest is not None
    below, inexact = layers.less(builder, mean, zero), layers.greater(builder, rest, zero)
    up = layers.logical_and(builder, below, inexact)
    return layers.select(builder, up, layers.add(builder, mean, unit), mean)


def _extreme(builder: Builder, node: Node) -> Output:
    """The extreme of the upper bits first, then of the lower bits of those elements that have it."""
    data, axes = node.inputs
    reduced = type(node.op)
    mask = builder.like(0xFFFF, data)
    high = builder.emit(ir.BitwiseRightShift15(), data, builder.like(16, data))
    if data.element_type is element_types.u32:
        high = builder.emit(ir.BitwiseAnd13(), high, mask)
    best = builder.emit(reduced(keep_dims=True), high, axes)
    low = builder.emit(ir.BitwiseAnd13(), data, mask)
    other = builder.like(0 if reduced is ReduceMax1 else 0xFFFF, data)
    candidates = layers.select(builder, layers.equal(builder, high, best), low, other)
    rest = builder.emit(node.op, candidates, axes)
    if not _keeps(node):
        best = builder.emit(node.op, high, axes)
    return layers.add(builder, _shifted_up(builder, best, 16), rest)
