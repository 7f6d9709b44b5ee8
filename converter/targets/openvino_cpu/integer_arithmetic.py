"""Quotients, remainders, powers, comparisons and limits of integers that float32 does not hold.

The plug-in computes them in float32, and u32 as i32.

    Divide(a, b)                 becomes   Divide, and twice Divide of what is left, and a last correction
    Equal(a, b)                  becomes   Equal(BitwiseXor(a, b), 0)
    Less(a, b)                   becomes   NotEqual(BitwiseXor(Maximum(a, b), a), 0)
    Maximum(u32, u32)            becomes   Maximum of i32 numbers of the same order
    Power(a, 5)                  becomes   Multiply(a, Multiply(Multiply(a, a), Multiply(a, a)))
    Clamp(a), ReLU(a)            becomes   Minimum(Maximum(a, low), high), Maximum(a, 0)

Layers of numbers that float32 holds stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Operation, Output, element_types
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.activation import Clamp1, ReLU1
from ir_runtime.rewriting import Builder, Replacement, fail

from . import exact_integers as exact
from .intervals import EXACT, is_small

_IN_FLOAT32 = "float32 holds every number exactly"
_IsExact = Callable[[Output, Output], bool]
_Meaning = Callable[[Builder, Output, Output], Output]


def _are_small(a: Output, b: Output) -> bool:
    return is_small(a) and is_small(b)


def _is_one_small(a: Output, b: Output) -> bool:
    # Rounding the other one never carries it past a number that float32 holds.
    return is_small(a) or is_small(b)


def _are_in_order(a: Output, b: Output) -> bool:
    return _are_small(a, b) if a.element_type is element_types.u32 else _is_one_small(a, b)


def _are_of_one_order(a: Output, b: Output) -> bool:
    return a.element_type is not element_types.u32 or _are_small(a, b)


def _of(cls: type[Operation], meaning: Callable[..., Output]) -> _Meaning:
    return lambda builder, a, b: meaning(builder, cls, a, b)


def _reverse(compare: _Meaning) -> _Meaning:
    return lambda builder, a, b: compare(builder, b, a)


_MEANINGS: dict[type[Operation], tuple[_IsExact, _Meaning]] = {
    ir.Mod1: (lambda a, b: is_small(a), exact.remainder),
    ir.FloorMod1: (lambda a, b: is_small(a, EXACT // 2) and is_small(b, EXACT // 2), exact.floor_remainder),
    ir.Power1: (lambda a, b: False, exact.power),
    ir.Maximum1: (_are_of_one_order, _of(ir.Maximum1, exact.extreme)),
    ir.Minimum1: (_are_of_one_order, _of(ir.Minimum1, exact.extreme)),
    ir.Equal1: (_is_one_small, _of(ir.Equal1, exact.alike)),
    ir.NotEqual1: (_is_one_small, _of(ir.NotEqual1, exact.alike)),
    ir.Less1: (_are_in_order, exact.less),
    ir.LessEqual1: (_are_in_order, exact.less_equal),
    ir.Greater1: (_are_in_order, _reverse(exact.less)),
    ir.GreaterEqual1: (_are_in_order, _reverse(exact.less_equal)),
}
"""For each operation when the plug-in computes it exactly, and what replaces it otherwise."""


@openvino_cpu.replaces(
    "integer_arithmetic", ir.Divide1, Clamp1, ReLU1, *_MEANINGS, seen_in=("2023.3", "2024.6", "2025.4", "2026.4")
)
def integer_arithmetic(builder: Builder, node: Node) -> Replacement:
    """Compute integers exactly that the plug-in would round to float32."""
    a = node.inputs[0]
    if not a.element_type.is_integral or (a.element_type.bits < 32 and not isinstance(node.op, ir.Power1)):
        return fail("it does not compute integers of 32 bits or more")
    if isinstance(node.op, (Clamp1, ReLU1)):
        return fail(_IN_FLOAT32) if _are_small(a, node.outputs[0]) else exact.limit(builder, node.op, a)
    b = node.inputs[1]
    if isinstance(node.op, ir.Divide1):
        divide = exact.floor_divide if node.op.m_pythondiv else exact.divide
        return fail(_IN_FLOAT32) if is_small(a) else divide(builder, a, b)
    is_exact, meaning = _MEANINGS[type(node.op)]
    return fail(_IN_FLOAT32) if is_exact(a, b) else meaning(builder, a, b)
