"""Shifts of u32 to the right, which the plug-in computes as i32 and so repeats the topmost bit.

Seen in 2024.6 and 2026.4. An unsigned number must lose the copies of that bit:

    BitwiseRightShift(u32, n)   becomes   BitwiseRightShift(i32, n) and not BitwiseRightShift(i32 -2^31, n) * 2
"""

from __future__ import annotations

from converter.lowering.layers import in_type
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import (
    BitwiseAnd13,
    BitwiseLeftShift15,
    BitwiseNot13,
    BitwiseRightShift15,
)
from ir_runtime.rewrite import Uses

from .intervals import interval_of

_TOPMOST = 1 << 31


@openvino_cpu.register("unsigned_shifts")
def unsigned_shifts(model: Model) -> int:
    """Take copies of the topmost bit out of shifted u32."""
    return legalise(model, (BitwiseRightShift15,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    value, amount = node.inputs
    if value.element_type is not element_types.u32 or interval_of(value)[1] < _TOPMOST:
        return None
    signed = element_types.i32
    amount = in_type(builder, amount, signed)
    shifted = builder.emit(BitwiseRightShift15(), in_type(builder, value, signed), amount)
    top = builder.emit(BitwiseRightShift15(), builder.constant(-_TOPMOST, signed), amount)
    copies = builder.emit(BitwiseLeftShift15(), top, builder.constant(1, signed))
    kept = builder.emit(BitwiseAnd13(), shifted, builder.emit(BitwiseNot13(), copies))
    return in_type(builder, kept, element_types.u32)
