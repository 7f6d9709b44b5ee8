"""onnxruntime's operators that ONNX has under another name or got later, or that are a few layers.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from converter.from_onnx.lowering.shapes import channels_first, move_axis
from converter.from_onnx.operators.onnx.convolution import conv, conv_transpose
from converter.from_onnx.operators.onnx.generation import range_11
from converter.from_onnx.operators.onnx.geometry import grid_sample_16
from converter.from_onnx.operators.onnx.indexing import gather_nd, trilu, unique
from converter.from_onnx.operators.onnx.pooling import max_pool
from converter.from_onnx.operators.onnx.slicing import pad as onnx_pad
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output, normalize_axis
from ir_runtime.operations import matmul, movement, normalization
from ir_runtime.operations.activation import Swish4
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression, concat, positions, where
from ir_runtime.rewriting.layers import in_type

onnx_op("Trilu", domain=MICROSOFT, versions=(1,))(trilu)
onnx_op("GatherND", domain=MICROSOFT, versions=(1,), without=("batch_dims",))(gather_nd)
onnx_op("GridSample", domain=MICROSOFT, versions=(1,))(grid_sample_16)


@onnx_op("Pad", domain=MICROSOFT, versions=(1,))
def pad(ctx: Context, data: Output, pads: Output, value: Output | None = None, *, mode: str = "constant") -> Output:
    """ONNX's Pad, before ONNX had pads as an input."""
    return onnx_pad(ctx, data, pads, value, mode=mode)


@onnx_op("Range", domain=MICROSOFT, versions=(1,))
def range_(ctx: Context, start: Output, limit: Output, delta: Output | None = None) -> Output:
    """start, start + delta, ... without limit; delta is 1 by default."""
    return range_11(ctx, start, limit, ctx.like(1, start) if delta is None else delta)


@onnx_op("ExpandDims", domain=MICROSOFT, versions=(1,))
def expand_dims(ctx: Context, x: Output, axis: Output) -> Output:
    """A dimension of 1 inserted at ``axis``."""
    values = ctx.known(axis, "the axis").reshape(-1)
    if values.size != 1:
        raise ctx.invalid(f"the axis must be one number, but is {values}")
    return ctx.emit(movement.Unsqueeze1(), x, ctx.constant([int(values[0])]))


@onnx_op("Inverse", domain=MICROSOFT, versions=(1,))
def inverse(ctx: Context, x: Output) -> Output:
    """The inverse of each of the square matrices ``[..., M, M]``."""
    return ctx.emit(matmul.Inverse14(adjoint=False), x)


@onnx_op("BiasAdd", domain=MICROSOFT, versions=(1,))
def bias_add(ctx: Context, x: Output, bias: Output, skip: Output) -> Output:
    """The sum of ``[n, s, c]``, a bias ``[c]``, and what was skipped."""
    return layers.add(ctx, layers.add(ctx, x, bias), skip)


@onnx_op("CDist", domain=MICROSOFT, versions=(1,))
def cdist(ctx: Context, a: Expression, b: Expression, *, metric: str = "sqeuclidean") -> Expression:
    """Distances of the rows ``[m, n]`` from the rows ``[k, n]``, ``[m, k]``."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise ctx.unsupported(f"the metric '{metric}' is not supported")
    for name, value in (("A", a), ("B", b)):
        ctx.rank(value.value, name, 2)
    apart = a.unsqueeze(1) - b.unsqueeze(0)
    total = (apart * apart).sum(2)
    return total if metric == "sqeuclidean" else total.sqrt()


@onnx_op("NhwcConv", domain=MICROSOFT, versions=(1,))
@attributes_of(conv)
def nhwc_conv(ctx: Context, x: Output, w: Output, b: Output | None = None, **attributes: Any) -> Output:
    """A convolution of ``[n, ..., c]`` with weights ``[o, ..., c / group]``."""
    weights = move_axis(ctx, w, -1, 1)
    return channels_first(ctx, x, lambda data: conv(ctx, data, weights, b, **attributes))


@onnx_op("NhwcMaxPool", domain=MICROSOFT, versions=(1,))
@attributes_of(max_pool, without=("storage_order",))
def nhwc_max_pool(ctx: Context, x: Output, **attributes: Any) -> Output:
    """The greatest number of each window of ``[n, ..., c]``."""

    def pool(data: Output) -> Output:
        result = max_pool(ctx, data, **attributes)
        return result if isinstance(result, Output) else result[0]

    return channels_first(ctx, x, pool)


# --- group normalisations of images whose channels may come last ---


@onnx_op("GroupNorm", domain=MICROSOFT, versions=(1,))
def group_norm(
    ctx: Context,
    x: Output,
    gamma: Output,
    beta: Output,
    *,
    activation: int,
    channels_last: int = 1,
    epsilon: float = 9.999999747378752e-06,
    groups: int,
) -> Output:
    """Mean 0 and variance 1 over each group of channels, scaled, and with ``activation`` 1 its Swish."""
    if activation not in (0, 1):
        raise ctx.invalid(f"activation must be 0 or 1 (Swish), but is {activation}")
    images = move_axis(ctx, x, -1, 1) if channels_last else x
    parameters = [
        in_type(ctx, ctx.emit(movement.Reshape1(special_zero=False), value, ctx.constant([-1])), x.element_type)
        for value in (gamma, beta)
    ]
    y = ctx.emit(normalization.GroupNormalization12(num_groups=groups, epsilon=epsilon), images, *parameters)
    y = move_axis(ctx, y, 1, -1) if channels_last else y
    return ctx.emit(Swish4(), y) if activation else y


@onnx_op("SkipGroupNorm", domain=MICROSOFT, versions=(1,))
@attributes_of(group_norm)
def skip_group_norm(
    ctx: Context,
    x: Output,
    gamma: Output,
    beta: Output,
    skip: Output,
    bias: Output | None = None,
    *,
    channels_last: int = 1,
    **attributes: Any,
) -> tuple[Output, Output]:
    """The same of a sum: ``skip`` may have one value for each image's channel, ``bias`` has one a channel."""
    rank = ctx.rank(x, "the data")
    if ctx.rank(skip, "skip") == 2:
        shape = [0, *[1] * (rank - 2), -1] if channels_last else [0, -1, *[1] * (rank - 2)]
        skip = ctx.emit(movement.Reshape1(special_zero=True), skip, ctx.constant(shape))
    total = layers.add(ctx, x, skip)
    if bias is not None:
        shape = [-1] if channels_last else [-1, *[1] * (rank - 2)]
        column = ctx.emit(movement.Reshape1(special_zero=False), bias, ctx.constant(shape))
        total = layers.add(ctx, total, column)
    return group_norm(ctx, total, gamma, beta, channels_last=channels_last, **attributes), total


