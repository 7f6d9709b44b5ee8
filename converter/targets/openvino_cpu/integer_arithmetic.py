"""Rules for integers that float32 does not hold."""

from __future__ import annotations

from collections.abc import Callable

from converter.targets.openvino_cpu import exact_integers as exact
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Operation, Output, element_types
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.activation import Clamp1, ReLU1
from ir_runtime.operations.elementwise import (
    BitwiseAnd13,
    BitwiseLeftShift15,
    BitwiseNot13,
    BitwiseRightShift15,
    Select1,
)
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.expressions import Expression
from ir_runtime.rewriting.layers import in_type

from .intervals import EXACT, interval_of, is_small

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
    ir.Mod1: (lambda a, b: is_small(a), exact.remainder),
    ir.FloorMod1: (lambda a, b: is_small(a, EXACT // 2) and is_small(b, EXACT // 2), exact.floor_remainder),
    ir.Power1: (lambda a, b: False, exact.power),
    ir.Maximum1: (_are_of_one_order, exact.maximum),
    ir.Minimum1: (_are_of_one_order, exact.minimum),
    ir.Equal1: (_is_one_small, exact.equal),
    ir.NotEqual1: (_is_one_small, exact.not_equal),
    ir.Less1: (_are_in_order, exact.less),
    ir.LessEqual1: (_are_in_order, exact.less_equal),
    ir.Greater1: (_are_in_order, lambda a, b: exact.less(b, a)),
    ir.GreaterEqual1: (_are_in_order, lambda a, b: exact.less_equal(b, a)),
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
        return fail(_IN_FLOAT32) if _are_small(a, node.outputs[0]) else exact.limit(node.op, x).value
    b = node.inputs[1]
    if isinstance(node.op, ir.Divide1):
        divide = exact.floor_divide if node.op.m_pythondiv else exact.divide
        return fail(_IN_FLOAT32) if is_small(a) else divide(x, Expression(builder, b)).value
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
    shifted = builder.emit(BitwiseRightShift15(), in_type(builder, value, signed), amount)
    top = builder.emit(BitwiseRightShift15(), builder.constant(-_TOPMOST, signed), amount)
    copies = builder.emit(BitwiseLeftShift15(), top, builder.constant(1, signed))
    result = builder.emit(BitwiseAnd13(), shifted, builder.emit(BitwiseNot13(), copies))
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
    chosen = builder.emit(Select1(), layers.unsqueeze(builder, condition, 0), then, otherwise)
    return chosen if chosen.shape.rank == shape.rank else layers.squeeze(builder, chosen, builder.constant([0]))
