"""Fuse the node sequences that exporters emit for reductions, and merge reductions in a row.

    x -> ReduceSum -> Divide(n), n elements          becomes      x -> ReduceMean
    x -> Abs -> ReduceSum                            becomes      x -> ReduceL1
    x -> Power(2) -> ReduceSum -> Sqrt               becomes      x -> ReduceL2
    x -> ReduceMean [3] -> ReduceMean [2]            becomes      x -> ReduceMean [2, 3]

A mean needs static dimensions, the product of which is the number. In a row come means, sums, maxima and minima.
"""

from __future__ import annotations

import math

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output, normalize_axes
from ir_runtime.operations import reduction as ir
from ir_runtime.operations.elementwise import Abs1, Power1, Sqrt1
from ir_runtime.operations.movement import Unsqueeze1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewriting import (
    Builder,
    Match,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
    number,
)

from .idioms import divided_by, has_shape_of, is_real, times
from .registry import passes

_X = anything("x", is_real)
_L1 = layer(ir.ReduceSum1, layer(Abs1, _X), anything("axes"))
_SQUARES = layer(ir.ReduceSum1, either(layer(Power1, _X, number(2)), times(_X, _X)), anything("axes"), name="sum")
_L2 = layer(Sqrt1, _SQUARES)
_IN_A_ROW = (ir.ReduceMean1, ir.ReduceSum1, ir.ReduceMax1, ir.ReduceMin1)


@passes.replaces("means")
def mean(builder: Builder, node: Node) -> Replacement:
    """Replace a sum over its number of elements by ReduceMean."""
    total = next((value for value in node.inputs if isinstance(value.node.op, ir.ReduceSum1)), None)
    if total is None:
        return fail("no operand is made by ReduceSum")
    x, axes = total.node.inputs
    axis_values = axes.type.constant
    if axis_values is None or not x.shape.has_rank:
        return fail("what is summed is not known")
    dims = [x.shape[axis] for axis in normalize_axes(axis_values.reshape(-1).tolist(), x.shape.rank)]
    if not dims or not all(dim.is_static and dim.value for dim in dims):
        return fail("how many elements are summed is not known")
    count = math.prod(dim.value for dim in dims)
    match = divided_by(layer(ir.ReduceSum1, anything("x", is_real), constant("axes")), count).find(node.outputs[0])
    if not has_shape_of(node.outputs[0], total):
        return fail("its rank is not that of the sum")
    match.check_private()
    return builder.emit(ir.ReduceMean1(keep_dims=_keeps_dims(total)), x, axes)


@passes.fuses("absolute_sums", _L1)
def absolute_sum(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace a sum of magnitudes by ReduceL1."""
    op = ir.ReduceL1_4(keep_dims=_keeps_dims(node.outputs[0]))
    return builder.emit(op, match["x"], match["axes"])


@passes.fuses("roots_of_squares", _L2)
def root_of_squares(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace the root of a sum of squares by ReduceL2."""
    if not has_shape_of(match.node("sum").inputs[0], match["x"]):
        return fail("the rank of the squares is not that of the input")
    op = ir.ReduceL2_4(keep_dims=_keeps_dims(match["sum"]))
    return builder.emit(op, match["x"], match["axes"])


@passes.replaces("reductions_in_a_row", *_IN_A_ROW)
def reduction_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Let the second of two reductions reduce the dimensions of both."""
    inner, op = node.inputs[0].node, node.op
    assert isinstance(op, ir.Reduction)
    if type(inner.op) is not type(op) or inner.op.attributes() != op.attributes():
        return fail("no reduction of the same kind is before it")
    x, first = inner.inputs[0], inner.inputs[1].type.constant
    second = node.inputs[1].type.constant
    if first is None or second is None or not x.shape.has_rank or not x.element_type.is_real:
        return fail("the dimensions are not known, or the values are integers")
    if inner.outputs[0].only_user is not node:
        return fail("something else reads the first reduction, too")
    rank = x.shape.rank
    early = normalize_axes(first.reshape(-1).tolist(), rank)
    left = range(rank) if op.keep_dims else [axis for axis in range(rank) if axis not in early]
    late = normalize_axes(second.reshape(-1).tolist(), len(left))
    axes = sorted({*early, *(left[axis] for axis in late)})
    return builder.emit(op, x, builder.constant(axes))


def _keeps_dims(value: Output) -> bool:
    op = value.node.op
    assert isinstance(op, ir.Reduction)
    return op.keep_dims


@passes.replaces("kept_dimensions")
def kept_dimension(builder: Builder, node: Node) -> Replacement:
    """Keep dimensions that a reduction drops, and that the next layer puts back as 1.

        x -> ReduceMean [2] -> Unsqueeze [2]           becomes      x -> ReduceMean(keep_dims) [2]
        x -> ReduceMean [2] -> Reshape [n, 5, 1]       becomes      x -> ReduceMean(keep_dims) [2]

    torch's exporter by Dynamo writes the second for variances, JAX both. The shape of a Reshape may be computed.
    """
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
