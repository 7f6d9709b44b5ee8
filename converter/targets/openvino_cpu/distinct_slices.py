"""Unique along another dimension than the first, as Unique along the first.

Of equal slices that follow one another the plug-in at times keeps several there: of the columns of
[[0, 1, 0, 0], [2, 1, 1, 1]] all four.

    x -> Unique(axis)      becomes      x -> Transpose -> Unique(0) -> Transpose

Seen in OpenVINO 2026.4.
"""

from __future__ import annotations

from converter.lowering.layers import transpose
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.sorting import Unique10
from ir_runtime.rewrite import Uses
from ir_runtime.shapes import normalize_axis


@openvino_cpu.register("distinct_slices")
def distinct_slices(model: Model) -> int:
    """Put the dimension in front, and back in its place."""
    return legalise(model, (Unique10,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> list[Output] | None:
    data = node.inputs[0]
    axis = node.inputs[1].type.constant if len(node.inputs) > 1 else None
    if axis is None or not data.shape.has_rank:
        return None
    at = normalize_axis(int(axis.reshape(-1)[0]), data.shape.rank)
    if at == 0:
        return None
    # The others stay in their order, by which slices are sorted.
    rest = [other for other in range(data.shape.rank) if other != at]
    ahead, back = builder.constant([at, *rest]), builder.constant([*range(1, at + 1), 0, *range(at + 1, len(rest) + 1)])
    values, *others = builder.emit_all(node.op, transpose(builder, data, ahead), builder.constant(0))
    return [transpose(builder, values, back), *others]
