"""Whole numbers that become integers and floats again at once stay floats.

Between the quantisation of a value and the float product that it goes into, the plug-in would write the value as
8 bits and read it back:

    Clamp(Round(x), 0, 255) -> Convert(u8) -> Convert(f32)      becomes      Clamp(Round(x), 0, 255)
"""

from __future__ import annotations

from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Add1, Convert1, Round5, Subtract1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("round_trips", after=["integer_products", "fake_quantize"])
def round_trips(model: Model) -> int:
    """Leave out conversions to an integer type and back that change nothing."""
    return legalise(model, (Convert1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    there = node.inputs[0].node
    if node.outputs[0].element_type is not element_types.f32 or not isinstance(there.op, Convert1):
        return None
    kind, source = there.op.destination_type, there.inputs[0]
    clamp = source.node
    if not kind.is_integral or not isinstance(clamp.op, Clamp1) or source.element_type is not element_types.f32:
        return None
    low, high = kind.limits
    if clamp.op.min < low or clamp.op.max > high or not _is_whole(clamp.inputs[0]):
        return None
    return source


def _is_whole(value: Output, deepest: int = 3) -> bool:
    node = value.node
    if isinstance(node.op, Convert1):
        return node.inputs[0].element_type.is_integral
    if isinstance(node.op, Clamp1):
        ends = (node.op.min, node.op.max)
        return deepest > 0 and all(float(end).is_integer() for end in ends) and _is_whole(node.inputs[0], deepest - 1)
    if isinstance(node.op, (Add1, Subtract1)):
        return deepest > 0 and all(_is_whole(source, deepest - 1) for source in node.inputs)
    return isinstance(node.op, Round5)
