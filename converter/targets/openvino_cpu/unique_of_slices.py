"""Unique of slices along another dimension than the first, as Unique along the first.

The plug-in may return equal neighbours more than once: of the columns of [[0, 1, 0, 0], [2, 1, 1, 1]] all four.

    x -> Unique(axis)      becomes      x -> Transpose -> Unique(0) -> Transpose
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, normalize_axis
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import transpose


@openvino_cpu.replaces("unique_of_slices", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def unique_of_slices(builder: Builder, node: Node) -> Replacement:
    """Move the dimension to the front, and back to its place."""
    data = node.inputs[0]
    axis = node.inputs[1].type.constant if len(node.inputs) > 1 else None
    if axis is None or not data.shape.has_rank:
        return fail("it has no constant axis, or the rank is dynamic")
    at = normalize_axis(int(axis.reshape(-1)[0]), data.shape.rank)
    if at == 0:
        return fail("the axis is the first one")
    # The other dimensions keep their order, in which slices are compared.
    rest = [other for other in range(data.shape.rank) if other != at]
    ahead, back = builder.constant([at, *rest]), builder.constant([*range(1, at + 1), 0, *range(at + 1, len(rest) + 1)])
    values, *others = builder.emit_all(node.op, transpose(builder, data, ahead), builder.constant(0))
    return [transpose(builder, values, back), *others]
