"""Attention weights of a lower rank than the values, with leading dimensions of 1.

The plug-in fuses a SoftMax between two matrix multiplications, and fails to compile it where the values of the second
one have a higher rank.

    SoftMax [h, q, k] -> MatMul(values [1, h, k, d])      becomes      SoftMax -> Unsqueeze([0]) -> MatMul
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.activation import SoftMax
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("attention_of_lower_rank", seen_in=("2024.6", "2025.4", "2026.4"))
def attention_of_lower_rank(builder: Builder, node: Node) -> Replacement:
    """Give the weights the rank of the values."""
    weights, values = node.inputs
    if not isinstance(weights.node.op, SoftMax):
        return fail("the first operand is not a SoftMax")
    if not (weights.shape.has_rank and values.shape.has_rank) or values.shape.rank <= weights.shape.rank:
        return fail("a rank is dynamic, or that of the values is not higher")
    if weights.shape.rank == 1:
        return fail("the weights are a vector, whose product has no rows; the plug-in computes that")
    axes = range(values.shape.rank - weights.shape.rank)
    return builder.emit(node.op, layers.unsqueeze(builder, weights, *axes), values)
