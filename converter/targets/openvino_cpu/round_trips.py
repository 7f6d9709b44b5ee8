"""Whole numbers that become integers and floats again at once stay floats.

Between the quantisation of a value and the float product that it goes into, the plug-in would write the value as
8 bits and read it back, and between a product and its scale all of it as 32 bits:

    Clamp(Round(x), 0, 255) -> Convert(u8) -> Convert(f32)      becomes      Clamp(Round(x), 0, 255)
    MatMul(whole numbers) -> Convert(i32) -> Convert(f32)       becomes      MatMul(whole numbers)
    MatMul(..) -> Convert(i32) -> Add(bias) -> Convert(f32)     becomes      MatMul(..) -> Add(Convert(bias, f32))
"""

from __future__ import annotations

import numpy as np

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.elementwise import Add1, Convert1, Round5, Subtract1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.rewrite import Uses

_PRODUCTS = (MatMul1, Convolution1, GroupConvolution1)
_SCAN_LIMIT = 1 << 16
"""Bytes of a constant that are worth reading to learn whether its numbers are whole."""


@openvino_cpu.register("round_trips", after=["integer_products", "fake_quantize"])
def round_trips(model: Model) -> int:
    """Leave out conversions to an integer type and back that change nothing."""
    return legalise(model, (Convert1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    if node.outputs[0].element_type is not element_types.f32:
        return None
    there = node.inputs[0].node
    if isinstance(there.op, Add1):
        products = [_product(source) for source in there.inputs]
        if not any(products):
            return None
        a, b = (
            product or layers.in_type(builder, source, element_types.f32)
            for product, source in zip(products, there.inputs)
        )
        return builder.emit(there.op, a, b)
    return _product(node.inputs[0]) or _clamped(node.inputs[0])


def _product(value: Output) -> Output | None:
    """The product of whole floats that a value is the integers of."""
    source = _before_conversion(value)
    # As wide as the sums of integers that it stands for.
    if source is None or value.element_type.bits < 32 or not isinstance(source.node.op, _PRODUCTS):
        return None
    return source if all(_is_whole(factor) for factor in source.node.inputs) else None


def _clamped(value: Output) -> Output | None:
    """The whole floats that a value is the integers of, none of them beyond its type."""
    source = _before_conversion(value)
    if source is None or not isinstance(source.node.op, Clamp1):
        return None
    low, high = value.element_type.limits
    clamp = source.node.op
    return source if low <= clamp.min and clamp.max <= high and _is_whole(source.node.inputs[0]) else None


def _before_conversion(value: Output) -> Output | None:
    """The floats that became integers."""
    node = value.node
    if not isinstance(node.op, Convert1) or not value.element_type.is_integral:
        return None
    return node.inputs[0] if node.inputs[0].element_type is element_types.f32 else None


def _is_whole(value: Output, deepest: int = 8) -> bool:
    node = value.node
    known = value.tensor
    if known is not None and known.byte_size <= _SCAN_LIMIT:
        return bool((np.mod(known.array(), 1) == 0).all())
    if isinstance(node.op, Convert1):
        return node.inputs[0].element_type.is_integral
    if isinstance(node.op, Clamp1):
        ends = (node.op.min, node.op.max)
        return deepest > 0 and all(float(end).is_integer() for end in ends) and _is_whole(node.inputs[0], deepest - 1)
    if isinstance(node.op, (Add1, Subtract1)):
        return deepest > 0 and all(_is_whole(source, deepest - 1) for source in node.inputs)
    return isinstance(node.op, Round5)
