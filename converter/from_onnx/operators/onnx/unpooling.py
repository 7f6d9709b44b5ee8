"""ONNX operators that put what was pooled or unfolded back into its place: MaxUnpool and Col2Im."""

from __future__ import annotations

from collections.abc import Sequence

from converter.from_onnx.translation import Context, onnx_op
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import movement, padding, patches, scatter, slicing
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import arange, as_i64, as_list, concat_lists, dim_of, part_of, shape_of


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
    """Every element added to its index in the padded, flattened image."""
    spatial, channels = len(steps), data.shape[1]
    if block.node.op.data is not None and channels.is_static and channels.value % block.node.op.data.array().prod():
        raise ctx.invalid(f"data of the shape {data.shape} are no blocks of {block.node.op.data.array().tolist()}")
    begin, end = cuts[:spatial], cuts[spatial:]
    padded = layers.add(ctx, image, ctx.constant([b + e for b, e in zip(begin, end)]))
    indices, volume, block_size = ctx.constant(0), ctx.constant(1), ctx.constant(1)
    for i in reversed(range(spatial)):
        size, kernel = layers.take(ctx, padded, i, 0), layers.take(ctx, block, i, 0)
        reach = layers.multiply(ctx, layers.subtract(ctx, kernel, ctx.constant(1)), ctx.constant(gaps[i]))
        room = layers.subtract(ctx, layers.subtract(ctx, size, reach), ctx.constant(1))
        count = layers.add(ctx, layers.truncated_quotient(ctx, room, ctx.constant(steps[i])), ctx.constant(1))
        for length, step, axis in ((kernel, gaps[i], i), (count, steps[i], spatial + i)):
            line = layers.multiply(ctx, arange(ctx, length), layers.multiply(ctx, volume, ctx.constant(step)))
            indices = layers.add(ctx, indices, layers.unsqueeze(ctx, line, *(set(range(2 * spatial)) - {axis})))
            block_size = layers.multiply(ctx, block_size, length)
        volume = layers.multiply(ctx, volume, size)
    by_block = concat_lists(ctx, [ctx.constant(-1), block_size])
    flat = ctx.emit(movement.Reshape1(special_zero=False), data, by_block)
    row = ctx.emit(movement.Reshape1(special_zero=False), indices, ctx.constant([1, -1]))
    targets = ctx.emit(movement.Broadcast3(mode="numpy"), row, shape_of(ctx, flat))
    blank = concat_lists(ctx, [dim_of(ctx, flat, 0), volume])
    zeros = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, data), blank)
    op = scatter.ScatterElementsUpdate12(reduction="sum", use_init_val=True)
    summed = ctx.emit(op, zeros, targets, flat, ctx.constant(1))
    whole = concat_lists(ctx, [dim_of(ctx, data, 0), ctx.constant(-1), padded])
    reshaped = ctx.emit(movement.Reshape1(special_zero=False), summed, whole)
    if not any(cuts):
        return reshaped
    axes, starts = ctx.constant(list(range(2, 2 + spatial))), ctx.constant(begin)
    stops = layers.add(ctx, image, starts)
    return ctx.emit(slicing.Slice8(), reshaped, starts, stops, ctx.constant([1] * spatial), axes)
