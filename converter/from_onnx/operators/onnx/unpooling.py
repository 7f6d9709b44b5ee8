"""ONNX operators that put what was pooled or unfolded back into its place: MaxUnpool and Col2Im."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import movement, padding, patches, scatter, slicing
from ir_runtime.operations.windows import Window
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import as_i64, as_list, concat_lists, dim_of, part_of, shape_of


def _listed(ctx: Context, name: str, values: Sequence[int] | None, count: int, default: int, least: int) -> list[int]:
    entries = [default] * count if not values else list(values)
    if len(entries) != count or min(entries) < least:
        raise ctx.invalid(f"{name} must be {count} numbers from {least} on, but is {entries}")
    return entries


@onnx_op("MaxUnpool", versions=(9, 11, 22))
def max_unpool(
    ctx: Context,
    x: Output,
    indices: Output,
    output_shape: Output | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Output:
    """Zeros with the elements of ``x`` at ``indices`` of the flattened whole, which the pooling had.

    ``output_shape`` adds zeros behind that whole.
    """
    rank = ctx.rank(x, "the data")
    spatial = rank - 2
    if spatial < 1:
        raise ctx.invalid(f"the data must have at least 3 dimensions, but the shape is {x.shape}")
    kernel = _listed(ctx, "kernel_shape", kernel_shape, spatial, 1, 1)
    steps = _listed(ctx, "strides", strides, spatial, 1, 1)
    cuts = _listed(ctx, "pads", pads, 2 * spatial, 0, 0)
    sizes = []
    for i in range(spatial):
        # Multiplied by adding: OpenVINO fuses a product and a sum of integers into a wrong one.
        whole = _times(ctx, dim_of(ctx, x, 2 + i), steps[i])
        rest = kernel[i] - steps[i] - cuts[i] - cuts[spatial + i]
        sizes.append(layers.add(ctx, whole, ctx.constant(rest)))
    shape = concat_lists(ctx, [part_of(ctx, shape_of(ctx, x), 0, 2), *sizes])
    zeros = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, x), shape)
    flat = scatter.ScatterElementsUpdate3()
    placed = ctx.emit(flat, as_list(ctx, zeros), as_list(ctx, indices), as_list(ctx, x), ctx.constant(0))
    unpooled = ctx.emit(movement.Reshape1(special_zero=False), placed, shape)
    if output_shape is None:
        return unpooled
    if not output_shape.shape.element_count().contains(rank):
        raise ctx.invalid(f"output_shape must have {rank} dimensions, but has the shape {output_shape.shape}")
    missing = layers.subtract(ctx, as_i64(ctx, output_shape), shape)
    return ctx.emit(padding.Pad12(), unpooled, ctx.constant([0] * rank), missing, ctx.like(0, x))


def _times(ctx: Context, value: Output, factor: int) -> Output:
    """``value * factor`` by doubling and adding."""
    if factor == 1:
        return value
    half = _times(ctx, value, factor // 2)
    double = layers.add(ctx, half, half)
    return layers.add(ctx, double, value) if factor % 2 else double


@onnx_op("Col2Im", versions=(18,))
def col2im(
    ctx: Context,
    data: Output,
    image_shape: Output,
    block_shape: Output,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Output:
    """Blocks ``[N, C * block, L]`` added up at their places in images ``[N, C, *image]``."""
    count = image_shape.shape.element_count()
    if not count.is_static or count.value < 1:
        raise ctx.unsupported("the number of the image's dimensions must be known while converting")
    spatial = count.value
    if not block_shape.shape.element_count().contains(spatial):
        raise ctx.invalid(f"block_shape of the shape {block_shape.shape} does not fit an image of {spatial} dimensions")
    if ctx.rank(data, "the data") != 3:
        raise ctx.invalid(f"the data must have 3 dimensions, but the shape is {data.shape}")
    element_type = data.element_type
    if element_type in (element_types.boolean, element_types.string):
        raise ctx.unsupported(f"sums of elements of type {element_type} are not defined")
    steps = _listed(ctx, "strides", strides, spatial, 1, 1)
    gaps = _listed(ctx, "dilations", dilations, spatial, 1, 1)
    cuts = _listed(ctx, "pads", pads, 2 * spatial, 0, 0)
    image, block = as_i64(ctx, image_shape), as_i64(ctx, block_shape)
    if spatial > 2:
        return _many_dimensions(ctx, data, image, block, steps, gaps, cuts)
    begin, end = cuts[:spatial], cuts[spatial:]
    if spatial == 1:
        # A list is an image of one row.
        steps, gaps, begin, end = [1, *steps], [1, *gaps], [0, *begin], [0, *end]
        image, block = (concat_lists(ctx, [ctx.constant(1), value]) for value in (image, block))
    op = patches.Col2Im15(strides=steps, dilations=gaps, pads_begin=begin, pads_end=end)
    small = element_type in (element_types.f16, element_types.bf16)
    images = ctx.emit(op, in_type(ctx, data, element_types.f32) if small else data, image, block)
    if small:
        images = in_type(ctx, images, element_type)
    return layers.squeeze(ctx, images, ctx.constant([2])) if spatial == 1 else images


def _many_dimensions(
    ctx: Context, data: Output, image: Output, block: Output, steps: list[int], gaps: list[int], cuts: list[int]
) -> Output:
    """Every element added to its place in the padded, flattened image."""
    dimensions_ = [int(n) for n in ctx.known(image, "the dimensions of an image of more than two dimensions")]
    kernel = [int(n) for n in ctx.known(block, "the dimensions of a block of more than two dimensions")]
    spatial = len(dimensions_)
    begin, end = cuts[:spatial], cuts[spatial:]
    windows = [Window(k, s, d, b, e) for k, s, d, b, e in zip(kernel, steps, gaps, begin, end)]
    counts = [window.count(n) for window, n in zip(windows, dimensions_)]
    padded = [n + b + e for n, b, e in zip(dimensions_, begin, end)]
    places = np.zeros([1] * (2 * spatial), np.int64)
    for i, window in enumerate(windows):
        line = np.arange(kernel[i])[:, None] * window.dilation + np.arange(counts[i]) * window.stride
        shape = [1] * (2 * spatial)
        shape[i], shape[spatial + i] = line.shape
        places = places + (line * math.prod(padded[i + 1 :])).reshape(shape)
    rows, columns = math.prod(kernel), math.prod(counts)
    declared, batch = ctx.declared(data).shape, dim_of(ctx, data, 0)
    channels = declared[1]
    if channels.is_static and (channels.value % rows or not declared[2].contains(columns)):
        raise ctx.invalid(f"data of the shape {declared} are no blocks of {kernel} of an image of {dimensions_}")
    flat = ctx.emit(movement.Reshape1(special_zero=False), data, ctx.constant([-1, rows * columns]))
    several = dim_of(ctx, flat, 0)
    indices = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.constant(places.reshape(1, -1)), shape_of(ctx, flat))
    blank = concat_lists(ctx, [several, ctx.constant(math.prod(padded))])
    zeros = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, data), blank)
    op = scatter.ScatterElementsUpdate12(reduction="sum", use_init_val=True)
    summed = ctx.emit(op, zeros, indices, flat, ctx.constant(1))
    whole = concat_lists(ctx, [batch, ctx.constant([-1, *padded])])
    reshaped = ctx.emit(movement.Reshape1(special_zero=False), summed, whole)
    if not any(cuts):
        return reshaped
    axes = ctx.constant(list(range(2, 2 + spatial)))
    stops = ctx.constant([b + n for b, n in zip(begin, dimensions_)])
    return ctx.emit(slicing.Slice8(), reshaped, ctx.constant(begin), stops, ctx.constant([1] * spatial), axes)
