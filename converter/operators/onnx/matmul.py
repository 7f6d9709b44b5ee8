"""ONNX's products of matrices: MatMul, Gemm, Einsum, and MatMulInteger and ConvInteger.

OpenVINO's CPU plug-in sums products of integers up in float32, which holds whole numbers exactly
below 2^24 only. So integers are split into groups of bits whose products stay below that; the sums
of each pair of groups are shifted to their places and added as integers, which is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from converter.lowering import layers
from converter.operators.onnx.convolution import convolved
from converter.translation.context import Context
from converter.translation.registry import onnx_op
from ir_runtime import element_types
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise, matmul, movement
from ir_runtime.shapes import broadcast

_EXACT_BITS = 24
_DEPTH_IF_UNKNOWN = 1 << 14
"""The number of summands that products of integers are made exact for where it is not known."""

Product = Callable[[Output, Output], Output]


def converted(ctx: Context, value: Output, kind: ElementType) -> Output:
    """``value`` in the element type ``kind``."""
    return value if value.element_type is kind else ctx.emit(elementwise.Convert1(destination_type=kind), value)


# --- products of integers, exact in an engine that multiplies in float32 ---


@dataclass(frozen=True)
class Factor:
    """Integers, each of at most ``bits`` bits besides the sign."""

    output: Output
    bits: int

    @classmethod
    def of(cls, output: Output) -> Factor:
        """A factor whose bits follow from its values, or else from its type."""
        kind = output.element_type
        values = output.type.constant
        if values is not None and values.size:
            reach = max(abs(int(values.min())), abs(int(values.max())))
            if reach < 1 << 31:
                return cls(output, max(1, reach.bit_length()))
        return cls(output, min(32, kind.bits))

    def split(self, ctx: Context, width: int) -> list[tuple[int, Output]]:
        """(shift, bits) pairs, lowest first; the topmost carries the sign."""
        if self.bits <= width:
            return [(0, self.output)]
        parts = []
        for shift in range(0, self.bits, width):
            part = self.output
            if shift:
                part = ctx.emit(elementwise.BitwiseRightShift15(), part, ctx.like(shift, part))
            if shift + width < self.bits:
                part = ctx.emit(elementwise.BitwiseAnd13(), part, ctx.like((1 << width) - 1, part))
            elif self.output.element_type is element_types.u32:
                # The CPU plug-in shifts u32 as i32, so copies of the topmost bit must go.
                part = ctx.emit(elementwise.BitwiseAnd13(), part, ctx.like((1 << (32 - shift)) - 1, part))
            known = part.type.constant
            if known is None or known.any():
                parts.append((shift, part))
        return parts or [(0, self.output)]


def exact_product(ctx: Context, a: Factor, b: Factor, depth: int | None, product: Product) -> Output:
    """``product(a, b)``, a sum over ``depth`` products, made of pieces that float32 holds exactly.

    ``product`` gives integers of the factors' type. The right factor, which is mostly the weights,
    is only split where splitting the left one is not enough.
    """
    room = _EXACT_BITS - max(1, depth or _DEPTH_IF_UNKNOWN).bit_length()
    width_b = b.bits
    if room - width_b < min(4, a.bits):
        width_b = max(1, room // 2)
    width_a = max(1, room - width_b)
    left, right = a.split(ctx, width_a), b.split(ctx, width_b)
    total: Output | None = None
    for shift_b, part_b in right:
        for shift_a, part_a in left:
            made = _shifted(ctx, product(part_a, part_b), shift_a + shift_b)
            total = made if total is None else layers.add(ctx, total, made)
    assert total is not None
    return total


def _shifted(ctx: Context, value: Output, bits: int) -> Output:
    # Engines disagree on shifts by 32 or more in 32 bits, so they are made in steps.
    while bits > 0:
        step = min(bits, 16)
        value = ctx.emit(elementwise.BitwiseLeftShift15(), value, ctx.like(step, value))
        bits -= step
    return value


def _depth(a: Output, b: Output, transpose_a: bool = False, transpose_b: bool = False) -> int | None:
    """How many products a matrix product adds up: what either factor tells, mostly the weights."""
    for factor, axis in ((a, -2 if transpose_a else -1), (b, -1 if transpose_b else -2)):
        if factor.shape.has_rank and factor.shape.rank:
            along = factor.shape.dims[axis if factor.shape.rank > 1 else -1]
            if along.is_static:
                return along.value
    return None


def product_of(ctx: Context, a: Output, b: Output, transpose_a: bool = False, transpose_b: bool = False) -> Output:
    """The matrix product of two tensors of one type, exact for integers."""
    op = matmul.MatMul1(transpose_a=transpose_a, transpose_b=transpose_b)
    if not a.element_type.is_integral:
        return ctx.emit(op, a, b)
    depth = _depth(a, b, transpose_a, transpose_b)
    return exact_product(ctx, Factor.of(a), Factor.of(b), depth, lambda x, y: ctx.emit(op, x, y))


@onnx_op("MatMul", versions=(1, 9, 13))
def mat_mul(ctx: Context, a: Output, b: Output) -> Output:
    """The matrix product of the last two dimensions, as NumPy's ``matmul``."""
    return product_of(ctx, a, b)


