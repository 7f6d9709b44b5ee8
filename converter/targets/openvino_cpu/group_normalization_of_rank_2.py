"""GroupNormalization of ``[batch, channels]``, with one more dimension after the channels.

The plug-in refuses it where the dimensions are dynamic.

    x -> GroupNormalization      becomes      x -> Unsqueeze(2) -> GroupNormalization -> Squeeze(2)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("group_normalization_of_rank_2", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def group_normalization_of_rank_2(builder: Builder, node: Node) -> Replacement:
    """Add a dimension of 1, and remove it again."""
    data, scale, bias = node.inputs
    if not data.shape.has_rank or data.shape.rank != 2:
        return fail("the rank is not 2")
    normalized = builder.emit(node.op, layers.unsqueeze(builder, data, 2), scale, bias)
    return layers.squeeze(builder, normalized, builder.constant([2]))
