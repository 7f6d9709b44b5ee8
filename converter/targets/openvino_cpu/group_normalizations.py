"""GroupNormalization of ``[batch, channels]``, with a dimension behind the channels.

The plug-in refuses it where the extents come at run time.

    x -> GroupNormalization      becomes      x -> Unsqueeze(2) -> GroupNormalization -> Squeeze(2)

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.normalization import GroupNormalization12
from ir_runtime.rewrite import Uses


@openvino_cpu.register("group_normalizations")
def group_normalizations(model: Model) -> int:
    """Give what has nothing but channels one more dimension."""
    return legalise(model, (GroupNormalization12,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    data, scale, bias = node.inputs
    if not data.shape.has_rank or data.shape.rank != 2:
        return None
    made = builder.emit(node.op, layers.unsqueeze(builder, data, 2), scale, bias)
    return layers.squeeze(builder, made, builder.constant([2]))
