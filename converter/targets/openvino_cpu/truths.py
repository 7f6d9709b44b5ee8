"""Numbers as booleans: what differs from 0 is true.

The plug-in's Convert takes NaN and the least i32 for false, and refuses floats of less than 16 bits, and u2.

    x (f32) -> Convert(boolean)      becomes      x -> NotEqual(0)

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.lowering.layers import in_type
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.rewrite import Uses


@openvino_cpu.register("truths")
def truths(model: Model) -> int:
    """Compare numbers with 0."""
    return legalise(model, (Convert1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    (value,) = node.inputs
    kind = value.element_type
    if node.outputs[0].element_type is not element_types.boolean:
        return None
    if kind is element_types.boolean or (kind.is_integral and 2 < kind.bits < 32):
        return None
    if kind.bits < 16:
        value = in_type(builder, value, element_types.f32 if kind.is_real else element_types.i32)
    return layers.not_equal(builder, value, builder.like(0, value))
