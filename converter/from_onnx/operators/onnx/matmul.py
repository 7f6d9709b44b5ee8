"""ONNX's products of matrices, and Det: MatMul, Gemm and Einsum."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import Output, broadcast, element_types
from ir_runtime.operations import matmul
from ir_runtime.operations.sorting import TopK11
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression, where
from ir_runtime.rewriting.shape_layers import part_of, shape_of


@onnx_op("MatMul", versions=(1, 9, 13))
def mat_mul(ctx: Context, a: Output, b: Output) -> Output:
    """The matrix product of the last two dimensions, as NumPy's ``matmul``."""
    return ctx.emit(matmul.MatMul1(), a, b)


# --- Gemm ---


def _scale(ctx: Context, value: Output, factor: float) -> Output:
    if factor == 1:
        return value
    if value.element_type.is_integral and factor != int(factor):
        raise ctx.unsupported(f"integers cannot be multiplied by {factor}")
    return layers.multiply(ctx, value, ctx.like(factor, value))


@onnx_op("Gemm", versions=(7, 9, 11, 13))
def gemm(
    ctx: Context,
    a: Output,
    b: Output,
    c: Output | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,  # noqa: N803
    transB: int = 0,  # noqa: N803
) -> Output:
    """``alpha * A * B + beta * C`` of matrices; C is repeated to the product's shape."""
    for name, value in (("A", a), ("B", b)):
        if value.shape.has_rank and value.shape.rank != 2:
            raise ctx.invalid(f"{name} must be a matrix, but has the shape {value.shape}")
    product = matmul.MatMul1(transpose_a=bool(transA), transpose_b=bool(transB))
    y = _scale(ctx, ctx.emit(product, a, b), alpha)
    if c is None or beta == 0:
        return y
    if c.shape.has_rank and y.shape.has_rank:
        wide = broadcast(y.shape, c.shape)
        if c.shape.rank > 2 or wide.merge(y.shape) is None:
            raise ctx.invalid(f"C of the shape {c.shape} cannot be repeated to the product's shape {y.shape}")
    return layers.add(ctx, y, _scale(ctx, c, beta))


@onnx_op("Gemm", versions=(1, 6))
@attributes_of(gemm)
def gemm_with_flag(ctx: Context, a: Output, b: Output, c: Output, *, broadcast: int = 0, **attributes: Any) -> Output:
    """The same, where C is repeated only if ``broadcast`` is set."""
    y = gemm(ctx, a, b, c, **attributes)
    product_shape, bias_shape = ctx.declared(y).shape, ctx.declared(c).shape
    if not broadcast and bias_shape.merge(product_shape) is None:
        raise ctx.invalid(f"without broadcast C must have the product's shape {product_shape}, but has {bias_shape}")
    return y


# --- Einsum ---


@onnx_op("Einsum", versions=(12, 28))
def einsum(ctx: Context, *inputs: Output, equation: str) -> Output:
    """The sum over products that the equation describes."""
    parsed = matmul.Equation.parse(equation)
    if len(parsed.operands) != len(inputs):
        raise ctx.invalid(f"the equation '{equation}' is of {len(parsed.operands)} inputs, but got {len(inputs)}")
    return ctx.emit(matmul.Einsum7(equation=parsed.text()), *inputs)


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
