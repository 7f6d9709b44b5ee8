"""ONNX's poolings, and the operators that put what was pooled or unfolded back into its place: MaxUnpool and Col2Im.

:mod:`converter.from_onnx.lowering.windows` computes the places of the windows. Where the spatial dimensions are
dynamic, the IR's own attributes are used if they mean the same as ONNX's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from converter.from_onnx.lowering.windows import (
    Geometry,
    cropped,
    make_geometry,
    pad,
    spatial_dimensions,
    windows_dynamic,
)
from converter.from_onnx.operators.onnx.convolution import listed
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import (
    elementwise,
    generation,
    movement,
    padding,
    patches,
    pooling,
    reduction,
    scatter,
    slicing,
)
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import in_type
from ir_runtime.rewriting.shape_layers import arange, as_i64, as_list, concat_lists, dim_of, part_of, rank_of, shape_of

# --- AveragePool ---


def _average_layer(geometry: Geometry, attributes: dict[str, Any], exclude: bool) -> pooling.AvgPool:
    if geometry.is_dilated:
        return pooling.AvgPool16(**attributes, exclude_pad=exclude, dilations=geometry.dilations)
    is_torch = attributes["rounding_type"] == "ceil_torch"
    return (pooling.AvgPool14 if is_torch else pooling.AvgPool1)(**attributes, exclude_pad=exclude)


def _average(ctx: Context, x: Output, geometry: Geometry, include_padding: bool) -> Output:
    placed = geometry.place(ctx, x)
    if placed is None:
        return _average_of_unknown(ctx, x, geometry, include_padding and geometry.is_padded)
    x = cropped(ctx, x, placed)
    begin, end = [max(0, p.begin) for p in placed], [max(0, p.end) for p in placed]
    beyond = [p.beyond for p in placed]
    if include_padding and any(begin + end):
        if not any(beyond):
            return ctx.emit(_average_layer(geometry, geometry.layer(begin, end), exclude=False), x)
        # Padding that the divisor counts becomes data; what is behind it stays padding, which is not counted.
        x, begin, end = pad(ctx, x, begin, end), [0] * len(begin), [0] * len(end)
    attributes = geometry.layer(begin, [e + b for e, b in zip(end, beyond)])
    return ctx.emit(_average_layer(geometry, attributes, exclude=True), x)


def _average_of_unknown(ctx: Context, x: Output, geometry: Geometry, include_padding: bool) -> Output:
    """For dynamic spatial dimensions."""
    attributes = _dynamic_attributes(geometry)
    ceil = attributes is not None and attributes["rounding_type"] == "ceil_torch"
    if attributes is None or (ceil and include_padding and geometry.may_start_behind):
        return _average_by_ratio(ctx, x, geometry, include_padding)
    if ceil and include_padding:
        # Padding that the divisor counts becomes data; what is behind it stays padding, which is not counted.
        x = pad(ctx, x, [axis.begin for axis in geometry.axes], [axis.end for axis in geometry.axes])
        none = [0] * len(geometry.axes)
        attributes, include_padding = geometry.layer(none, none, rounding_type="ceil_torch"), False
    return ctx.emit(_average_layer(geometry, attributes, exclude=not include_padding), x)


def _dynamic_attributes(geometry: Geometry) -> dict[str, Any] | None:
    """Attributes of a pooling layer that mean the same as ONNX's for any dimensions; None where the IR has none."""
    axes = geometry.axes
    ceil = axes[0].ceil
    begin, end = [axis.begin for axis in axes], [axis.end for axis in axes]
    if not axes[0].auto_pad.startswith("SAME"):
        return geometry.layer(begin, end, rounding_type="ceil_torch" if ceil else "floor")
    if geometry.is_dilated or any(axis.stride > axis.kernel and axis.crops for axis in axes):
        return None
    return geometry.layer(begin, end, auto_pad=axes[0].auto_pad.lower())


