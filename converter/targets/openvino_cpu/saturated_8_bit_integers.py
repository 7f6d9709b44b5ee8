"""Arithmetic of 8-bit integers.

The plug-in saturates the results. Where dimensions are dynamic, it also rounds quotients to the nearest integer.
ONNX's integers wrap around, as the lowest bits of a wider type do, and its quotients are rounded towards zero.

    Add(u8, u8)      becomes   Convert(Add(Convert(i32), Convert(i32)), u8)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, element_types
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import in_type

_BYTES = (element_types.i8, element_types.u8)


@openvino_cpu.replaces("saturated_8_bit_integers", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def saturated_8_bit_integers(builder: Builder, node: Node) -> Replacement:
    """Compute 8-bit integers as i32."""
    element_type = node.outputs[0].element_type
    if element_type not in _BYTES:
        return fail("the output is not i8 or u8")
    wide = [in_type(builder, value, element_types.i32) for value in node.inputs]
    return in_type(builder, builder.emit(node.op, *wide), element_type)
