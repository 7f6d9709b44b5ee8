"""Sums of table rows, the greatest rows of segments, and beams traced back."""

from __future__ import annotations

from typing import Union

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.layers import concat, known_list, rank_of, reduce, reshape, scalar, slice_along, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.segments import segment_sizes
from converter.to_onnx.sizes import Size, add, as_list, largest, positions, shape_list, size_from, size_of
from converter.to_onnx.updates import scatter_elements
from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.element_types import finfo
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.embedding import (
    EmbeddingBagOffsets15,
    EmbeddingBagOffsetsSum3,
    EmbeddingBagPacked15,
    EmbeddingBagPackedSum3,
    EmbeddingSegmentsSum3,
    GatherTree1,
    SegmentMax16,
)


def _int64(ctx: Context, value: Value) -> Value:
    return ctx.cast(value, element_types.i64)


def _rows(ctx: Context, table: Value, indices: Value, weights: Value | None) -> Value:
    """Rows of a table, each times its weight."""
    rows = ctx.emit("Gather", table, indices, axis=0)
    if weights is None:
        return rows
    behind = rank_of(ctx, table, "the table") - 1
    count = rank_of(ctx, indices, "the indices")
    axes = list(range(count, count + behind))
    return ctx.emit("Mul", rows, unsqueeze(ctx, ctx.cast(weights, rows.element_type), axes))


def _wide(ctx: Context, rows: Value) -> Value:
    """Rows in a type that sums are computed in."""
    return ctx.cast(rows, element_types.f32) if rows.element_type.bits < 32 else rows


def _spread(ctx: Context, segment: Value, rows: Value, behind: int) -> Value:
    """The number of each row's segment, for each of its elements."""
    numbers = unsqueeze(ctx, _int64(ctx, segment), list(range(1, behind + 1)))
    return ctx.emit("Expand", numbers, ctx.emit("Shape", rows)) if behind else numbers


def _start(ctx: Context, table: Value, count: Size, value: Value, behind: int) -> Value:
    """``count`` rows that hold one value."""
    sizes = [count, *[size_of(ctx, table, axis) for axis in range(1, behind + 1)]]
    return ctx.emit("Expand", value, shape_list(ctx, sizes))


def _summed(
    ctx: Context, table: Value, rows: Value, segment: Value, count: Size, default: Value | None, mean: bool
) -> Value:
    """Sums or means of the rows of each segment; ``default`` is the row of the table for empty ones."""
    behind = rank_of(ctx, table, "the table") - 1
    wide = _wide(ctx, rows)
    zeros = _start(ctx, table, count, ctx.like(0, wide), behind)
    index = _spread(ctx, segment, wide, behind)
    made = scatter_elements(ctx, zeros, index, wide, 0, "add")
    known = None if default is None else known_list(ctx, default)
    has_default = default is not None and (known is None or known[0] >= 0)
    if not (mean or has_default):
        return ctx.cast(made, table.element_type)
    sizes = unsqueeze(ctx, segment_sizes(ctx, segment, count), list(range(1, behind + 1)))
    if mean:
        made = ctx.emit("Div", made, ctx.cast(ctx.emit("Max", sizes, ctx.constant(1)), made.element_type))
    made = ctx.cast(made, table.element_type)
    if not has_default:
        return made
    assert default is not None
    is_empty = ctx.emit("Equal", sizes, ctx.constant(0))
    row = reshape(ctx, _int64(ctx, default), [1])
    if known is None:
        is_empty = ctx.emit("And", is_empty, ctx.emit("GreaterOrEqual", scalar(ctx, row), ctx.constant(0)))
        row = ctx.emit("Max", row, ctx.constant(0))
    return ctx.emit("Where", is_empty, ctx.emit("Gather", table, row, axis=0), made)


@ir_op(EmbeddingBagOffsetsSum3, EmbeddingBagOffsets15, local_function=True)
def embedding_bag_offsets(
    ctx: Context,
    op: Union[EmbeddingBagOffsetsSum3, EmbeddingBagOffsets15],
    table: Value,
    indices: Value,
    offsets: Value,
    default: Value | None = None,
    weights: Value | None = None,
) -> Value:
    """Gather, and ScatterElements that adds each row to its bag: the last one that starts before it"""
    places = unsqueeze(ctx, positions(ctx, size_of(ctx, indices, 0)), [1])
    begun = ctx.emit("LessOrEqual", _int64(ctx, offsets), places)
    count = ctx.emit("ReduceSum", _int64(ctx, begun), ctx.constant([1]), keepdims=0)
    bag = ctx.emit("Sub", count, ctx.constant(1))
    rows = _rows(ctx, table, indices, weights)
    mean = getattr(op, "reduction", "sum") == "mean"
    return _summed(ctx, table, rows, bag, size_of(ctx, offsets, 0), default, mean)


