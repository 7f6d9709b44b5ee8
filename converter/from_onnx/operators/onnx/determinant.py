"""ONNX's Det."""

from __future__ import annotations

import numpy as np

from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import movement, reduction, slicing, sorting
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import part_of, shape_of


@onnx_op("Det", versions=(11, 22))
def det(ctx: Context, x: Output) -> Output:
    """The determinants ``[...]`` of square matrices ``[..., M, M]``, by elimination with the greatest pivots.

    M must be known while converting, for the M - 1 eliminations are layers of their own.
    """
    rank = ctx.rank(x, "the matrices")
    if rank < 2 or x.shape[-1].merge(x.shape[-2]) is None:
        raise ctx.invalid(f"the matrices must be square, but the shape is {x.shape}")
    size = x.shape[-1] if x.shape[-1].is_static else x.shape[-2]
    if not size.is_static:
        raise ctx.unsupported("the dimension of the matrices of Det must be known while converting")
    small = x.element_type in (element_types.f16, element_types.bf16)
    rest = in_type(ctx, x, element_types.f32) if small else x
    lead = part_of(ctx, shape_of(ctx, x), 0, rank - 2)
    found = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(1, rest), lead) if rank > 2 else ctx.like(1, rest)
    for dimension in range(size.value, 0, -1):
        pivot, rest = _eliminated(ctx, rest, dimension)
        found = layers.multiply(ctx, found, pivot)
    return in_type(ctx, found, x.element_type) if small else found


def _cut(ctx: Context, x: Output, axis: int, start: int, stop: int) -> Output:
    bounds = [ctx.constant([value]) for value in (start, stop, 1, axis)]
    return ctx.emit(slicing.Slice8(), x, *bounds)


def _eliminated(ctx: Context, x: Output, dimension: int) -> tuple[Output, Output]:
    """The pivot of the first column with its sign ``[...]``, and what is left of the matrices."""
    rank = x.shape.rank
    axes = ctx.constant([rank - 2, rank - 1])
    first = _cut(ctx, x, rank - 1, 0, 1)
    if dimension == 1:
        return layers.squeeze(ctx, first, axes), x
    greatest = sorting.TopK11(
        axis=rank - 2, mode="max", sort="value", index_element_type=element_types.i32, stable=True
    )
    row = ctx.emit_all(greatest, layers.absolute(ctx, first), ctx.constant(1))[1]
    rows = ctx.constant(np.arange(dimension)[:, None], "i32")
    chosen = layers.equal(ctx, rows, row)
    zero, one = ctx.like(0, x), ctx.like(1, x)
    line = layers.select(ctx, chosen, x, zero)
    line = ctx.emit(reduction.ReduceSum1(keep_dims=True), line, ctx.constant([rank - 2]))
    # The first row takes the place of the chosen one, which turns the sign unless it is itself.
    others = layers.select(ctx, chosen, _cut(ctx, x, rank - 2, 0, 1), x)
    others = _cut(ctx, others, rank - 2, 1, dimension)
    pivot = _cut(ctx, line, rank - 1, 0, 1)
    is_first = layers.equal(ctx, row, ctx.constant(0, "i32"))
    sign = layers.select(ctx, is_first, one, ctx.like(-1, x))
    signed = layers.multiply(ctx, pivot, sign)
    # A pivot of 0 means that the column has nothing else, and the determinant is 0.
    nothing = layers.equal(ctx, pivot, zero)
    divisor = layers.select(ctx, nothing, one, pivot)
    factors = layers.divide(ctx, _cut(ctx, others, rank - 1, 0, 1), divisor)
    behind = layers.multiply(ctx, factors, _cut(ctx, line, rank - 1, 1, dimension))
    left = layers.subtract(ctx, _cut(ctx, others, rank - 1, 1, dimension), behind)
    return layers.squeeze(ctx, signed, axes), left
