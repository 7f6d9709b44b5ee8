"""onnxruntime's operators that ONNX has under another name or got later, or that are a few layers.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.context import Context
from converter.registry import onnx_op
from ir_runtime.graph import Output
from ir_runtime.operations import elementwise, linear_algebra, movement, reduction

from .convolution import convolved
from .generation import range_11
from .indexing import trilu
from .microsoft_fused import MICROSOFT
from .padding import pad_11

onnx_op("Trilu", domain=MICROSOFT, versions=(1,))(trilu)


@onnx_op("Pad", domain=MICROSOFT, versions=(1,))
def pad(ctx: Context, data: Output, pads: Output, value: Output | None = None, *, mode: str = "constant") -> Output:
    """ONNX's Pad, before ONNX had pads as an input."""
    return pad_11(ctx, data, pads, value, mode=mode)


@onnx_op("Range", domain=MICROSOFT, versions=(1,))
def range_(ctx: Context, start: Output, limit: Output, delta: Output | None = None) -> Output:
    """start, start + delta, ... without limit; by 1 unless said otherwise."""
    return range_11(ctx, start, limit, ctx.like(1, start) if delta is None else delta)


@onnx_op("ExpandDims", domain=MICROSOFT, versions=(1,))
def expand_dims(ctx: Context, x: Output, axis: Output) -> Output:
    """An extent of 1 inserted at ``axis``."""
    values = ctx.known(axis, "the axis").reshape(-1)
    if values.size != 1:
        raise ctx.invalid(f"the axis must be one number, but is {values}")
    return ctx.emit(movement.Unsqueeze1(), x, ctx.constant([int(values[0])]))


@onnx_op("Inverse", domain=MICROSOFT, versions=(1,))
def inverse(ctx: Context, x: Output) -> Output:
    """The inverse of each of the square matrices ``[..., M, M]``."""
    return ctx.emit(linear_algebra.Inverse14(adjoint=False), x)


@onnx_op("BiasAdd", domain=MICROSOFT, versions=(1,))
def bias_add(ctx: Context, x: Output, bias: Output, skip: Output) -> Output:
    """The sum of ``[n, s, c]``, a bias ``[c]``, and what was skipped."""
    return ctx.emit(elementwise.Add1(), ctx.emit(elementwise.Add1(), x, bias), skip)


@onnx_op("CDist", domain=MICROSOFT, versions=(1,))
def cdist(ctx: Context, a: Output, b: Output, *, metric: str = "sqeuclidean") -> Output:
    """Distances of the rows ``[m, n]`` from the rows ``[k, n]``, ``[m, k]``."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise ctx.unsupported(f"the metric '{metric}' is not supported")
    for name, value in (("A", a), ("B", b)):
        if ctx.rank(value, name) != 2:
            raise ctx.invalid(f"{name} must be a matrix, but has the shape {value.shape}")
    rows = ctx.emit(movement.Unsqueeze1(), a, ctx.constant([1]))
    columns = ctx.emit(movement.Unsqueeze1(), b, ctx.constant([0]))
    apart = ctx.emit(elementwise.Subtract1(), rows, columns)
    squares = ctx.emit(elementwise.Multiply1(), apart, apart)
    total = ctx.emit(reduction.ReduceSum1(keep_dims=False), squares, ctx.constant([2]))
    return total if metric == "sqeuclidean" else ctx.emit(elementwise.Sqrt1(), total)


@onnx_op("NhwcConv", domain=MICROSOFT, versions=(1,))
def nhwc_conv(
    ctx: Context,
    x: Output,
    w: Output,
    b: Output | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Output:
    """A convolution of ``[n, ..., c]`` with weights ``[o, ..., c / group]``."""
    rank = ctx.rank(w, "the weights")
    front = ctx.constant([0, rank - 1, *range(1, rank - 1)])
    back = ctx.constant([0, *range(2, rank), 1])
    data, weights = (ctx.emit(movement.Transpose1(), value, front) for value in (x, w))
    y = convolved(ctx, data, weights, b, auto_pad, dilations, group, kernel_shape, pads, strides)
    return ctx.emit(movement.Transpose1(), y, back)
