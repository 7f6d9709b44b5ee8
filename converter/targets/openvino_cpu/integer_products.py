"""Products of integers (MatMul, Convolution, GroupConvolution, Einsum).

The plug-in adds up products of integers in float32, which holds integers exactly below 2^24 only. The rule splits
the integers into groups of bits whose products stay below that. It shifts the sums of each pair of groups to their
places and adds them as integers, which is exact.

    MatMul(i32, i32) -> Convert(f32)     becomes   MatMul(f32, f32)         where both have 16 bits at most
    MatMul(i32, i32)                     becomes   sum of MatMul(bits of a, bits of b) << their places

Dynamic quantisation writes the first form. Its sums are scaled as floats, and so they may be floats from the start
and run in the plug-in's float kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Operation, Output, element_types
from ir_runtime.operations import elementwise
from ir_runtime.operations.convolution import GroupConvolution1
from ir_runtime.operations.matmul import Einsum7, Equation, MatMul1
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, Replacement, fail, layers

from .intervals import interval_of

_EXACT_BITS = 24
_NARROW_BITS = 16
"""Operands of so many bits besides the sign may become floats where the model makes floats of the product."""
_DEPTH_IF_UNKNOWN = 1 << 14
"""The number of summands that products of integers are made exact for where it is not known."""

Product = Callable[[Output, Output], Output]


@openvino_cpu.replaces("integer_products", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def integer_products(builder: Builder, node: Node) -> Replacement:
    """Make products of integers exact, or products of floats where floats are wanted."""
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
        if isinstance(reader.op, elementwise.Add1)
        else isinstance(reader.op, elementwise.Convert1) and reader.op.destination_type.is_real
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
    if isinstance(node.op, elementwise.Subtract1) and bits_of(value) <= _NARROW_BITS:
        return layers.subtract(builder, *(as_float(builder, source) for source in node.inputs))
    narrow = isinstance(node.op, elementwise.Convert1) and node.inputs[0].element_type.is_integral
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
        parts = []
        for shift in range(0, self.bits, width):
            part = self.output
            if shift:
                part = builder.emit(elementwise.BitwiseRightShift15(), part, builder.like(shift, part))
            if shift + width < self.bits:
                part = builder.emit(elementwise.BitwiseAnd13(), part, builder.like((1 << width) - 1, part))
            elif self.output.element_type is element_types.u32:
                # The plug-in shifts u32 as i32, so copies of the topmost bit must go.
                part = builder.emit(elementwise.BitwiseAnd13(), part, builder.like((1 << (32 - shift)) - 1, part))
            constant = part.type.constant
            if constant is None or constant.any():
                parts.append((shift, part))
        return parts or [(0, self.output)]


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
        value = builder.emit(elementwise.BitwiseLeftShift15(), value, builder.like(step, value))
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
