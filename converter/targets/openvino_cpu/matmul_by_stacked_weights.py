"""MatMul of one matrix with dynamic dimensions by a stored stack of matrices.

The plug-in gives the product one batch instead of one for each stored matrix, and fails.

    x [1, t, i] -> MatMul(weights [e, i, o])      becomes      x -> Broadcast [e, 1, 1] -> MatMul(weights)

The product of static dimensions is right, and so is that of weights of more dimensions.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.rewriting import Builder, Replacement, fail


@openvino_cpu.replaces("matmul_by_stacked_weights", since="2025.1", seen_in=("2025.4", "2026.4"))
def matmul_by_stacked_weights(builder: Builder, node: Node) -> Replacement:
    """Repeat the matrix for each of the stored ones."""
    data, weights = node.inputs
    if data.shape.is_static or not data.shape.has_rank or data.shape.rank not in (2, 3):
        return fail("the first input has a static shape, or its rank is not 2 or 3")
    if not weights.shape.has_rank or weights.shape.rank != 3 or not _is_stored(weights):
        return fail("the second input is not made of constants alone, or its rank is not 3")
    count = weights.shape[0]
    single = data.shape.rank == 2 or data.shape[0].contains(1)
    if not single or not count.is_static or count.value < 2:
        return fail("the first input is never a single matrix, or the second one has less than 2 matrices")
    shape = builder.constant([count.value, 1, 1])
    copies = builder.emit(Broadcast3(mode="bidirectional"), data, shape)
    return builder.emit(node.op, copies, weights)


def _is_stored(value: Output, deepest: int = 6) -> bool:
    """True if it is computed from constants alone; weights may be compressed and transposed."""
    if value.tensor is not None or not value.node.inputs:
        return value.tensor is not None
    return deepest > 0 and all(_is_stored(source, deepest - 1) for source in value.node.inputs)