def _average_by_ratio(ctx: Context, x: Output, geometry: Geometry, include_padding: bool) -> Output:
    """For pads computed at run time: the mean of the data, divided by the share of elements that the divisor counts."""
    windows = windows_dynamic(ctx, x, geometry)
    ones = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(1, x), windows.dimensions_of(ctx, x))
    zero, unit = ctx.like(0, x), ctx.like(1, x)
    data = windows.pad(ctx, x, zero)
    counted = windows.pad(ctx, ones, unit if include_padding else zero)
    none = [0] * len(geometry.axes)
    layer = _average_layer(geometry, geometry.layer(none, none), exclude=False)
    means = [ctx.emit(layer, windows.pad_beyond(ctx, value, zero)) for value in (data, counted)]
    return windows.cut(ctx, layers.divide(ctx, means[0], means[1]))


@onnx_op("AveragePool", versions=(1,), without=("count_include_pad", "ceil_mode", "dilations"))
@onnx_op("AveragePool", versions=(7,), without=("ceil_mode", "dilations"))
@onnx_op("AveragePool", versions=(10, 11), without=("dilations",))
@onnx_op("AveragePool", versions=(19, 22))
@attributes_of(make_geometry)
def average_pool(ctx: Context, x: Output, *, count_include_pad: int = 0, **attributes: Any) -> Output:
    """The mean under each window; ``count_include_pad`` makes the divisor count padding."""
    return _average(ctx, x, make_geometry(ctx, x, **attributes), bool(count_include_pad))


