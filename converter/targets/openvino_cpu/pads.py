"""Pad with a value that is computed at run time, as Pad and Select.

The plug-in pads with 0 instead. Its Select takes no floats of 8 bits, which are converted to f32 and back.

    data -> Pad(fill)      becomes      data -> Pad(0) ---------------------\\
                                        ones -> Pad(0) -> Convert(boolean) -> Select <- fill

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.lowering.layers import in_type
from converter.lowering.shapes import shape_of
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.operations.padding import Pad12
from ir_runtime.rewrite import Uses


@openvino_cpu.register("pads", after=["carried_types"])
def pads(model: Model) -> int:
    """Choose computed values where Pad put some other one."""
    return legalise(model, (Pad12,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    if len(node.inputs) < 4 or node.op.pad_mode != "constant" or node.inputs[3].type.constant is not None:  # type: ignore[attr-defined]
        return None
    data, before, after, fill = node.inputs
    padded = builder.emit(
        node.op, data, before, after, builder.like("" if data.element_type is element_types.string else 0, data)
    )
    # A conversion, for a comparison would be fused with Select, which then moves integers through float32.
    one = builder.constant(1, element_types.i32)
    ones = builder.emit(Broadcast3(mode="numpy"), one, shape_of(builder, data))
    kept = builder.emit(node.op, ones, before, after, builder.like(0, ones))
    kind = data.element_type
    choices = [
        in_type(builder, value, element_types.f32) if kind.bits == 8 and kind.is_real else value
        for value in (padded, fill)
    ]
    return in_type(builder, layers.select(builder, in_type(builder, kept, element_types.boolean), *choices), kind)