@ir_op(EmbeddingBagPackedSum3, EmbeddingBagPacked15, local_function=True)
def embedding_bag_packed(
    ctx: Context,
    op: Union[EmbeddingBagPackedSum3, EmbeddingBagPacked15],
    table: Value,
    indices: Value,
    weights: Value | None = None,
) -> Value:
    """Gather, and ReduceSum or ReduceMean of the rows of each bag"""
    rows = _wide(ctx, _rows(ctx, table, indices, weights))
    mean = getattr(op, "reduction", "sum") == "mean"
    made = reduce(ctx, "ReduceMean" if mean else "ReduceSum", rows, [1], keepdims=False)
    return ctx.cast(made, table.element_type)


@ir_op(EmbeddingSegmentsSum3, local_function=True)
def embedding_segments_sum(
    ctx: Context,
    op: EmbeddingSegmentsSum3,
    table: Value,
    indices: Value,
    segment: Value,
    count: Value,
    default: Value | None = None,
    weights: Value | None = None,
) -> Value:
    """Gather, and ScatterElements that adds each row to its segment"""
    rows = _rows(ctx, table, indices, weights)
    return _summed(ctx, table, rows, segment, size_from(ctx, count), default, False)


@ir_op(SegmentMax16, local_function=True)
def segment_max(ctx: Context, op: SegmentMax16, x: Value, segment: Value, count: Value | None = None) -> Value:
    """ScatterElements with the greatest number; rows of segments that are not asked for are cut off"""
    kind, behind = x.element_type, rank_of(ctx, x, "the data") - 1
    segment = _int64(ctx, segment)
    known = known_list(ctx, segment)
    found: Size
    if known is not None:
        found = known[-1] + 1 if known else 0
    else:
        last = concat(ctx, [ctx.constant([-1]), segment], 0)
        found = add(ctx, ctx.emit("Gather", last, ctx.constant([-1]), axis=0), 1)
    wanted = None if count is None else size_from(ctx, count)
    total = found if wanted is None else largest(ctx, found, wanted)
    wide = _wide(ctx, x) if kind.is_real else x
    lowest = -np.inf if kind.is_real else kind.limits[0]
    start = _start(ctx, x, total, ctx.like(lowest, wide), behind)
    index = _spread(ctx, segment, wide, behind)
    made = ctx.cast(scatter_elements(ctx, start, index, wide, 0, "max"), kind)
    if op.fill_mode == "zero" or kind.is_real:
        sizes = unsqueeze(ctx, segment_sizes(ctx, segment, total), list(range(1, behind + 1)))
        least = 0.0 if op.fill_mode == "zero" else float(finfo(kind).min)
        fill = ctx.like(least, x)
        made = ctx.emit("Where", ctx.emit("Equal", sizes, ctx.constant(0)), fill, made)
    return made if wanted is None else slice_along(ctx, made, 0, 0, as_list(ctx, wanted))


@ir_op(GatherTree1, local_function=True)
def gather_tree(ctx: Context, op: GatherTree1, ids: Value, parents: Value, lengths: Value, end: Value) -> Value:
    """Scan from the last step to the first, which follows the parents"""
    kind, name = ids.element_type, ctx.node.name
    steps, batch, beams = (size_of(ctx, ids, axis) for axis in range(3))
    end = scalar(ctx, ctx.cast(end, kind))
    first = ctx.emit("Expand", positions(ctx, beams), shape_list(ctx, [batch, beams]))
    last = unsqueeze(ctx, _int64(ctx, lengths), [1])
    graph = Graph(f"{name}/step")
    inner = ctx.inside(graph)
    plane = PartialShape.of_rank(2)
    parent = Value(TensorType(element_types.i64, plane), f"{name}/beam")
    chosen = Value(TensorType(kind, plane), f"{name}/ids")
    before = Value(TensorType(element_types.i64, plane), f"{name}/parents")
    step = Value(TensorType(element_types.i64, PartialShape(())), f"{name}/number")
    graph.inputs = [parent, chosen, before, step]
    is_inside = inner.emit("Less", step, last)
    token = inner.emit("Where", is_inside, inner.emit("GatherElements", chosen, parent, axis=1), end)
    onward = inner.emit("Where", is_inside, inner.emit("GatherElements", before, parent, axis=1), parent)
    graph.outputs = [onward, token]
    _, tokens = ctx.emit_many(
        "Scan",
        first,
        ids,
        _int64(ctx, parents),
        positions(ctx, steps),
        count=2,
        types=[element_types.i64, kind],
        body=graph,
        num_scan_inputs=3,
        scan_input_directions=[1, 1, 1],
        scan_output_directions=[1],
    )
    is_end = _int64(ctx, ctx.emit("Equal", tokens, end))
    ended = ctx.emit("Greater", ctx.emit("CumSum", is_end, ctx.constant(0)), ctx.constant(0))
    return ctx.emit("Where", ended, end, tokens)
