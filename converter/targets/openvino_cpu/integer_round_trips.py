"""Conversions of whole floats to integers and back, which change nothing.

They are slow: before a float product the plug-in writes the quantised value as 8 bits and reads it back, and between
a product and its scale the whole product as 32 bits.

    Clamp(Round(x), 0, 255) -> Convert(u8) -> Convert(f32)      becomes      Clamp(Round(x), 0, 255)
    MatMul(whole floats) -> Convert(i32) -> Convert(f32)        becomes      MatMul(whole floats)
    MatMul(..) -> Convert(i32) -> Add(bias) -> Convert(f32)     becomes      MatMul(..) -> Add(Convert(bias, f32))
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, element_types
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.elementwise import Add1, Convert1, Round5, Subtract1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.rewriting import Builder, Replacement, fail, layers

_PRODUCTS = (MatMul1, Convolution1, GroupConvolution1)
_SCAN_LIMIT = 1 << 16
"""Bytes of a constant that are worth reading to learn whether its numbers are whole."""


@openvino_cpu.replaces("integer_round_trips", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def integer_round_trips(builder: Builder, node: Node) -> Replacement:
    """Remove conversions to an integer type and back."""
    if node.outputs[0].element_type is not element_types.f32:
        return fail("it does not convert to float32")
    there = node.inputs[0].node
    if isinstance(there.op, Add1):
        products = [_product(source) for source in there.inputs]
        if not any(products):
            return fail("it converts a sum without a product of whole floats")
        a, b = (
            product or layers.in_type(builder, source, element_types.f32)
            for product, source in zip(products, there.inputs)
        )
        return builder.emit(there.op, a, b)
    rounded = _product(node.inputs[0]) or _match_clamp(node.inputs[0])
    return rounded or fail("its input is no product or Clamp of whole floats that was converted to integers")


def _product(value: Output) -> Output | None:
    """The product of whole floats that was converted to ``value``."""
    source = _before_conversion(value)
    # As wide as the sums of integers that it stands for.
    if source is None or value.element_type.bits < 32 or not isinstance(source.node.op, _PRODUCTS):
        return None
    return source if all(_is_whole(factor) for factor in source.node.inputs) else None


def _match_clamp(value: Output) -> Output | None:
    """The whole floats that were converted to ``value``, all of them in the range of its type."""
    source = _before_conversion(value)
    if source is None or not isinstance(source.node.op, Clamp1):
        return None
    low, high = value.element_type.limits
    clamp = source.node.op
    return source if low <= clamp.min and clamp.max <= high and _is_whole(source.node.inputs[0]) else None


def _before_conversion(value: Output) -> Output | None:
    """The floats that were converted to the integers ``value``."""
    node = value.node
    if not isinstance(node.op, Convert1) or not value.element_type.is_integral:
        return None
    return node.inputs[0] if node.inputs[0].element_type is element_types.f32 else None


def _is_whole(value: Output, deepest: int = 8) -> bool:
    node = value.node
    tensor = value.tensor
    if tensor is not None and tensor.byte_size <= _SCAN_LIMIT:
        return bool((np.mod(tensor.array(), 1) == 0).all())
    if isinstance(node.op, Convert1):
        return node.inputs[0].element_type.is_integral
    if isinstance(node.op, Clamp1):
        ends = (node.op.min, node.op.max)
        return deepest > 0 and all(float(end).is_integer() for end in ends) and _is_whole(node.inputs[0], deepest - 1)
    if isinstance(node.op, (Add1, Subtract1)):
        return deepest > 0 and all(_is_whole(source, deepest - 1) for source in node.inputs)
    return isinstance(node.op, Round5)
