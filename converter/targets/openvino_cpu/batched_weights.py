"""Products of one matrix, whose extents come at run time, by several stored ones, with a copy for each.

The plug-in makes one batch of the product where there should be several, and fails.

    x [1, t, i] -> MatMul(weights [e, i, o])      becomes      x -> Broadcast [e, 1, 1] -> MatMul(weights)

Seen in OpenVINO 2026.4. Extents that are all known, and weights of more dimensions, are multiplied rightly.
"""

from __future__ import annotations

from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.rewrite import Uses


@openvino_cpu.register("batched_weights", after=["fake_quantize", "integer_products"])
def batched_weights(model: Model) -> int:
    """Repeat single matrices that are multiplied by several."""
    return legalise(model, (MatMul1,), _said)


def _said(builder: Builder, node: Node, uses: Uses) -> Output | None:
    data, weights = node.inputs
    if data.shape.is_static or not data.shape.has_rank or data.shape.rank not in (2, 3):
        return None
    if not weights.shape.has_rank or weights.shape.rank != 3 or not _is_stored(weights):
        return None
    count = weights.shape[0]
    single = data.shape.rank == 2 or data.shape[0].contains(1)
    if not single or not count.is_static or count.value < 2:
        return None
    shape = builder.constant([count.value, 1, 1])
    copies = builder.emit(Broadcast3(mode="bidirectional"), data, shape)
    return builder.emit(node.op, copies, weights)


def _is_stored(value: Output, deepest: int = 6) -> bool:
    """Whether nothing but constants leads to it; weights may be compressed and turned round."""
    if value.tensor is not None or not value.node.inputs:
        return value.tensor is not None
    return deepest > 0 and all(_is_stored(source, deepest - 1) for source in value.node.inputs)
