"""Conversions to integers of 4 and 2 bits, which keep the lowest bits.

Where such integers are converted back, the plug-in leaves both conversions out, and the other bits stay.

    x -> Convert(u4) -> Convert(f32)      becomes      x -> Convert(i32) -> BitwiseAnd(15) -> Convert(u4) -> ...
    x -> Convert(i4) -> Convert(f32)      becomes      x -> Convert(i32) -> BitwiseLeftShift(28)
                                                         -> BitwiseRightShift(28) -> Convert(i4) -> ...

Values that are known to have no more bits, as behind a Clamp, stay as they are. Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

from converter.lowering.layers import in_type
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import BitwiseAnd13, BitwiseLeftShift15, BitwiseRightShift15, Convert1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("lowest_bits", after=["fake_quantize", "round_trips"])
def lowest_bits(model: Model) -> int:
    """Cut the lowest bits out before they are all that is left."""
    return legalise(model, (Convert1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    (value,) = node.inputs
    kind = node.outputs[0].element_type
    if not (kind.is_packed and kind.is_integral) or value.tensor is not None or _fits(value, kind):
        return None
    whole = in_type(builder, value, element_types.i32)
    if not kind.is_signed:
        mask = builder.like((1 << kind.bits) - 1, whole)
        return in_type(builder, builder.emit(BitwiseAnd13(), whole, mask), kind)
    above = builder.like(32 - kind.bits, whole)
    raised = builder.emit(BitwiseLeftShift15(), whole, above)
    return in_type(builder, builder.emit(BitwiseRightShift15(), raised, above), kind)


def _fits(value: Output, kind: ElementType) -> bool:
    low, high = kind.limits
    source = value.element_type
    if source is element_types.boolean:
        return True
    if source.is_integral and source.limits[0] >= low and source.limits[1] <= high:
        return True
    clamp = value.node.op
    return isinstance(clamp, Clamp1) and clamp.min >= low and clamp.max <= high
