"""Shifts of integers by constants, as quotients and products by powers of two.

BitwiseLeftShift(x, k)    becomes   Multiply(x, 2^k)
BitwiseRightShift(x, k)   becomes   Divide(x, 2^k), rounded down, where float32 holds every x
BitwiseRightShift(x, k)   becomes   Divide(x & -2^k, 2^k) otherwise: what is left has 32 - k bits, and float32
                                    holds 24; below 8 bits the lowest 8 are shifted apart from the others
"""

from __future__ import annotations

import numpy as np

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.openvino_cpu.intervals import is_small
from converter.targets.openvino_cpu.opaque_identity import opaque_identity
from converter.targets.registry import below_opset15
from ir_runtime.builder import Builder
from ir_runtime.element_types import Array
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import BitwiseAnd13, BitwiseLeftShift15, BitwiseRightShift15, Divide1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewrite import Uses

_APART = 8
"""So many of 32 bits must go for float32 to hold the others."""


@below_opset15.register("shifts")
def shifts(model: Model) -> int:
    """Put quotients and products in the place of shifts by constants."""
    return legalise(model, (BitwiseLeftShift15, BitwiseRightShift15), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    value, amount = node.inputs
    known = amount.type.constant
    if known is None or (known < 0).any() or (known >= value.element_type.bits - value.element_type.is_signed).any():
        return None
    amounts = known.astype(np.int64)
    if isinstance(node.op, BitwiseLeftShift15):
        if isinstance(value.node.op, Reduction):
            # The plug-in would compute the product as floats, together with the reduction.
            value = builder.emit(opaque_identity(value.element_type), value, value)
        return layers.multiply(builder, value, _powers(builder, amounts, value))
    if is_small(value) or (amounts >= _APART).all():
        return _divided(builder, value, amounts)
    if (amounts > _APART).any():
        return None
    high = layers.multiply(
        builder, _divided(builder, value, np.full_like(amounts, _APART)), _powers(builder, _APART - amounts, value)
    )
    low = builder.emit(BitwiseAnd13(), value, builder.like((1 << _APART) - 1, value))
    return layers.add(builder, high, _divided(builder, low, amounts))


def _divided(builder: Builder, value: Output, amounts: Array) -> Output:
    """The quotient by powers of two, of numbers of which float32 holds the bits above those that go."""
    powers = _powers(builder, amounts, value)
    if not is_small(value):
        # Minus the power, as the type has it: all the bits above those that go.
        above = -np.left_shift(1, amounts).astype(value.element_type.dtype)
        value = builder.emit(BitwiseAnd13(), value, builder.constant(above, value.element_type))
    return builder.emit(Divide1(m_pythondiv=True), value, powers)


def _powers(builder: Builder, amounts: Array, value: Output) -> Output:
    return builder.constant(np.left_shift(1, amounts), value.element_type)
