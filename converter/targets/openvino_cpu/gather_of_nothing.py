"""Gather of no elements, as an empty Slice.

When it compiles a Gather of data with static dimensions, the plug-in divides by the number of elements of the result:
where that is 0, the process ends.

    x, no indices -> Gather      becomes      x -> Slice(0, 0) (-> Reshape)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.indexing import Gather7
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import cut
from ir_runtime.rewriting.shape_layers import concat_lists, part_of, shape_of


@openvino_cpu.replaces("gather_of_nothing", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def gather_of_nothing(builder: Builder, node: Node) -> Replacement:
    """Slice no elements, and reshape the result so that the dimensions of the indices replace the axis."""
    data, indices = node.inputs[:2]
    axis_values = node.inputs[2].type.constant
    if indices.shape.greatest_count or axis_values is None or not data.shape.has_rank:
        return fail("there may be indices, or the axis or the rank is dynamic")
    if isinstance(node.op, Gather7) and node.op.batch_dims:
        return fail("it has batch_dims")
    axis = int(axis_values.reshape(-1)[0]) % data.shape.rank
    empty = cut(builder, data, 0, 0, axis)
    if indices.shape.rank == 1:
        return empty
    shape = shape_of(builder, data)
    before, behind = part_of(builder, shape, 0, axis), part_of(builder, shape, axis + 1, data.shape.rank)
    target = concat_lists(builder, [before, shape_of(builder, indices), behind])
    return builder.emit(Reshape1(special_zero=False), empty, target)
