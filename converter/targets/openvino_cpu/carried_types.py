"""Element types that the plug-in does not take in some layers, carried by wider ones that hold all their values.

Elements of u2 and f4e2m1 are moved as if each had a byte of its own, so that others arrive; bf16 is refused by
GroupNormalization.

    x (u2) -> Slice                           becomes      x -> Convert(i32) -> Slice -> Convert(u2)
    x (bf16) -> GroupNormalization            becomes      x -> Convert(f32) -> GroupNormalization -> Convert(bf16)

A conversion to the wider type and back loses nothing. Transpose, which the plug-in gets wrong either
way, stays as it is. Stored tables stay as they are: :mod:`.gathered_tables`.
Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

from converter.lowering.layers import in_type
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime import element_types
from ir_runtime.builder import Builder
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operation import Operation
from ir_runtime.operations.indexing import Gather8, GatherElements6, GatherND8
from ir_runtime.operations.movement import Broadcast3, Concat1, Tile1
from ir_runtime.operations.normalization import GroupNormalization12
from ir_runtime.operations.padding import Pad12
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewrite import Uses

_MOVES: tuple[type[Operation], ...] = (
    Broadcast3, Concat1, Gather8, GatherElements6, GatherND8, Pad12, Slice8, Split1, StridedSlice1, Tile1,
    VariadicSplit1,
)  # fmt: skip
_WIDER: dict[ElementType, tuple[ElementType, tuple[type[Operation], ...]]] = {
    element_types.u2: (element_types.i32, _MOVES),
    element_types.f4e2m1: (element_types.f32, _MOVES),
    element_types.bf16: (element_types.f32, (GroupNormalization12,)),
}
"""For each type what holds all its values, and the layers that want that one."""


@openvino_cpu.register("carried_types", after=["gathered_tables", "group_normalizations", "lowest_bits"])
def carried_types(model: Model) -> int:
    """Let layers that do not take a type have a wider one."""
    return legalise(model, tuple({one for _, layers in _WIDER.values() for one in layers}), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> list[Output] | None:
    kind = node.inputs[0].element_type
    wide, layers = _WIDER.get(kind, (kind, ()))
    if not isinstance(node.op, layers):
        return None
    given = [in_type(builder, source, wide) if source.element_type is kind else source for source in node.inputs]
    return [in_type(builder, value, kind) for value in builder.emit_all(node.op, *given)]
