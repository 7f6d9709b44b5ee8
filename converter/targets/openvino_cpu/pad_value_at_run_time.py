"""Pad with a value that comes at run time, as Pad and Select.

The plug-in pads with 0 instead. Its Select does not support floats of 8 bits, which are converted to f32 and back.

    data -> Pad(fill)      becomes      data -> Pad(0) ---------------------\\
                                        ones -> Pad(0) -> Convert(boolean) -> Select <- fill
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, element_types
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import shape_of


@openvino_cpu.replaces("pad_value_at_run_time", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def pad_value_at_run_time(builder: Builder, node: Node) -> Replacement:
    """Pad with 0, and select the pad value where the same Pad of a tensor of ones has put a 0."""
    if len(node.inputs) < 4 or node.op.pad_mode != "constant" or node.inputs[3].type.constant is not None:  # type: ignore[attr-defined]
        return fail("the mode is not constant, or the pad value is omitted or constant")
    data, before, after, fill = node.inputs
    padded = builder.emit(
        node.op, data, before, after, builder.like("" if data.element_type is element_types.string else 0, data)
    )
    # A conversion, because a comparison would be fused with Select, which then rounds integers to float32.
    unit = builder.constant(1, element_types.i32)
    ones = builder.emit(Broadcast3(mode="numpy"), unit, shape_of(builder, data))
    mask = builder.emit(node.op, ones, before, after, builder.like(0, ones))
    element_type = data.element_type
    choices = [
        in_type(builder, value, element_types.f32) if element_type.bits == 8 and element_type.is_real else value
        for value in (padded, fill)
    ]
    return in_type(
        builder, layers.select(builder, in_type(builder, mask, element_types.boolean), *choices), element_type
    )