@onnx_op("SampleOp", domain=MICROSOFT, versions=(1,))
def sample(ctx: Context, x: Output) -> Output:
    """x itself."""
    return x


@onnx_op("Unique", domain=MICROSOFT, versions=(1,))
def unique_of_list(ctx: Context, x: Output) -> list[Output]:
    """The different elements of a list as they came, which one each element is, and how often each occurs."""
    elements, _, places, counts = unique(ctx, x, sorted=0)
    return [elements, places, counts]


@onnx_op("UnfoldTensor", domain=MICROSOFT, versions=(1,))
def unfold_tensor(ctx: Context, x: Expression, *, dim: int = -1, size: int, step: int = 1) -> Expression:
    """All slices of ``size`` along ``dim``, each ``step`` behind the one before, as the last dimension."""
    axis = normalize_axis(dim, x.rank)
    if size < 1 or step < 1:
        raise ctx.invalid(f"size and step must be positive, but are {size} and {step}")
    starts = positions((x.size(axis) - size) // step + 1) * step
    places = starts.unsqueeze(1) + np.arange(size)
    slices = x.gather(places, axis)
    rest = [place for place in range(x.rank + 1) if place != axis + 1]
    return slices.transpose(*rest, axis + 1)


@onnx_op("CropAndResize", domain=MICROSOFT, versions=(1,))
def crop_and_resize(
    ctx: Context,
    x: Expression,
    rois: Expression,
    batch_indices: Expression,
    crop_size: Expression,
    *,
    extrapolation_value: float = 0.0,
    mode: Literal["bilinear", "nearest"] = "bilinear",
) -> Expression:
    """Parts ``[r, 4]`` (top, left, bottom, right; 1 is the last row or column) of images, resized to ``crop_size``."""
    sizes = crop_size.as_type("i64").reshape(2)
    count = rois.size(0)
    images = batch_indices.as_type("i64").reshape(count, 1, 1)
    places = []
    for axis in (0, 1):
        last = (x.size(2 + axis) - 1).as_type(x.element_type)
        length = sizes.gather(axis)
        first, end = (rois.gather([axis + side], 1) * last for side in (0, 2))
        steps = positions(length).as_type(x.element_type)
        spread = (length - 1).maximum(1).as_type(x.element_type)
        several = first + (end - first) / spread * steps
        places.append((where(length > 1, several, (first + end) * 0.5), last))
    (rows, bottom), (columns, right) = ((place.unsqueeze(2 - axis), last) for axis, (place, last) in enumerate(places))
    inside = (rows >= 0.0) & (rows <= bottom) & (columns >= 0.0) & (columns <= right)
    pixels = x.transpose(0, 2, 3, 1)

    def at(row: Expression, column: Expression) -> Expression:
        clipped = [row.clip(0.0, bottom), column.clip(0.0, right)]
        shape = inside.sizes()
        parts = [images, *(position.as_type("i64") for position in clipped)]
        return pixels.gather_nd(concat([part.broadcast(*shape).unsqueeze(3) for part in parts], 3))

    if mode == "nearest":
        # Halves go away from zero, as C's round does.
        sampled = at((rows + 0.5).floor(), (columns + 0.5).floor())
    else:
        top, left = rows.floor(), columns.floor()
        down, across = ((rows - top).unsqueeze(3), (columns - left).unsqueeze(3))
        upper = at(top, left) + (at(top, columns.ceil()) - at(top, left)) * across
        lower = at(rows.ceil(), left) + (at(rows.ceil(), columns.ceil()) - at(rows.ceil(), left)) * across
        sampled = upper + (lower - upper) * down
    return where(inside.unsqueeze(3), sampled, extrapolation_value).transpose(0, 3, 1, 2)


@onnx_op("ConvTransposeWithDynamicPads", domain=MICROSOFT, versions=(1,))
@attributes_of(conv_transpose, without=("pads", "output_shape"))
def conv_transpose_with_pads(
    ctx: Context, x: Output, w: Output, pads: Output | None = None, b: Output | None = None, **attributes: Any
) -> Output:
    """ConvTranspose with pads as an input, which must be constant."""
    pad_values = None if pads is None else ctx.known(pads, "the pads").reshape(-1).tolist()
    return conv_transpose(ctx, x, w, b, pads=pad_values, **attributes)
