"""Attention, convolutions of signs, inverse matrices and error functions, products of groups of rows."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ir_runtime.graph import element_types
from ir_runtime.operations.activation import SoftMax8
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.convolution import BinaryConvolution1, Convolution1
from ir_runtime.operations.error_function import END, MIDDLE, OUTER, ErfInv17
from ir_runtime.operations.matmul import GroupedMatMul17, Inverse14
from ir_runtime.rewriting.expressions import Expression, concat, loop, positions, where

from .registry import decomposes


@decomposes(ScaledDotProductAttention13)
def attention(
    op: ScaledDotProductAttention13,
    query: Expression,
    key: Expression,
    value: Expression,
    mask: Expression | None = None,
    scale: Expression | None = None,
    sink: Expression | None = None,
) -> Expression:
    """Softmax of the scaled products of queries and keys, with masked ones hidden, times the values"""
    width = query.size(query.rank - 1).as_type(query.element_type)
    factor = 1 / width.sqrt() if scale is None else scale.reshape()
    scores = (query * factor).matmul(key.transpose(*range(key.rank - 2), key.rank - 1, key.rank - 2))
    *lead, rows, columns = scores.sizes()
    if op.causal:
        mask = positions(columns) <= positions(rows).unsqueeze(1)
    if mask is not None and mask.element_type is element_types.boolean:
        scores = where(mask, scores, -np.inf)
    elif mask is not None and mask.rank:  # a scalar that is no boolean means no mask
        scores = scores + mask
    if sink is not None:
        scores = concat([scores, sink.broadcast(*lead, rows, 1)], scores.rank - 1)
    shares = scores.emit(SoftMax8(axis=-1))
    return (shares if sink is None else shares.cut(-1, 0, columns)).matmul(value)


@decomposes(BinaryConvolution1)
def binary_convolution(op: BinaryConvolution1, x: Expression, weights: Expression) -> Expression:
    """Convolution of the signs: -1 for 0, 1 for any other number; padding has the sign of ``pad_value``"""
    single = x.of(1, "f32")
    signs, kernel = (where(operand.as_type("boolean"), single, -1) for operand in (x, weights))
    fill = 1 if op.pad_value else -1
    # Signs less the padding's are 0 in the padding; the sum of the kernel times the padding's sign is added back.
    result = (signs - fill).emit(op.as_operation(Convolution1), kernel) + kernel.sum(1, 2, 3).unsqueeze(1, 2) * fill
    return result.as_type(x.element_type)


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Expression) -> Expression:
    """The quotient of two polynomials, by Horner's rule from the highest power down."""
    above, below = (
        functools.reduce(lambda value, fraction: value * x + fraction, rest, x.of(first))
        for first, *rest in coefficients
    )
    return above / below


@decomposes(ErfInv17)
def erf_inv(op: ErfInv17, x: Expression) -> Expression:
    """Quotients of polynomials in float64: in the middle, towards the ends and at the ends"""
    half = x.as_type("f64") * 0.5
    reach = abs(half)
    middle = half * _ratio(MIDDLE, 0.180625 - half * half)
    # The depth is infinite at -1 and 1, and NaN beyond.
    depth = (-(0.5 - reach).log()).sqrt()
    tail = where(depth > 5, _ratio(END, depth - 5), _ratio(OUTER, depth - 1.6))
    tail = where(reach.equal(0.5), tail.of(np.inf), tail) * half.sign()
    return (where(reach <= 0.425, middle, tail) / np.sqrt(2)).as_type(x.element_type)


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
