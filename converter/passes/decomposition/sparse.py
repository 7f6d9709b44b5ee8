"""Sparse matrices with a value in every row."""

from __future__ import annotations

from converter.passes.decomposition.embedding import segment_sizes
from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.sparse import SparseFillEmptyRows16
from ir_runtime.rewriting.expressions import Expression, concat


@decomposes(SparseFillEmptyRows16)
def sparse_fill_empty_rows(
    op: SparseFillEmptyRows16, values: Expression, sizes: Expression, places: Expression, default: Expression
) -> list[Expression]:
    """NonZero of the empty rows, whose places are added, and TopK, which sorts all places"""
    element_type, sizes, places = places.element_type, sizes.as_type("i64"), places.as_type("i64")
    empty = segment_sizes(places.gather(0, 1), sizes.gather(0)).equal(0)
    added = empty.non_zero()
    every = concat([places, added.pad([0, 0], [0, 1])], 0)
    filled = concat([values, default.broadcast(added.size(0))], 0)
    # The places in the order of rows and columns.
    order = (every.gather(0, 1) * sizes.gather(1) + every.gather(1, 1)).order(every.size(0))
    return [every.gather(order).as_type(element_type), filled.gather(order), empty]