# --- MaxPool ---

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""Types for which a maximum is clear, although the schemas have only some of them."""


def _max(ctx: Context, x: Output, geometry: Geometry, column_major: bool) -> Output | tuple[Output, ...]:
    """The maxima, and if the model uses them their indices into the whole, flattened input."""
    placed = geometry.place(ctx, x)
    wants_indices = ctx.wants(1)
    if placed is None:
        attributes = _dynamic_attributes(geometry)
        if attributes is None:
            return _max_by_pad(ctx, x, geometry)
        if attributes["rounding_type"] == "ceil_torch" and not geometry.may_start_behind:
            # "ceil" and "ceil_torch" differ only in windows that start behind the data; all releases know "ceil".
            attributes["rounding_type"] = "ceil"
    else:
        # Negative padding behind the data only ends the windows; a maximum takes all that its window covers.
        end = [p.reach if p.end < 0 else p.end + p.beyond for p in placed]
        if wants_indices and min([p.begin for p in placed] + end) < 0:
            raise ctx.unsupported("indices of a MaxPool whose stride is larger than its kernel under auto_pad SAME")
        x = pad(ctx, x, [min(0, p.begin) for p in placed], [min(0, e) for e in end])
        attributes = geometry.layer([max(0, p.begin) for p in placed], [max(0, e) for e in end])
    if not wants_indices and not geometry.is_dilated and attributes["rounding_type"] != "ceil_torch":
        return ctx.emit(pooling.MaxPool1(**attributes), x)
    cls = pooling.MaxPool14 if attributes["rounding_type"] == "ceil_torch" else pooling.MaxPool8
    layer = cls(**attributes, dilations=geometry.dilations, index_element_type=element_types.i64, axis=0)
    values, indices = ctx.emit_all(layer, x)
    if not wants_indices:
        return values
    return values, _column_major(ctx, x, indices) if column_major else indices


def _max_by_pad(ctx: Context, x: Output, geometry: Geometry) -> Output:
    """For pads computed at run time: they are filled with the lowest number of the type."""
    if ctx.wants(1):
        raise ctx.unsupported("indices of a MaxPool under auto_pad SAME whose dimensions are not known")
    windows = windows_dynamic(ctx, x, geometry)
    lowest = ctx.like(pooling.lowest(x.element_type.dtype), x)
    padded = windows.pad_beyond(ctx, windows.pad(ctx, x, lowest), lowest)
    none = [0] * len(geometry.axes)
    layer = pooling.MaxPool8(
        **geometry.layer(none, none), dilations=geometry.dilations, index_element_type=element_types.i64, axis=0
    )
    return windows.cut(ctx, ctx.emit_all(layer, padded)[0])


def _column_major(ctx: Context, x: Output, indices: Output) -> Output:
    """Indices that count the spatial dimensions with the first one fastest (``storage_order`` 1)."""
    spatial = x.shape.rank - 2
    dimensions = [layers.take(ctx, spatial_dimensions(ctx, x, spatial), i, 0) for i in range(spatial)]
    add, sub, mul = elementwise.Add1(), elementwise.Subtract1(), elementwise.Multiply1()
    rest, result, weight = indices, None, ctx.constant(1)
    positions: list[Output] = []
    for dimension in reversed(dimensions):
        quotient = ctx.emit(elementwise.Divide1(m_pythondiv=False), rest, dimension)
        positions.insert(0, ctx.emit(sub, rest, ctx.emit(mul, quotient, dimension)))
        rest = quotient
    for position, dimension in zip(positions, dimensions):
        term = ctx.emit(mul, position, weight)
        result = term if result is None else ctx.emit(add, result, term)
        weight = ctx.emit(mul, weight, dimension)
    assert result is not None
    return ctx.emit(add, result, ctx.emit(mul, rest, weight))


@onnx_op("MaxPool", versions=(1,), also=_INTEGERS, without=("storage_order", "dilations", "ceil_mode"))
@onnx_op("MaxPool", versions=(8,), also=_INTEGERS, without=("dilations", "ceil_mode"))
@onnx_op("MaxPool", versions=(10, 11, 12, 22), also=_INTEGERS)
@attributes_of(make_geometry)
def max_pool(
    ctx: Context,
    x: Output,
    *,
    storage_order: Literal[0, 1] = 0,
    dilations: Sequence[int] | None = None,
    **attributes: Any,
) -> Output | tuple[Output, ...]:
    """The maxima and, from version 8 on, their indices; ``storage_order`` is the order in which these count."""
    # onnxruntime crops with dilations only; without, it refuses to.
    crops = any(dilation != 1 for dilation in dilations or ())
    geometry = make_geometry(ctx, x, crops, dilations=dilations, **attributes)
    return _max(ctx, x, geometry, storage_order == 1)


# --- LpPool ---


def _lp(ctx: Context, x: Output, geometry: Geometry, p: float) -> Output:
    """(sum of |x|^p)^(1/p) under each window, as a mean times the number of elements."""
    if p <= 0:
        raise ctx.invalid(f"p must be positive, but is {p}")
    element_type = x.element_type
    wide = element_types.f32 if element_type.bits < 32 else element_type
    values = in_type(ctx, x, wide)
    powers = _raise_to_power(ctx, layers.absolute(ctx, values), p)
    placed = geometry.place(ctx, x)
    none = [0] * len(geometry.axes)
    layer = _average_layer(geometry, geometry.layer(none, none), exclude=False)
    if placed is not None:
        padded = pad(ctx, powers, [q.begin for q in placed], [q.end + q.beyond for q in placed])
        means = ctx.emit(layer, padded)
    elif (attributes := _dynamic_attributes(geometry)) is not None and attributes["rounding_type"] == "floor":
        means = ctx.emit(_average_layer(geometry, attributes, exclude=False), powers)
    else:
        windows = windows_dynamic(ctx, x, geometry)
        zero = ctx.like(0, powers)
        padded = windows.pad_beyond(ctx, windows.pad(ctx, powers, zero), zero)
        means = windows.cut(ctx, ctx.emit(layer, padded))
    sums = layers.multiply(ctx, means, ctx.like(math.prod(geometry.kernel), means))
    return in_type(ctx, _raise_to_power(ctx, sums, 1 / p), element_type)


def _raise_to_power(ctx: Context, x: Output, exponent: float) -> Output:
    return x if exponent == 1 else layers.power(ctx, x, ctx.like(exponent, x))


@onnx_op("LpPool", versions=(1,))
@attributes_of(make_geometry, without=("dilations", "ceil_mode"))
def lp_pool_1(
    ctx: Context, x: Output, *, kernel_shape: Sequence[int] | None = None, p: float = 2.0, **attributes: Any
) -> Output:
    """A fractional ``p``; without ``kernel_shape`` the window is the whole image."""
    if kernel_shape is None:
        if not x.shape.has_rank or not all(dimension.is_static for dimension in x.shape.dims[2:]):
            raise ctx.invalid("kernel_shape is needed where the input's dimensions are not known")
        kernel_shape = [dimension.value for dimension in x.shape.dims[2:]]
    return _lp(ctx, x, make_geometry(ctx, x, kernel_shape=kernel_shape, **attributes), p)


@onnx_op("LpPool", versions=(2, 11), without=("dilations", "ceil_mode"))
@onnx_op("LpPool", versions=(18, 22))
@attributes_of(make_geometry)
def lp_pool(ctx: Context, x: Output, *, p: int = 2, **attributes: Any) -> Output:
    """A whole ``p``, and ``kernel_shape`` is required."""
    return _lp(ctx, x, make_geometry(ctx, x, **attributes), p)


# --- the global forms ---


def _spatial_axes(ctx: Context, x: Output) -> Output:
    if x.shape.has_rank:
        if x.shape.rank < 2:
            raise ctx.invalid(f"the input must have at least two dimensions, but has the shape {x.shape}")
        return ctx.constant(np.arange(2, x.shape.rank))
    return ctx.emit(generation.Range4(output_type=element_types.i64), ctx.constant(2), rank_of(ctx, x), ctx.constant(1))


def _global(op_type: str, reduce: Callable[..., reduction.Reduction], also: Sequence[str] = ()) -> None:
    def translate(ctx: Context, x: Output) -> Output:
        return ctx.emit(reduce(keep_dims=True), x, _spatial_axes(ctx, x))

    onnx_op(op_type, versions=(1, 22), also=also, ignored={"strides": None})(translate)


_global("GlobalAveragePool", reduction.ReduceMean1)
_global("GlobalMaxPool", reduction.ReduceMax1, _INTEGERS)


@onnx_op("GlobalLpPool", versions=(1,))
def global_lp_pool_1(ctx: Context, x: Output, *, p: float = 2.0) -> Output:
    """(sum of |x|^p)^(1/p) over all spatial dimensions; ``p`` may have a fraction."""
    if p <= 0:
        raise ctx.invalid(f"p must be positive, but is {p}")
    axes = _spatial_axes(ctx, x)
    if p in (1, 2):
        return ctx.emit((reduction.ReduceL1_4 if p == 1 else reduction.ReduceL2_4)(keep_dims=True), x, axes)
    element_type = x.element_type
    wide = in_type(ctx, x, element_types.f32 if element_type.bits < 32 else element_type)
    powers = _raise_to_power(ctx, layers.absolute(ctx, wide), p)
    sums = ctx.emit(reduction.ReduceSum1(keep_dims=True), powers, axes)
    return in_type(ctx, _raise_to_power(ctx, sums, 1 / p), element_type)


@onnx_op("GlobalLpPool", versions=(2, 22))
def global_lp_pool_2(ctx: Context, x: Output, *, p: int = 2) -> Output:
    """As before, with a whole ``p``."""
    return global_lp_pool_1(ctx, x, p=p)


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
    rank = ctx.rank(x, "the data", least=3)
    spatial = rank - 2
    kernel = listed(ctx, "kernel_shape", kernel_shape, spatial, 1, 1)
    steps = listed(ctx, "strides", strides, spatial, 1, 1)
    cuts = listed(ctx, "pads", pads, 2 * spatial, 0, 0)
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
    ctx.rank(data, "the data", 3)
    element_type = data.element_type
    if element_type in (element_types.boolean, element_types.string):
        raise ctx.unsupported(f"sums of elements of type {element_type} are not defined")
    steps = listed(ctx, "strides", strides, spatial, 1, 1)
    gaps = listed(ctx, "dilations", dilations, spatial, 1, 1)
    cuts = listed(ctx, "pads", pads, 2 * spatial, 0, 0)
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
