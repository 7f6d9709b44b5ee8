"""A Transpose of the last two dimensions in front of a product becomes its attribute.

    a, b -> Transpose(0, 1, 3, 2) -> MatMul      becomes      a, b -> MatMul(transpose_b)

A Transpose that anything else reads stays.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes


@passes.replaces("transposes_in_products")
def transpose_in_product(builder: Builder, node: Node) -> Replacement:
    """Let the product read what the Transpose reads."""
    assert isinstance(node.op, MatMul1)
    inputs, flags = list(node.inputs), [node.op.transpose_a, node.op.transpose_b]
    for index, value in enumerate(node.inputs):
        if _swaps_the_last_two(value) and value.only_user is node:
            inputs[index], flags[index] = value.node.inputs[0], not flags[index]
    if tuple(inputs) == node.inputs:
        return fail("no input is a Transpose of the last two dimensions that nothing else reads")
    return builder.emit(MatMul1(transpose_a=flags[0], transpose_b=flags[1]), *inputs)


def _swaps_the_last_two(value: Output) -> bool:
    if not isinstance(value.node.op, Transpose1):
        return False
    x, order = value.node.inputs
    constant = order.type.constant
    if constant is None:
        return False
    axes = constant.reshape(-1).tolist()
    if not axes:
        return x.shape.has_rank and x.shape.rank == 2
    rank = len(axes)
    return rank > 1 and axes == [*range(rank - 2), rank - 1, rank - 2]
