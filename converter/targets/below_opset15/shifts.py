"""Shifts of integers by constants, as quotients and products by powers of two.

BitwiseRightShift(x, k)   becomes   Divide(x, 2^k), rounded down, where float32 holds every x
BitwiseLeftShift(x, k)    becomes   Multiply(x, 2^k)
"""

from __future__ import annotations

import numpy as np

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.openvino_cpu.intervals import is_small
from converter.targets.registry import below_opset15
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import BitwiseLeftShift15, BitwiseRightShift15, Divide1
from ir_runtime.rewrite import Uses


@below_opset15.register("shifts")
def shifts(model: Model) -> int:
    """Put quotients and products in the place of shifts by constants."""
    return legalise(model, (BitwiseLeftShift15, BitwiseRightShift15), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    value, amount = node.inputs
    known = amount.type.constant
    if known is None or (known < 0).any() or (known >= value.element_type.bits - value.element_type.is_signed).any():
        return None
    power = builder.constant(np.left_shift(1, known.astype(np.int64)), value.element_type)
    if isinstance(node.op, BitwiseLeftShift15):
        return layers.multiply(builder, value, power)
    if not is_small(value):
        return None  # the plug-in divides in float32
    return builder.emit(Divide1(m_pythondiv=True), value, power)
