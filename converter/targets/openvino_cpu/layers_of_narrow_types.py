"""Layers that do not support an element type, computed in a wider type that holds all its values.

The plug-in moves elements of u2 and f4e2m1 as if each had a byte of its own, and so returns other elements. It
refuses GroupNormalization of bf16.

    x (u2) -> Slice                           becomes      x -> Convert(i32) -> Slice -> Convert(u2)
    x (bf16) -> GroupNormalization            becomes      x -> Convert(f32) -> GroupNormalization -> Convert(bf16)

A conversion to the wider type and back loses nothing. Transpose is wrong in both types and stays. Stored tables
of u2 have a rule of their own: :mod:`.gather_from_2_bit_tables`.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import ElementType, Node, Operation, element_types
from ir_runtime.operations.indexing import Gather8, GatherElements6, GatherND8
from ir_runtime.operations.movement import Broadcast3, Concat1, Tile1
from ir_runtime.operations.normalization import GroupNormalization12
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import in_type

_MOVES: tuple[type[Operation], ...] = (
    Broadcast3, Concat1, Gather8, GatherElements6, GatherND8, Pad12, Slice8, Split1, StridedSlice1, Tile1,
    VariadicSplit1,
)  # fmt: skip
_WIDER: dict[ElementType, tuple[ElementType, tuple[type[Operation], ...]]] = {
    element_types.u2: (element_types.i32, _MOVES),
    element_types.f4e2m1: (element_types.f32, _MOVES),
    element_types.bf16: (element_types.f32, (GroupNormalization12,)),
}
"""For each type the wider one that holds all its values, and the layers that need it."""


@openvino_cpu.replaces(
    "layers_of_narrow_types",
    *{operation for _, layers in _WIDER.values() for operation in layers},
    seen_in=("2023.3", "2024.6", "2025.4", "2026.4"),
)
def layers_of_narrow_types(builder: Builder, node: Node) -> Replacement:
    """Convert the inputs to the wider type, and the outputs back."""
    element_type = node.inputs[0].element_type
    wide, layers = _WIDER.get(element_type, (element_type, ()))
    if not isinstance(node.op, layers):
        return fail("the plug-in supports the element type in this layer")
    widened = [
        in_type(builder, source, wide) if source.element_type is element_type else source for source in node.inputs
    ]
    return [in_type(builder, value, element_type) for value in builder.emit_all(node.op, *widened)]
