"""Poolings over windows, and to a given shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import INT64_MAX, concat, known_list, list_of, product_along, rank_of, reduce, shape_of
from converter.to_onnx.windows import dilations_of, padding, spatial
from ir_runtime.graph import Dimension, element_types
from ir_runtime.operations import pooling as ir


def _windows(ctx: Context, op: ir.Pooling, x: Value) -> tuple[dict[str, Any], Sequence[int]]:
    """Return the attributes of a pooling in a form that every release reads in the same way.

    Behind them are the pads in front of and behind each spatial dimension that a Pad must add; empty where there are
    none. onnxruntime takes no pads as large as the kernel. Windows that are rounded up follow from pads along
    dimensions that are known, as releases of onnx and onnxruntime count them differently. Along others onnxruntime
    (1.32) leaves out those that start behind the data, as ``ceil_torch`` does.
    """
    rank = len(op.kernel)
    sizes = spatial(x.shape.dims if x.shape.has_rank else (), rank)
    dilations = dilations_of(op, rank)
    padding_attributes = padding(ctx, op, [Dimension(taps, taps) for taps in op.kernel], sizes)
    counts = spatial(ctx.node.outputs[0].shape.dims if ctx.node.outputs[0].shape.has_rank else (), rank)
    is_up = is_dropped = False
    if op.rounding_type != "floor" and "pads" in padding_attributes:
        begins, ends = padding_attributes["pads"][:rank], padding_attributes["pads"][rank:]
        for axis, (size, count) in enumerate(zip(sizes, counts)):
            if size.is_static and count.is_static:
                reach = (count.value - 1) * op.strides[axis] + (op.kernel[axis] - 1) * dilations[axis] + 1
                is_dropped |= reach < size.value + begins[axis]
                ends[axis] = max(reach - size.value - begins[axis], min(ends[axis], 0))
            elif op.rounding_type == "ceil" and _may_start_behind(op):
                ends[axis] += op.strides[axis] - 1  # rounded down, they are as many
            else:
                is_up = True
        padding_attributes = {"pads": [*begins, *ends]}
    attributes = {
        "kernel_shape": list(op.kernel),
        "strides": list(op.strides),
        "ceil_mode": 1 if is_up else None,
        "dilations": dilations if any(dilation != 1 for dilation in dilations) else None,
        **padding_attributes,
    }
    pads = padding_attributes.get("pads", ())
    is_inner = all(0 <= pad < taps for pad, taps in zip(pads, [*op.kernel, *op.kernel]))
    if is_up and (is_dropped or (not is_inner and _may_start_behind(op))):
        # Where a window is left out along a dimension that is known, onnx's inference contradicts onnxruntime.
        ctx.fail(f"rounding_type='{op.rounding_type}' with these windows needs data whose dimensions are all known")
    return (attributes, ()) if is_inner else ({**attributes, "pads": [0] * (2 * rank)}, pads)


def _may_start_behind(op: ir.Pooling) -> bool:
    """True if windows that are rounded up may start behind the data."""
    return any(op.pads_end) or any(stride > taps for stride, taps in zip(op.strides, op.kernel))


def _pad(ctx: Context, x: Value, pads: Sequence[int], value: Any) -> Value:
    rank = len(pads) // 2
    whole = [0, 0, *pads[:rank], 0, 0, *pads[rank:]]
    return ctx.emit("Pad", x, ctx.constant(whole, element_types.i64), ctx.like(value, x))


@ir_op(ir.AvgPool1, ir.AvgPool14, ir.AvgPool16)
def average_pool(ctx: Context, op: ir.AvgPool, x: Value) -> Value:
    """AveragePool; dilations from opset 19 on"""
    attributes, outer = _windows(ctx, op, x)
    if attributes["dilations"]:
        ctx.opsets.require(19, "an AveragePool with dilations")
    if not outer:
        return ctx.emit("AveragePool", x, count_include_pad=int(not op.exclude_pad) or None, **attributes)
    means = ctx.emit("AveragePool", _pad(ctx, x, outer, 0), **attributes)
    if not op.exclude_pad:
        return means
    ones = ctx.emit("Add", ctx.emit("Mul", x, ctx.like(0, x)), ctx.like(1, x))
    return ctx.emit("Div", means, ctx.emit("AveragePool", _pad(ctx, ones, outer, 0), **attributes))


def _maxima(ctx: Context, op: ir.Pooling, x: Value, count: int) -> list[Value]:
    attributes, outer = _windows(ctx, op, x)
    if outer:
        if count > 1 and ctx.node.outputs[1].is_used:
            ctx.fail("indices of a pooling need pads that are smaller than the kernel")
        element_type = x.element_type
        x = _pad(ctx, x, outer, -math.inf if element_type.is_real else element_type.limits[0])
    return ctx.emit_many("MaxPool", x, count=count, **attributes)


@ir_op(ir.MaxPool1)
def max_pool(ctx: Context, op: ir.MaxPool1, x: Value) -> Value:
    """MaxPool"""
    return _maxima(ctx, op, x, 1)[0]


@ir_op(ir.MaxPool8, ir.MaxPool14)
def max_pool_with_indices(ctx: Context, op: ir.IndexedMaxPool, x: Value) -> list[Value]:
    """MaxPool with Indices, which count through the whole tensor: Mod by the size of the dimensions from ``axis`` on"""
    best, indices = _maxima(ctx, op, x, 2)
    axis = op.axis % rank_of(ctx, x, "the data") if op.axis < 0 else op.axis
    if axis:
        sizes = ctx.emit("Slice", shape_of(ctx, x), ctx.constant([axis]), ctx.constant([INT64_MAX]))
        indices = ctx.emit("Mod", indices, reduce(ctx, "ReduceProd", sizes, [0], keepdims=False))
    return [best, indices]


@ir_op(ir.AdaptiveAvgPool8, local_function=True)
def adaptive_average_pool(ctx: Context, op: ir.AdaptiveAvgPool8, x: Value, shape: Value) -> Value:
    """GlobalAveragePool, AveragePool, or for unequal regions a product with their shares along each dimension"""
    counts = list_of(ctx, shape, "the shape of the output")
    if all(count == 1 for count in counts):
        return ctx.emit("GlobalAveragePool", x)
    sizes = x.shape.dims[2:] if x.shape.has_rank else ()
    if not sizes or not all(length.is_static for length in sizes):
        ctx.fail("the spatial dimensions of the data must be known")
    if all(length.value % count == 0 for length, count in zip(sizes, counts)):
        kernel = [length.value // count for length, count in zip(sizes, counts)]
        return ctx.emit("AveragePool", x, kernel_shape=kernel, strides=kernel)
    rank = rank_of(ctx, x)
    for axis, (size, count) in enumerate(zip(sizes, counts), 2):
        shares = np.zeros((size.value, count), np.float64)
        for index, (start, stop) in enumerate(op.regions(size.value, count)):
            shares[start:stop, index] = 1 / (stop - start)
        x = product_along(ctx, x, axis, rank, ctx.like(shares, x))
    return x


@ir_op(ir.AdaptiveMaxPool8, local_function=True)
def adaptive_max_pool(ctx: Context, op: ir.AdaptiveMaxPool8, x: Value, shape: Value) -> list[Value]:
    """One MaxPool for equal regions, else one for each region, with Indices within the spatial dimensions"""
    counts = known_list(ctx, shape)
    sizes = x.shape.dims[2:] if x.shape.has_rank else ()
    if counts is None or not sizes or not all(size.is_static for size in sizes):
        ctx.fail("the spatial dimensions of data and output must be known")
    lengths = [size.value for size in sizes]
    total = ctx.constant(int(np.prod(lengths)))
    if all(length % count == 0 for length, count in zip(lengths, counts)):
        kernel = [length // count for length, count in zip(lengths, counts)]
        best, indices = ctx.emit_many("MaxPool", x, count=2, kernel_shape=kernel, strides=kernel)
        return [best, ctx.emit("Mod", indices, total)]
    numbers = ctx.constant(np.arange(int(np.prod(lengths))).reshape(lengths))
    return _regions(ctx, op, x, numbers, lengths, counts, 0)


def _regions(
    ctx: Context, op: ir.AdaptiveMaxPool8, x: Value, numbers: Value, lengths: list[int], counts: list[int], axis: int
) -> list[Value]:
    """The maxima of the regions along ``axis`` and those behind it, and the numbers of their elements."""
    if axis == len(lengths):
        flat = ctx.emit("Reshape", x, ctx.constant([0, 0, -1]))
        winner = ctx.emit("ArgMax", flat, axis=2, keepdims=1, type=element_types.i64)
        best = reduce(ctx, "ReduceMax", flat, [2])
        where = ctx.emit("Gather", ctx.emit("Reshape", numbers, ctx.constant([-1])), winner, axis=0)
        tail = ctx.constant([0, 0, *[1] * len(lengths)])
        return [ctx.emit("Reshape", values, tail) for values in (best, where)]
    maxima = []
    for start, stop in op.regions(lengths[axis], counts[axis]):
        bounds = ctx.constant([start]), ctx.constant([stop])
        part = ctx.emit("Slice", x, *bounds, ctx.constant([axis + 2]))
        part_numbers = ctx.emit("Slice", numbers, *bounds, ctx.constant([axis]))
        maxima.append(_regions(ctx, op, part, part_numbers, lengths, counts, axis + 1))
    return [concat(ctx, parts, axis + 2) for parts in zip(*maxima)]
