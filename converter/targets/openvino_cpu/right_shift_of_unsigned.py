"""Right shifts of u32.

The plug-in shifts them as i32, and so copies of the topmost bit fill the upper bits. The rule clears these:

    BitwiseRightShift(u32, n)   becomes   BitwiseRightShift(i32, n) and not BitwiseRightShift(i32 -2^31, n) * 2
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, element_types
from ir_runtime.operations.elementwise import BitwiseAnd13, BitwiseLeftShift15, BitwiseNot13, BitwiseRightShift15
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import in_type

from .intervals import interval_of

_TOPMOST = 1 << 31


@openvino_cpu.replaces("right_shift_of_unsigned", seen_in=("2024.6", "2025.4", "2026.4"))
def right_shift_of_unsigned(builder: Builder, node: Node) -> Replacement:
    """Clear the copies of the topmost bit."""
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
