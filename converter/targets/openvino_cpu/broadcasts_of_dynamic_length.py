"""Elementwise layers of a Broadcast to a computed shape, computed before the Broadcast.

The plug-in moves such a Broadcast behind the layer itself (BroadcastTransition), with the greater of both dimensions as
its target: where these are 0 and 1, so that the result is empty, it returns one element.

    x, shape -> Broadcast -> Multiply(k)      becomes      x -> Multiply(k), shape -> Broadcast(bidirectional)
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Dimension, Node, Output
from ir_runtime.operations.movement import Broadcast, Broadcast3
from ir_runtime.rewriting import Builder, Replacement, fail


@openvino_cpu.replaces("broadcasts_of_dynamic_length", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def broadcasts_of_dynamic_length(builder: Builder, node: Node) -> Replacement:
    """Compute before the Broadcast whose dimensions may be 0."""
    if node.op.auto_broadcast != "numpy":  # type: ignore[attr-defined]
        return fail("the shapes do not broadcast as in NumPy")
    for index, operand in enumerate(node.inputs):
        if _may_be_empty(operand, node.inputs[1 - index]):
            inputs = list(node.inputs)
            inputs[index], target = operand.node.inputs[:2]
            return builder.emit(Broadcast3(mode="bidirectional"), builder.emit(node.op, *inputs), target)
    return fail(
        "no operand is a Broadcast with one reader and a dimension that may be 0 where that of the other operand is 1"
    )


def _may_be_empty(operand: Output, other: Output) -> bool:
    """True if the plug-in moves the Broadcast ``operand``, and a dimension may be 0 where that of ``other`` is 1."""
    op = operand.node.op
    if not isinstance(op, Broadcast) or op.mode == "explicit" or len(operand.uses) != 1:
        return False
    if operand.node.inputs[1].tensor is not None:
        return False
    if not (operand.shape.has_rank and other.shape.has_rank):
        return True
    dims, other_dims = list(operand.shape)[::-1], list(other.shape)[::-1]
    other_dims += [Dimension(1, 1)] * (len(dims) - len(other_dims))
    return any(dimension.low == 0 and length.contains(1) for dimension, length in zip(dims, other_dims))
