"""Broadcast in both directions to an extent of 0, to a shape that is worked out.

The plug-in takes the greater of 0 and 1, and so makes something out of nothing.

    x -> Broadcast(bidirectional, [0, 3])      becomes      x -> Broadcast(numpy, max(shape of x, [0, 3]) * [0, 1])

Seen in OpenVINO 2023.3, 2024.6 and 2026.4.
"""

from __future__ import annotations

import numpy as np

from converter.lowering import layers
from converter.lowering.shapes import concat_lists, shape_of
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.rewrite import Uses


@openvino_cpu.register("empty_broadcasts")
def empty_broadcasts(model: Model) -> int:
    """Let a known extent of 0 make nothing out of something."""
    return legalise(model, (Broadcast3,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    data, shape = node.inputs[:2]
    known = shape.type.constant
    if node.op.mode != "bidirectional" or known is None or known.all():  # type: ignore[attr-defined]
        return None
    if not data.shape.has_rank:
        return None
    rank = max(data.shape.rank, known.size)
    wanted = np.concatenate([np.ones(rank - known.size, np.int64), known.reshape(-1).astype(np.int64)])
    present = shape_of(builder, data)
    if data.shape.rank < rank:
        present = concat_lists(builder, [builder.constant(np.ones(rank - data.shape.rank)), present])
    greater = layers.maximum(builder, present, builder.constant(wanted))
    target = layers.multiply(builder, greater, builder.constant(wanted != 0))
    return builder.emit(Broadcast3(mode="numpy"), data, target)
