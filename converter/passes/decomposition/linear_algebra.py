"""Inverse matrices, and products of groups of rows with a matrix each."""

from __future__ import annotations

import numpy as np

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.linear_algebra import Inverse14
from ir_runtime.operations.matmul import GroupedMatMul17
from ir_runtime.rewriting.expressions import Expression, concat, loop, positions, where


@decomposes(Inverse14)
def inverse(op: Inverse14, x: Expression) -> Expression:
    """Loop of Gauss and Jordan's elimination in float64, which brings the largest pivot to its row"""
    size = x.size(-1)
    matrices = x.as_type("f64").reshape(-1, size, size)
    if op.adjoint:
        matrices = matrices.transpose(0, 2, 1)
    rows = positions(size)
    unit = rows.unsqueeze(1).equal(rows).as_type("f64").broadcast(*matrices.sizes())

    def step(place: Expression, before: Expression) -> list[Expression]:
        swapped = _swap(before, place, rows)
        row, column = swapped.gather(place, 1).unsqueeze(1), swapped.gather(place, 2).unsqueeze(2)
        pivot = row.gather(place, 2).unsqueeze(2)
        # Without a pivot there is no inverse: one NaN makes all numbers of the matrix NaN.
        scaled = row / where(pivot.equal(0), pivot.of(np.nan), pivot)
        return [where(rows.equal(place).unsqueeze(1), scaled, swapped - column * scaled)]

    # The matrices with unit matrices on their right: the row operations that turn the left halves into unit matrices
    # turn the right halves into the inverses.
    eliminated = loop(size, [concat([matrices, unit], 2)], step)[0]
    return eliminated.cut(2, size).as_type(x.element_type).reshape(*x.sizes())


def _swap(both: Expression, place: Expression, rows: Expression) -> Expression:
    """The rows with that of the largest pivot, among those from ``place`` on, at ``place``."""
    column = abs(both.gather(place, 2))
    best = where(rows < place, column.of(-1), column).top(1, 1)[1]
    # The row at place comes from the best one, the best one's from place.
    order = where(rows.equal(best), place, where(rows.equal(place), best, rows))
    return both.gather_nd(order.unsqueeze(2), 1)


@decomposes(GroupedMatMul17)
def grouped_matmul(op: GroupedMatMul17, a: Expression, b: Expression, ends: Expression | None = None) -> Expression:
    """MatMul; of rows of one matrix a Loop over the groups, which puts the products into the rows of each"""
    matrices = b.transpose(0, 2, 1)
    if a.rank == 3 or ends is None:
        return a.matmul(matrices)
    ends = ends.as_type("i64")
    starts = concat([ends.of([0]), ends], 0)
    count = a.size(0)

    def step(group: Expression, before: Expression) -> list[Expression]:
        start, end = starts.gather(group), ends.gather(group)
        product = a.cut(0, start, end).matmul(matrices.gather(group))
        return [concat([before.cut(0, 0, start), product, before.cut(0, end)], 0).reshape(count, b.size(1))]

    return loop(b.size(0), [a.of(0).broadcast(count, b.size(1))], step)[0]
