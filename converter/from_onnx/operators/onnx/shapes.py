"""ONNX's Shape and Size."""

from __future__ import annotations

import numpy as np

from converter.from_onnx.lowering.shapes import as_scalar
from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output
from ir_runtime.operations import movement
from ir_runtime.operations.indexing import Gather8
from ir_runtime.rewriting.shape_layers import part_of, shape_of


@onnx_op("Shape", versions=(1, 13), without=("start", "end"))
@onnx_op("Shape", versions=(15, 19, 21, 23, 24, 25))
def shape(ctx: Context, data: Output, *, start: int = 0, end: int | None = None) -> Output:
    """The dimensions of the data from ``start`` up to, but without, ``end``; both are clipped to the rank."""
    dimensions = shape_of(ctx, data)
    if start == 0 and end is None:
        return dimensions
    places = list(range(data.shape.rank)[start:end]) if data.shape.has_rank else []
    if places:
        return ctx.emit(Gather8(), dimensions, ctx.constant(places), ctx.constant(0))
    return part_of(ctx, dimensions, start, np.iinfo(np.int64).max if end is None else end)


@onnx_op("Size", versions=(1, 13, 19, 21, 23, 24, 25))
def size(ctx: Context, data: Output) -> Output:
    """The number of elements, a scalar."""
    # The length of the flattened data is exact also in an engine that multiplies dimensions in float32.
    flat = ctx.emit(movement.Reshape1(special_zero=False), data, ctx.constant([-1]))
    return as_scalar(ctx, shape_of(ctx, flat), "the number of elements")
