"""The negative branch of a PReLU with slopes along the last axis, with the slopes as a matrix of one row.

The plug-in fuses both branches into one PRelu, which applies slopes of one dimension along the channels (axis 1).

    x -> Negative -> ReLU -> Multiply([8])      becomes      x -> Negative -> ReLU -> Multiply([1, 8])
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Negative1
from ir_runtime.rewriting import Builder, Replacement, fail


@openvino_cpu.replaces("slopes_of_columns", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def slopes_of_columns(builder: Builder, node: Node) -> Replacement:
    """Give the slopes two dimensions."""
    for index, source in enumerate(node.inputs):
        tensor, data = source.tensor, node.inputs[1 - index]
        if tensor is None or len(tensor.shape) != 1 or tensor.size == 1:
            continue
        branch = data.node.inputs[0] if isinstance(data.node.op, Negative1) else data
        if isinstance(branch.node.op, ReLU1) and data.shape.has_rank and data.shape.rank > 2:
            inputs = list(node.inputs)
            inputs[index] = builder.constant(tensor.array().reshape(1, -1), source.element_type)
            return builder.emit(node.op, *inputs)
    return fail("it does not multiply a ReLU of three or more dimensions by a constant of one dimension")
