"""Inverse matrices."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.layers import rank_of, slice_along, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import as_list, as_scalar, positions, shape_list, size_of
from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.linear_algebra import Inverse14

_END = int(np.iinfo(np.int64).max)


@ir_op(Inverse14, local_function=True)
def inverse(ctx: Context, op: Inverse14, x: Value) -> Value:
    """Loop of Gauss and Jordan's elimination in float64, which brings the largest pivot to its row"""
    rank, name = rank_of(ctx, x, "the matrices"), ctx.node.name
    size = size_of(ctx, x, -1)
    matrices = ctx.cast(x, element_types.f64)
    if op.adjoint:
        matrices = transpose(ctx, matrices, [*range(rank - 2), rank - 1, rank - 2])
    if rank != 3:
        matrices = ctx.emit("Reshape", matrices, shape_list(ctx, [-1, size, size]))
    rows = positions(ctx, size)
    unit = ctx.cast(ctx.emit("Equal", unsqueeze(ctx, rows, [1]), rows), element_types.f64)
    # The matrices with unit matrices on their right: the row operations that turn the left halves into unit matrices
    # turn the right halves into the inverses.
    start = ctx.emit("Concat", matrices, ctx.emit("Expand", unit, ctx.emit("Shape", matrices)), axis=2)
    graph = Graph(f"{name}/pivot")
    inner = ctx.inside(graph)
    place = Value(TensorType(element_types.i64, PartialShape(())), f"{name}/place")
    goes_on = Value(TensorType(element_types.boolean, PartialShape(())), f"{name}/condition")
    before = Value(TensorType(element_types.f64, PartialShape.of_rank(3)), f"{name}/rows")
    graph.inputs = [place, goes_on, before]
    swapped = _swapped(inner, before, place, rows)
    row = unsqueeze(inner, inner.emit("Gather", swapped, place, axis=1), [1])
    column = unsqueeze(inner, inner.emit("Gather", swapped, place, axis=2), [2])
    pivot = unsqueeze(inner, inner.emit("Gather", row, place, axis=2), [2])
    # Without a pivot there is no inverse: one NaN makes all numbers of the matrix NaN.
    is_none = inner.emit("Equal", pivot, inner.like(0, pivot))
    scaled = inner.emit("Div", row, inner.emit("Where", is_none, inner.like(np.nan, pivot), pivot))
    cleared = inner.emit("Sub", swapped, inner.emit("Mul", column, scaled))
    is_row = unsqueeze(inner, inner.emit("Equal", rows, place), [1])
    graph.outputs = [inner.constant(True), inner.emit("Where", is_row, scaled, cleared)]
    found = ctx.emit("Loop", as_scalar(ctx, size), None, start, type=element_types.f64, body=graph)
    made = ctx.cast(slice_along(ctx, found, 2, as_list(ctx, size), _END), x.element_type)
    return made if rank == 3 else ctx.emit("Reshape", made, ctx.emit("Shape", x))


def _swapped(ctx: Context, both: Value, place: Value, rows: Value) -> Value:
    """The rows with that of the largest pivot, among those from ``place`` on, at ``place``."""
    column = ctx.emit("Abs", ctx.emit("Gather", both, place, axis=2))
    ahead = ctx.emit("Less", rows, place)
    candidates = ctx.emit("Where", ahead, ctx.like(-1, column), column)
    best = ctx.emit("ArgMax", candidates, axis=1, keepdims=1, type=element_types.i64)
    # The row at place comes from the best one, the best one's from place.
    order = ctx.emit("Where", ctx.emit("Equal", rows, best), place, rows)
    order = ctx.emit("Where", ctx.emit("Equal", rows, place), best, order)
    return ctx.emit("GatherND", both, unsqueeze(ctx, order, [2]), batch_dims=1)
