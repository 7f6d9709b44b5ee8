"""ONNX's Det."""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import element_types
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting.expressions import Expression, where
from ir_runtime.rewriting.shape_layers import part_of, shape_of


@onnx_op("Det", versions=(11, 22))
def det(ctx: Context, x: Expression) -> Expression:
    """The determinants ``[...]`` of square matrices ``[..., M, M]``, by elimination with the greatest pivots.

    M must be known while converting, for the M - 1 eliminations are layers of their own.
    """
    rank, shape = ctx.rank(x.value, "the matrices"), x.value.shape
    if rank < 2 or shape[-1].merge(shape[-2]) is None:
        raise ctx.invalid(f"the matrices must be square, but the shape is {shape}")
    size = shape[-1] if shape[-1].is_static else shape[-2]
    if not size.is_static:
        raise ctx.unsupported("the dimension of the matrices of Det must be known while converting")
    rest = x.at_least_float32()
    determinant = rest.of(1)
    if rank > 2:
        determinant = determinant.broadcast(
            Expression(ctx, part_of(ctx, shape_of(ctx, x.value), 0, rank - 2)), mode="numpy"
        )
    for dimension in range(size.value, 0, -1):
        pivot, rest = _eliminate(rest, dimension)
        determinant = determinant * pivot
    return determinant.as_type(x.element_type)


def _eliminate(x: Expression, dimension: int) -> tuple[Expression, Expression]:
    """The pivot of the first column with its sign ``[...]``, and what is left of the matrices."""
    rows, columns = x.rank - 2, x.rank - 1
    first = x.cut(columns, 0, 1)
    if dimension == 1:
        return first.squeeze(rows, columns), x
    greatest = TopK11(axis=rows, mode="max", sort="value", index_element_type=element_types.i32, stable=True)
    row = abs(first).emit_all(greatest, x.of(1, "i64"))[1]
    chosen = x.of(np.arange(dimension)[:, None], "i32").equal(row)
    line = where(chosen, x, 0).sum(rows, keep_dims=True)
    # The first row takes the place of the chosen one, which turns the sign unless it is itself.
    others = where(chosen, x.cut(rows, 0, 1), x).cut(rows, 1, dimension)
    pivot = line.cut(columns, 0, 1)
    signed = pivot * where(row.equal(0), x.of(1), -1)
    # A pivot of 0 means that the column has nothing else, and the determinant is 0.
    factors = others.cut(columns, 0, 1) / where(pivot.equal(0), x.of(1), pivot)
    left = others.cut(columns, 1, dimension) - factors * line.cut(columns, 1, dimension)
    return signed.squeeze(rows, columns), left
