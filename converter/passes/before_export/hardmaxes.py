"""Fuse the first greatest element of each row, written as OneHot of its index, into Hardmax.

x -> TopK(1) -> Squeeze -> OneHot(dimension of x, 1, 0)       becomes       x -> Hardmax
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations import indexing as ir
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.movement import Squeeze1
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting import Builder, Replacement, fail

from .operators import emit_operator
from .registry import before_export


@before_export.replaces("hardmaxes")
def hardmax(builder: Builder, node: Node) -> Replacement:
    """Replace OneHot by Hardmax."""
    index, depth, on, off = node.inputs
    best = index.node.inputs[0] if isinstance(index.node.op, Squeeze1) else index
    top_k = best.node.op
    if not isinstance(top_k, TopK11) or best.index != 1 or index is best:
        return fail("its index is not that of TopK")
    x, count = best.node.inputs
    values = [value.type.constant for value in (count, on, off)]
    if not x.shape.has_rank or any(value is None for value in values) or on.element_type is not x.element_type:
        return fail("the rank, or a value, is not known, or the types differ")
    assert isinstance(node.op, ir.OneHot1)
    axis = top_k.axis % x.shape.rank
    is_first = top_k.mode == "max" and top_k.stable and [float(value.reshape(-1)[0]) for value in values] == [1, 1, 0]  # type: ignore[union-attr]
    is_along = node.op.axis % x.shape.rank == axis and index.shape.has_rank and index.shape.rank == x.shape.rank - 1
    if not is_first or not is_along or not _is_length(depth, x, axis):
        return fail("it does not mark the first greatest element along the axis")
    return emit_operator(builder, "Hardmax", [x], node.outputs, axis=axis)


def _is_length(value: Output, x: Output, axis: int) -> bool:
    """True if a value is the dimension of ``x`` along the axis."""
    constant = value.type.constant
    if constant is not None:
        return x.shape[axis].is_static and int(constant.reshape(-1)[0]) == x.shape[axis].value
    if not isinstance(value.node.op, ir.Gather):
        return False
    shape, position = value.node.inputs[0].node, value.node.inputs[1].type.constant
    return (
        isinstance(shape.op, ShapeOf)
        and shape.inputs[0] is x
        and position is not None
        and int(position.reshape(-1)[0]) % x.shape.rank == axis
    )
