"""ONNX's Shape and Size."""

from __future__ import annotations

import numpy as np

from converter.lowering.shapes import as_scalar, part_of, shape_of
from converter.translation.context import Context
from converter.translation.registry import onnx_op
from ir_runtime.graph import Output
from ir_runtime.operations import movement


@onnx_op("Shape", versions=(1, 13))
def shape_1(ctx: Context, data: Output) -> Output:
    """The extents of all dimensions."""
    return shape_of(ctx, data)


@onnx_op("Shape", versions=(15, 19, 21, 23, 24, 25))
def shape_15(ctx: Context, data: Output, *, start: int = 0, end: int | None = None) -> Output:
    """The extents from dimension ``start`` up to, but without, ``end``; both are clipped to the rank."""
    shape = shape_of(ctx, data)
    if start == 0 and end is None:
        return shape
    return part_of(ctx, shape, start, np.iinfo(np.int64).max if end is None else end)


@onnx_op("Size", versions=(1, 13, 19, 21, 23, 24, 25))
def size_1(ctx: Context, data: Output) -> Output:
    """The number of elements, a scalar."""
    # As one dimension, whose extent is exact in an engine that multiplies extents in float32.
    flat = ctx.emit(movement.Reshape1(special_zero=False), data, ctx.constant([-1]))
    return as_scalar(ctx, shape_of(ctx, flat), "the number of elements")
