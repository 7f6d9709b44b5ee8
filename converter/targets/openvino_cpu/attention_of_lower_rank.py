"""Weights of attention of fewer dimensions than the values, with dimensions of 1 in front.

The plug-in does not compile a SoftMax between two matrix multiplications, which it fuses, of which the second has more
dimensions.

    SoftMax [h, q, k] -> MatMul(values [1, h, k, d])      becomes      SoftMax -> Unsqueeze([0]) -> MatMul
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.activation import SoftMax1, SoftMax8
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("attention_of_lower_rank", seen_in=("2024.6", "2025.4", "2026.4"))
def attention_of_lower_rank(builder: Builder, node: Node) -> Replacement:
    """Give the weights the rank of the values."""
    weights, values = node.inputs
    if not isinstance(weights.node.op, (SoftMax1, SoftMax8)):
        return fail("the first operand is not made by SoftMax")
    if not (weights.shape.has_rank and values.shape.has_rank) or values.shape.rank <= weights.shape.rank:
        return fail("a rank is dynamic, or that of the values is not higher")
    added = range(values.shape.rank - weights.shape.rank)
    return builder.emit(node.op, layers.unsqueeze(builder, weights, *added), values)
