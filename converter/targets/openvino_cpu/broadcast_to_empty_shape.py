"""Broadcast in both directions to a constant shape with a 0, as Broadcast in one direction to a computed shape.

The plug-in takes the greater of 0 and 1, and so returns elements where there are none.

    x -> Broadcast(bidirectional, [0, 3])      becomes      x -> Broadcast(numpy, shape of x * [0, 0] + [0, 3])
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.shape_layers import concat_lists, shape_of


@openvino_cpu.replaces("broadcast_to_empty_shape", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def broadcast_to_empty_shape(builder: Builder, node: Node) -> Replacement:
    """Compute the output's shape: dimensions of 1 in the target shape are those of the data."""
    data, shape = node.inputs[:2]
    constant = shape.type.constant
    if node.op.mode != "bidirectional" or constant is None or constant.all():  # type: ignore[attr-defined]
        return fail("the mode is not bidirectional, or the target shape is not constant or has no 0")
    if not data.shape.has_rank:
        return fail("the rank is dynamic")
    rank = max(data.shape.rank, constant.size)
    target_shape = np.concatenate([np.ones(rank - constant.size, np.int64), constant.reshape(-1).astype(np.int64)])
    present = shape_of(builder, data)
    if data.shape.rank < rank:
        present = concat_lists(builder, [builder.constant(np.ones(rank - data.shape.rank, np.int64)), present])
    is_one = target_shape == 1
    from_data = layers.multiply(builder, present, builder.constant(is_one.astype(np.int64)))
    target = layers.add(builder, from_data, builder.constant(np.where(is_one, 0, target_shape)))
    return builder.emit(Broadcast3(mode="numpy"), data, target)
