"""Convert to integers of 4 and 2 bits, which keeps the lowest bits.

Where another Convert follows, the plug-in drops both, and the upper bits stay.

    x -> Convert(u4) -> Convert(f32)      becomes      x -> Convert(i32) -> BitwiseAnd(15) -> Convert(u4) -> ...
    x -> Convert(i4) -> Convert(f32)      becomes      x -> Convert(i32) -> BitwiseLeftShift(28)
                                                         -> BitwiseRightShift(28) -> Convert(i4) -> ...

Values that are known to fit, as after a Clamp, stay as they are.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import ElementType, Node, Output, element_types
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import BitwiseAnd13, BitwiseLeftShift15, BitwiseRightShift15
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import in_type


@openvino_cpu.replaces("convert_to_packed_integers", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def convert_to_packed_integers(builder: Builder, node: Node) -> Replacement:
    """Take the lowest bits before the conversion."""
    (value,) = node.inputs
    element_type = node.outputs[0].element_type
    if (
        not (element_type.is_packed and element_type.is_integral)
        or value.tensor is not None
        or _fits(value, element_type)
    ):
        return fail("the type is no integer of 4 bits or less, or the input is constant or fits")
    whole = in_type(builder, value, element_types.i32)
    if not element_type.is_signed:
        mask = builder.like((1 << element_type.bits) - 1, whole)
        return in_type(builder, builder.emit(BitwiseAnd13(), whole, mask), element_type)
    above = builder.like(32 - element_type.bits, whole)
    raised = builder.emit(BitwiseLeftShift15(), whole, above)
    return in_type(builder, builder.emit(BitwiseRightShift15(), raised, above), element_type)


def _fits(value: Output, element_type: ElementType) -> bool:
    low, high = element_type.limits
    source = value.element_type
    if source is element_types.boolean:
        return True
    if source.is_integral and source.limits[0] >= low and source.limits[1] <= high:
        return True
    clamp = value.node.op
    return isinstance(clamp, Clamp1) and clamp.min >= low and clamp.max <= high
