"""Convert of numbers to boolean: what differs from 0 is true.

The plug-in converts NaN and the least i32 to false. It refuses floats of less than 16 bits, and u2.

    x (f32) -> Convert(boolean)      becomes      x -> NotEqual(0)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, element_types
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.layers import in_type


@openvino_cpu.replaces("convert_to_boolean", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def convert_to_boolean(builder: Builder, node: Node) -> Replacement:
    """Compare numbers with 0."""
    (value,) = node.inputs
    element_type = value.element_type
    if node.outputs[0].element_type is not element_types.boolean:
        return fail("it does not convert to boolean")
    if element_type is element_types.boolean or (element_type.is_integral and 2 < element_type.bits < 32):
        return fail("the plug-in converts this type to boolean correctly")
    if element_type.bits < 16:
        value = in_type(builder, value, element_types.f32 if element_type.is_real else element_types.i32)
    return layers.not_equal(builder, value, builder.like(0, value))