# --- Gemm ---


def _scaled(ctx: Context, value: Output, factor: float) -> Output:
    if factor == 1:
        return value
    if value.element_type.is_integral and factor != int(factor):
        raise ctx.unsupported(f"integers cannot be multiplied by {factor}")
    return layers.multiply(ctx, value, ctx.like(factor, value))


def _gemm(
    ctx: Context, a: Output, b: Output, c: Output | None, alpha: float, beta: float, trans_a: int, trans_b: int
) -> Output:
    for name, value in (("A", a), ("B", b)):
        if value.shape.has_rank and value.shape.rank != 2:
            raise ctx.invalid(f"{name} must be a matrix, but has the shape {value.shape}")
    y = _scaled(ctx, product_of(ctx, a, b, bool(trans_a), bool(trans_b)), alpha)
    if c is None or beta == 0:
        return y
    if c.shape.has_rank and y.shape.has_rank:
        wide = broadcast(y.shape, c.shape)
        if c.shape.rank > 2 or wide.merge(y.shape) is None:
            raise ctx.invalid(f"C of the shape {c.shape} cannot be repeated to the product's shape {y.shape}")
    return layers.add(ctx, y, _scaled(ctx, c, beta))


@onnx_op("Gemm", versions=(7, 9, 11, 13))
def gemm(
    ctx: Context,
    a: Output,
    b: Output,
    c: Output | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Output:
    """``alpha * A * B + beta * C`` of matrices; C is repeated to the product's shape."""
    return _gemm(ctx, a, b, c, alpha, beta, transA, transB)


@onnx_op("Gemm", versions=(1, 6))
def gemm_with_flag(
    ctx: Context,
    a: Output,
    b: Output,
    c: Output,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Output:
    """The same, where C is repeated only if ``broadcast`` is set."""
    y = _gemm(ctx, a, b, c, alpha, beta, transA, transB)
    wanted, given = ctx.stated(y).shape, ctx.stated(c).shape
    if not broadcast and given.merge(wanted) is None:
        raise ctx.invalid(f"without broadcast C must have the product's shape {wanted}, but has {given}")
    return y


# --- Einsum ---


@onnx_op("Einsum", versions=(12, 28))
def einsum(ctx: Context, *inputs: Output, equation: str) -> Output:
    """The sum over products that the equation describes."""
    parsed = matmul.Equation.parse(equation)
    if len(parsed.operands) != len(inputs):
        raise ctx.invalid(f"the equation '{equation}' is of {len(parsed.operands)} inputs, but got {len(inputs)}")
    if not inputs[0].element_type.is_integral:
        return ctx.emit(matmul.Einsum7(equation=parsed.text()), *inputs)
    return _integer_einsum(ctx, inputs, parsed)


def _integer_einsum(ctx: Context, inputs: Sequence[Output], parsed: matmul.Equation) -> Output:
    """Two operands at a time, each product exact."""
    operands = list(inputs)
    terms = list(parsed.operands)
    if len(operands) == 1:
        operands.append(ctx.like(1, operands[0]))
        terms.append("")
    while True:
        a, b = operands[:2]
        needed = "".join(terms[2:]) + parsed.output
        both = dict.fromkeys(terms[0] + terms[1])
        output = parsed.output if len(terms) == 2 else "".join(letter for letter in both if letter in needed)
        step = matmul.Equation((terms[0], terms[1]), output)
        op = matmul.Einsum7(equation=step.text())
        depth = _summands(step, (a, b))
        made = exact_product(ctx, Factor.of(a), Factor.of(b), depth, lambda x, y, op=op: ctx.emit(op, x, y))  # type: ignore[misc]
        operands[:2], terms[:2] = [made], [output]
        if len(operands) == 1:
            return made


def _summands(step: matmul.Equation, inputs: Sequence[Output]) -> int | None:
    """How many products are added up for each element."""
    letters = dict.fromkeys(letter for term in step.operands for letter in term if letter not in step.output)
    whole = matmul.Equation(step.operands, "".join(letters)).shape([value.shape for value in inputs])
    if not whole.is_static:
        return None
    return math.prod(whole.static())


# --- products of 8-bit integers ---


def without_zero_point(ctx: Context, value: Output, zero: Output | None, kind: ElementType) -> tuple[Output, int]:
    """``value - zero`` in ``kind``, and how many bits the difference has besides its sign.

    ``value`` are 8-bit integers, which stay stored as such.
    """
    wide = converted(ctx, value, kind)
    known = None if zero is None else zero.type.constant
    if zero is None or (known is not None and not known.any()):
        return wide, 8
    return layers.subtract(ctx, wide, converted(ctx, zero, kind)), 8


def exact_integers(ctx: Context, a: Factor, b: Factor, depth: int | None, product: Product) -> Output:
    """An i32 product of an i32 factor with a float32 one that holds whole numbers.

    ``product`` takes and gives float32, so that engines run their fastest kernels.
    """

    def made(x: Output, y: Output) -> Output:
        floats = product(converted(ctx, x, element_types.f32), converted(ctx, y, element_types.f32))
        return converted(ctx, floats, element_types.i32)

    return exact_product(ctx, a, b, depth, made)


@onnx_op("MatMulInteger", versions=(10,))
def mat_mul_integer(
    ctx: Context,
    a: Output,
    b: Output,
    a_zero_point: Output | None = None,
    b_zero_point: Output | None = None,
) -> Output:
    """The i32 product of 8-bit matrices less their zero points (one number, or one a row or column)."""
    if a_zero_point is not None and a_zero_point.shape.has_rank and a_zero_point.shape.rank == 1:
        # One zero point a row of A (a single one fits both ways).
        a_zero_point = layers.unsqueeze(ctx, a_zero_point, 1)
    left, left_bits = without_zero_point(ctx, a, a_zero_point, element_types.i32)
    right, right_bits = without_zero_point(ctx, b, b_zero_point, element_types.i32)
    product = matmul.MatMul1()
    return exact_integers(
        ctx,
        Factor(left, left_bits),
        Factor(right, right_bits),
        _depth(a, b),
        lambda x, y: ctx.emit(product, x, y),
    )


@onnx_op("ConvInteger", versions=(10,))
def conv_integer(
    ctx: Context,
    x: Output,
    w: Output,
    x_zero_point: Output | None = None,
    w_zero_point: Output | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Output:
    """The i32 convolution of 8-bit data and weights less their zero points; padding adds nothing."""
    rank = ctx.rank(w, "the weights")
    if w_zero_point is not None and w_zero_point.shape.has_rank and w_zero_point.shape.rank == 1:
        per_filter = ctx.constant([-1] + [1] * (rank - 1))
        w_zero_point = ctx.emit(movement.Reshape1(special_zero=False), w_zero_point, per_filter)
    left, left_bits = without_zero_point(ctx, x, x_zero_point, element_types.i32)
    right, right_bits = without_zero_point(ctx, w, w_zero_point, element_types.i32)
    extents = w.shape.dims[1:]
    depth = math.prod(d.value for d in extents) if all(d.is_static for d in extents) else None

    def product(data: Output, weights: Output) -> Output:
        return convolved(ctx, data, weights, None, auto_pad, dilations, group, kernel_shape, pads, strides)

    return exact_integers(ctx, Factor(left, left_bits), Factor(right, right_bits), depth, product)
