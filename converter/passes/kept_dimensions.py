"""Dimensions that a reduction drops, and that the next layer puts back as 1, are kept.

    x -> ReduceMean [2] -> Unsqueeze [2]           becomes      x -> ReduceMean(keep_dims) [2]
    x -> ReduceMean [2] -> Reshape [n, 5, 1]       becomes      x -> ReduceMean(keep_dims) [2]

torch's exporter by Dynamo writes the second for variances, JAX both. The shape of a Reshape may be computed.
"""

from __future__ import annotations

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, normalize_axes
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes


@passes.replaces("kept_dimensions")
def kept_dimension(builder: Builder, node: Node) -> Replacement:
    """Let the reduction keep the dimensions."""
    reduced, result = node.inputs[0], node.outputs[0]
    reduction = reduced.node
    if not isinstance(reduction.op, Reduction) or reduction.op.keep_dims:
        return fail("no reduction that drops dimensions is before it")
    x, axes = reduction.inputs
    if axes.type.constant is None or not x.shape.has_rank or not result.shape.has_rank:
        return fail("which dimensions are dropped is not known")
    if result.shape.rank != x.shape.rank:
        return fail("its rank is not that of what is reduced")
    if reduced.only_user is not node:
        return fail("something else reads the reduction, too")
    dropped = normalize_axes(axes.type.constant.reshape(-1).tolist(), x.shape.rank)
    if not _are_put_back(node, dropped):
        return fail("it does not put back, as 1, just the dimensions that were dropped")
    return builder.emit(type(reduction.op)(keep_dims=True), x, axes)


def _are_put_back(node: Node, dropped: tuple[int, ...]) -> bool:
    reduced, result = node.inputs[0], node.outputs[0]
    if isinstance(node.op, Unsqueeze1):
        added = node.inputs[1].type.constant
        return added is not None and sorted(normalize_axes(added.reshape(-1).tolist(), result.shape.rank)) == sorted(
            dropped
        )
    dims = symbolic_shapes().dims(result)
    if dims is None or any(dims[axis].value != 1 for axis in dropped):
        return False
    return [dimension for axis, dimension in enumerate(dims) if axis not in dropped] == symbolic_shapes().dims(reduced)
