"""Patches of images: laid side by side, and added up to an image again."""

from __future__ import annotations

import math

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import known_list, rank_of, reshape, squeeze, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import Size, add, divide, largest, multiply, positions, shape_list, size_of, subtract
from converter.to_onnx.updates import scatter_elements
from ir_runtime.graph import element_types
from ir_runtime.operations.patches import Col2Im15, ExtractImagePatches3
from ir_runtime.operations.windows import Window

_SMALL = (element_types.f32, element_types.f16, element_types.bf16)
"""Types whose sums float32 holds."""


@ir_op(Col2Im15)
def col2im(ctx: Context, op: Col2Im15, x: Value, image: Value, block: Value) -> Value:
    """Col2Im; ScatterElements of types that onnxruntime's Col2Im would round"""
    is_single = rank_of(ctx, x, "the data") == 2
    data = unsqueeze(ctx, x, [0]) if is_single else x
    is_known = known_list(ctx, image) is not None and known_list(ctx, block) is not None
    if x.element_type in _SMALL and (not is_known or ctx.at_least(18)):
        made = ctx.emit(
            "Col2Im",
            data,
            _int64(ctx, image),
            _int64(ctx, block),
            strides=list(op.strides),
            dilations=list(op.dilations),
            pads=[*op.pads_begin, *op.pads_end],
        )
    else:
        made = _added(ctx, op, data, image, block)
    return squeeze(ctx, made, [0]) if is_single else made


def _int64(ctx: Context, value: Value) -> Value:
    return ctx.cast(value, element_types.i64)


def _added(ctx: Context, op: Col2Im15, data: Value, image: Value, block: Value) -> Value:
    """Every element added to a padded image at its place."""
    sizes, taps = known_list(ctx, image), known_list(ctx, block)
    if sizes is None or taps is None:
        ctx.fail(f"data of the type {data.element_type} need an image and blocks of known dimensions")
    windows = [Window(*numbers) for numbers in zip(taps, op.strides, op.dilations, op.pads_begin, op.pads_end)]
    height, width = (size + begin + end for size, begin, end in zip(sizes, op.pads_begin, op.pads_end))
    down, across = (
        np.arange(window.kernel)[:, None] * window.dilation + np.arange(window.count(size)) * window.stride
        for window, size in zip(windows, sizes)
    )
    places = (down[:, None, :, None] * width + across[None, :, None, :]).reshape(1, 1, -1)
    columns = reshape(ctx, data, [0, -1, places.size])
    start = ctx.emit("Slice", columns, ctx.constant([0]), ctx.constant([1]), ctx.constant([2]))
    empty = ctx.emit("Expand", ctx.like(0, data), _with_last(ctx, start, height * width))
    index = ctx.emit("Expand", ctx.constant(places), ctx.emit("Shape", columns))
    total = scatter_elements(ctx, empty, index, columns, 2, "add")
    whole = reshape(ctx, total, [0, 0, height, width])
    begins, ends = list(op.pads_begin), [begin + size for begin, size in zip(op.pads_begin, sizes)]
    return ctx.emit("Slice", whole, ctx.constant(begins), ctx.constant(ends), ctx.constant([2, 3]))


def _with_last(ctx: Context, x: Value, count: int) -> Value:
    """The shape of x with another last dimension, where x has 1."""
    return ctx.emit("Mul", ctx.emit("Shape", x), ctx.constant([1, 1, count]))


@ir_op(ExtractImagePatches3, local_function=True)
def extract_image_patches(ctx: Context, op: ExtractImagePatches3, x: Value) -> Value:
    """Gather along the height and along the width, and Transpose of the patches' elements in front of the channels"""
    sizes = [size_of(ctx, x, axis) for axis in (2, 3)]
    counts = [_count(ctx, op, place, size) for place, size in enumerate(sizes)]
    pads = [_pads(ctx, op, place, size, count) for place, (size, count) in enumerate(zip(sizes, counts))]
    padded = x
    if any(pad != 0 for pair in pads for pad in pair):
        (top, bottom), (left, right) = pads
        padded = ctx.emit("Pad", x, shape_list(ctx, [0, 0, top, left, 0, 0, bottom, right]), ctx.like(0, x))
    # [n, c, h, w] -> [n, c, taps down, rows, w] -> [n, c, taps down, rows, taps across, columns]
    for place, axis in ((0, 2), (1, 4)):
        taps = np.arange(op.sizes[place]).reshape(-1, 1) * op.rates[place]
        count, stride = counts[place], op.strides[place]
        if isinstance(count, int):
            index = ctx.constant(taps + np.arange(count) * stride)
        else:
            starts = ctx.emit("Mul", positions(ctx, count), ctx.constant([stride]))
            index = ctx.emit("Add", ctx.constant(taps), starts)
        padded = ctx.emit("Gather", padded, index, axis=axis)
    moved = transpose(ctx, padded, [0, 2, 4, 1, 3, 5])
    channels = multiply(ctx, size_of(ctx, x, 1), math.prod(op.sizes))
    return ctx.emit("Reshape", moved, shape_list(ctx, [0, channels, *counts]))


def _count(ctx: Context, op: ExtractImagePatches3, place: int, size: Size) -> Size:
    """The number of patches along a dimension."""
    stride = op.strides[place]
    if op.auto_pad != "valid":
        return divide(ctx, add(ctx, size, stride - 1), stride)
    span = (op.sizes[place] - 1) * op.rates[place] + 1
    return add(ctx, divide(ctx, subtract(ctx, size, span), stride), 1)


def _pads(ctx: Context, op: ExtractImagePatches3, place: int, size: Size, count: Size) -> list[Size]:
    """The pads in front of a dimension and behind it."""
    if op.auto_pad == "valid":
        return [0, 0]
    span = (op.sizes[place] - 1) * op.rates[place] + 1
    reach = add(ctx, multiply(ctx, subtract(ctx, count, 1), op.strides[place]), span)
    total = largest(ctx, subtract(ctx, reach, size), 0)
    smaller = divide(ctx, total, 2)
    larger = subtract(ctx, total, smaller)
    return [smaller, larger] if op.auto_pad == "same_upper" else [larger, smaller]
