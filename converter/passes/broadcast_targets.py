"""Broadcasts that widen dimensions of 1 by numbers that are known, and compute the others.

    x [b, 2, 1, t, 32], [b, 2, 4, t, 32] -> Broadcast         becomes      x, [1, 1, 4, 1, 1] -> Broadcast

A dimension of 1 in the target keeps that of ``x``. Exporters write the first form to repeat the heads of attention;
runtimes recognise the second one. Dimensions are those of ``x`` for whatever shapes.

    x [b, t], [1, 1, 1] -> Broadcast                          becomes      x -> Unsqueeze([0])

The second form says that nothing is repeated, for whatever shapes.
"""

from __future__ import annotations

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.rewriting import Builder, Replacement, fail, layers

from .registry import passes


@passes.replaces("broadcast_targets")
def broadcast_target(builder: Builder, node: Node) -> Replacement:
    """Write 1 for the dimensions of the target that the input has anyway."""
    x, target = node.inputs[:2]
    if node.op.mode == "explicit":  # type: ignore[attr-defined]
        return fail("axes tell where the dimensions go")
    if target.tensor is not None:
        values = target.tensor.array()
        if not x.shape.has_rank or values.size <= x.shape.rank or (values != 1).any():
            return fail("its target is constant, and does more than adding dimensions of 1")
        return layers.unsqueeze(builder, x, *range(values.size - x.shape.rank))
    dims, target_dims = symbolic_shapes().dims(x), symbolic_shapes().elements(target)
    if dims is None or target_dims is None or target_dims.size > len(dims):
        return fail("rank or target are not known, or it adds dimensions")
    own = dims[len(dims) - target_dims.size :]
    numbers = [1 if size == dim else size.value for size, dim in zip(target_dims.reshape(-1).tolist(), own)]
    if None in numbers:
        return fail("a dimension of the target is computed, and is not that of the input")
    constant = builder.constant(numbers, target.element_type)
    return builder.emit(Broadcast3(mode="bidirectional"), x, constant)
