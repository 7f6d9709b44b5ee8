"""Sums of table rows, the greatest rows of segments, and beams traced back."""

from __future__ import annotations

from typing import Union

import numpy as np

from converter.passes.decomposition.registry import decomposes
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations import embedding as ir
from ir_runtime.operations.sorting import Bucketize3
from ir_runtime.rewriting.expressions import Expression, Operand, concat, loop, positions, where


def _rows(table: Expression, indices: Expression, weights: Expression | None) -> Expression:
    """Rows of a table, each times its weight, in a type that sums are computed in."""
    rows = table.gather(indices)
    if weights is not None:
        rows = rows * weights.as_type(rows.element_type).unsqueeze(*range(indices.rank, rows.rank))
    return rows.at_least_float32()


def _combine(rows: Expression, segment: Expression, count: Expression, start: Operand, reduction: str) -> Expression:
    """``count`` rows of the number ``start``, each combined with the rows of its segment."""
    sizes = rows.sizes()
    places = segment.as_type("i64").unsqueeze(*range(1, rows.rank)).broadcast(*sizes)
    return rows.of(start).broadcast(count, *sizes[1:]).scatter(places, rows, 0, reduction)


def segment_sizes(segment: Expression, count: Expression) -> Expression:
    """Count each number below ``count`` in a list."""
    return _combine(segment.of(1, "i64").broadcast(segment.size(0)), segment, count, 0, "sum")


def _bags(indices: Expression, offsets: Expression) -> Expression:
    """The bag of each index: the last one that starts before it."""
    return positions(indices.size(0)).emit(Bucketize3(with_right_bound=False), offsets.as_type("i64")) - 1


@decomposes(ir.EmbeddingBagOffsets15)
def embedding_bag_offsets(
    op: ir.EmbeddingBagOffsets15,
    table: Expression,
    indices: Expression,
    offsets: Expression,
    default: Expression | None = None,
    weights: Expression | None = None,
) -> Expression:
    """EmbeddingBagOffsetsSum-3, by the sizes of the bags for means"""
    more = [value for value in (default, weights) if value is not None]
    summed = table.at_least_float32().emit(ir.EmbeddingBagOffsetsSum3(), indices, offsets, *more)
    if op.reduction == "mean":
        sizes = segment_sizes(_bags(indices, offsets), offsets.size(0)).maximum(1)
        summed = summed.truncated(sizes.as_type(summed.element_type).unsqueeze(*range(1, table.rank)))
    return summed.as_type(table.element_type)


@decomposes(ir.EmbeddingBagOffsetsSum3)
def embedding_bag_offsets_sum(
    op: ir.EmbeddingBagOffsetsSum3,
    table: Expression,
    indices: Expression,
    offsets: Expression,
    default: Expression | None = None,
    weights: Expression | None = None,
) -> Expression:
    """EmbeddingSegmentsSum of the bags, whose numbers Bucketize gives"""
    more = [value for value in (default, weights) if value is not None]
    return table.emit(ir.EmbeddingSegmentsSum3(), indices, _bags(indices, offsets), offsets.size(0), *more)


@decomposes(ir.EmbeddingBagPackedSum3, ir.EmbeddingBagPacked15)
def embedding_bag_packed(
    op: Union[ir.EmbeddingBagPackedSum3, ir.EmbeddingBagPacked15],
    table: Expression,
    indices: Expression,
    weights: Expression | None = None,
) -> Expression:
    """Gather, and ReduceSum or ReduceMean of the rows of each bag"""
    rows = _rows(table, indices, weights)
    result = rows.mean(1) if getattr(op, "reduction", "sum") == "mean" else rows.sum(1)
    return result.as_type(table.element_type)


@decomposes(ir.EmbeddingSegmentsSum3)
def embedding_segments_sum(
    op: ir.EmbeddingSegmentsSum3,
    table: Expression,
    indices: Expression,
    segment: Expression,
    count: Expression,
    default: Expression | None = None,
    weights: Expression | None = None,
) -> Expression:
    """Gather, and ScatterElementsUpdate that adds each row to its segment"""
    count = count.as_type("i64")
    summed = _combine(_rows(table, indices, weights), segment, count, 0, "sum").as_type(table.element_type)
    row = None if default is None else default.elements()
    if default is None or (row is not None and row[0] < 0):
        return summed
    sizes, default = segment_sizes(segment, count), default.as_type("i64").reshape(1)
    is_empty = sizes.equal(0) & (default >= 0)
    return where(is_empty.unsqueeze(*range(1, table.rank)), table.gather(default.maximum(0)), summed)


@decomposes(ir.SegmentMax16)
def segment_max(op: ir.SegmentMax16, x: Expression, segment: Expression, count: Expression | None = None) -> Expression:
    """ScatterElementsUpdate with the greatest number; rows of segments that are not asked for are cut off"""
    element_type, segment = x.element_type, segment.as_type("i64")
    segments = concat([segment.of([-1]), segment], 0).gather(-1) + 1
    requested = segments if count is None else count.as_type("i64").reshape()
    total = segments.maximum(requested)
    result = _combine(
        x.at_least_float32(), segment, total, -np.inf if element_type.is_real else element_type.limits[0], "max"
    ).as_type(element_type)
    if op.fill_mode == "zero" or element_type.is_real:
        is_empty = segment_sizes(segment, total).equal(0).unsqueeze(*range(1, x.rank))
        result = where(is_empty, x.of(0 if op.fill_mode == "zero" else float(finfo(element_type).min)), result)
    return result if count is None else result.cut(0, 0, requested)


@decomposes(ir.GatherTree1)
def gather_tree(
    op: ir.GatherTree1, ids: Expression, parents: Expression, lengths: Expression, end: Expression
) -> Expression:
    """Loop from the last step to the first, which follows the parents"""
    steps, batch, beams = ids.sizes()
    parents, end = parents.as_type("i64"), end.as_type(ids.element_type).reshape()
    backwards = steps - 1 - positions(steps)

    def step(number: Expression, parent: Expression) -> list[Expression]:
        at = steps - 1 - number
        is_inside = at < lengths.as_type("i64").unsqueeze(1)
        token, onward = (value.gather(at).gather_elements(parent, 1) for value in (ids, parents))
        return [where(is_inside, onward, parent), where(is_inside, token, end)]

    tokens = loop(steps, [positions(beams).broadcast(batch, beams)], step)[1].gather(backwards)
    is_ended = tokens.equal(end).as_type("i64").cumulative_sum(0) > 0
    return where(is_ended, end, tokens)
