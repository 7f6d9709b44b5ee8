"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.integer_operands import IntegerOperand, integer_operand
from converter.to_onnx.layers import concat, dimension, int64_list, known_list, rank_of, reshape, shape_of
from converter.to_onnx.windows import dilations_of, padding, spatial
from ir_runtime.analysis.polynomials import Polynomial
from ir_runtime.graph import Dimension, PartialShape, element_types
from ir_runtime.operations import convolution as ir
from ir_runtime.operations.movement import Reshape1

_Backprop = Union[ir.ConvolutionBackpropData1, ir.GroupConvolutionBackpropData1]


@ir_op(ir.Convolution1, ir.GroupConvolution1)
def convolution(ctx: Context, op: ir.Convolution1, x: Value, weights: Value) -> Value:
    """Conv, with ``group`` for groups; of integers ConvInteger where these are of 8 bits, and in float32 otherwise"""
    is_grouped, element_type = op.is_grouped, x.element_type
    group, rank = _group(ctx, op, weights), _spatial_rank(ctx, op, x, weights)
    attributes = {"group": group, **_attributes(ctx, op, x, weights, rank)}
    data = None if element_type.is_real else integer_operand(ctx, ctx.node.inputs[0])
    filters = None if data is None else _integer_filters(ctx, is_grouped)
    if data is not None and filters is not None:
        codes = ctx.value(filters.codes)
        if is_grouped and filters.codes.shape.rank == weights.shape.rank:
            codes = _join(ctx, codes, 0)
        return ctx.emit("ConvInteger", ctx.value(data.codes), codes, data.zero_point, filters.zero_point, **attributes)
    if is_grouped:
        weights = _join(ctx, weights, 0)
    if not element_type.is_real:  # as OpenVINO does
        x, weights = ctx.cast(x, element_types.f32), ctx.cast(weights, element_types.f32)
    return ctx.emit("Conv", x, weights, **attributes)


def _integer_filters(ctx: Context, is_grouped: bool) -> IntegerOperand | None:
    """The weights as integers of 8 bits, without the Reshape that splits them into groups."""
    source = ctx.node.inputs[1]
    if is_grouped and isinstance(source.node.op, Reshape1):
        joined, dims = source.node.inputs[0], source.shape.dims
        if str(joined.shape) == str(PartialShape([dims[0] * dims[1], *dims[2:]])):
            source = joined
    operand = integer_operand(ctx, source)
    return operand if operand is not None and operand.codes.shape.has_rank else None


def _join(ctx: Context, weights: Value, axis: int) -> Value:
    """The weights with the dimensions ``axis`` and the next as one."""
    dims = weights.shape.dims
    merged = [*dims[:axis], dims[axis] * dims[axis + 1], *dims[axis + 2 :]]
    if all(extent.is_static for extent in merged):
        return reshape(ctx, weights, [extent.value for extent in merged])
    rest = [dimension(ctx, weights, index) for index in range(axis + 2, len(dims))]
    front = [dimension(ctx, weights, index) for index in range(axis)]
    shape = concat(ctx, [*front, ctx.constant([-1], element_types.i64), *rest], 0)
    return ctx.emit("Reshape", weights, shape)


def _group(ctx: Context, op: ir.Convolution1 | _Backprop, weights: Value) -> int | None:
    """The number of groups, which the first dimension of the weights counts; None for a convolution without groups."""
    if not op.is_grouped:
        return None
    if not weights.shape.has_rank or not weights.shape[0].is_static:
        ctx.fail("the number of groups must be known")
    return weights.shape[0].value


def _spatial_rank(ctx: Context, op: ir.Convolution1 | _Backprop, x: Value, weights: Value) -> int:
    if weights.shape.has_rank:
        return weights.shape.rank - 2 - op.is_grouped
    return rank_of(ctx, x, "the data or the weights") - 2


def _attributes(ctx: Context, op: Any, x: Value, weights: Value, rank: int) -> dict[str, Any]:
    kernel, sizes = (spatial(operand.shape.dims if operand.shape.has_rank else (), rank) for operand in (weights, x))
    return {
        "strides": list(op.strides[:rank] or [1] * rank),
        "dilations": dilations_of(op, rank),
        **padding(ctx, op, kernel, sizes),
    }


@ir_op(ir.ConvolutionBackpropData1, ir.GroupConvolutionBackpropData1)
def convolution_transposed(ctx: Context, op: _Backprop, x: Value, weights: Value, shape: Value | None = None) -> Value:
    """ConvTranspose, with ``group`` for groups"""
    groups, rank = _group(ctx, op, weights), _spatial_rank(ctx, op, x, weights)
    kernel = weights.shape.dims[2 + op.is_grouped :]
    if op.is_grouped:
        weights = _join(ctx, weights, 0)
    more = list(op.output_padding[:rank] or [0] * rank)
    attributes: dict[str, Any] = {
        "strides": list(op.strides[:rank] or [1] * rank),
        "dilations": list(op.dilations[:rank] or [1] * rank),
        "output_padding": more if any(more) else None,
        "group": None if groups == 1 else groups,
    }
    begins, ends = (list(pads[:rank] or [0] * rank) for pads in (op.pads_begin, op.pads_end))
    if op.auto_pad != "explicit":
        begins, ends = [0] * rank, [0] * rank
    if shape is not None:
        output_sizes = known_list(ctx, shape)
        sizes = x.shape.dims[2:] if x.shape.has_rank else ()
        if output_sizes is None or not all(extent.is_static for extent in (*sizes, *kernel)) or not sizes:
            return _to_shape(ctx, op, x, weights, shape, kernel, begins, attributes)
        whole = op.whole_sizes([size.value for size in sizes], [taps.value for taps in kernel])
        begins = list(op.cuts_in_front(whole, output_sizes))
        ends = [size - target - begin for size, target, begin in zip(whole, output_sizes, begins)]
        if any(end < 0 for end in ends):
            # The output is longer than what the windows reach: zeros behind it.
            padded = [max(-end, 0) for end in ends]
            unpadded = ctx.emit(
                "ConvTranspose", x, weights, pads=[*begins, *[max(end, 0) for end in ends]], **attributes
            )
            zeros = [0] * (rank + 4) + padded
            return ctx.emit("Pad", unpadded, ctx.constant(zeros, element_types.i64))
    return ctx.emit("ConvTranspose", x, weights, pads=[*begins, *ends], **attributes)


def _to_shape(
    ctx: Context,
    op: _Backprop,
    x: Value,
    weights: Value,
    shape: Value,
    kernel: Sequence[Dimension],
    begins: list[int],
    attributes: dict[str, Any],
) -> Value:
    """Write a transposed convolution to a shape, where what is cut off follows from dimensions at run time."""
    # ONNX cuts more off the front for SAME_LOWER, and where there is no auto_pad.
    same = {"same_upper": "SAME_LOWER", "same_lower": "SAME_UPPER"}.get(op.auto_pad)
    constant, rank = known_list(ctx, shape), len(begins)
    if same and constant is not None:
        auto_pad = same if same == "SAME_UPPER" else None
        return ctx.emit("ConvTranspose", x, weights, output_shape=constant, auto_pad=auto_pad, **attributes)
    dims, targets, strides = ctx.dims(ctx.node.inputs[0]), ctx.elements(ctx.node.inputs[2]), attributes["strides"]
    # Where strides are longer than windows, onnxruntime (1.32) returns fewer elements than auto_pad asks for.
    reaches = [(taps.low - 1) * dilation + 1 for taps, dilation in zip(kernel, attributes["dilations"])]
    is_covered = len(reaches) == rank and all(reach >= stride for reach, stride in zip(reaches, strides))
    if same and is_covered and dims and targets == [n * Polynomial.constant(s) for n, s in zip(dims[2:], strides)]:
        return ctx.emit("ConvTranspose", x, weights, auto_pad=same, **attributes)
    whole = ctx.emit("ConvTranspose", x, weights, **attributes)
    target, zero = int64_list(ctx, shape), ctx.constant(0)
    sizes = ctx.emit("Slice", shape_of(ctx, whole), ctx.constant([2]), ctx.constant([2 + rank]))
    start = ctx.constant(begins)
    if same:
        total = ctx.emit("Max", ctx.emit("Sub", sizes, target), zero)
        half = ctx.emit("Div", total, ctx.constant(2))
        start = half if same == "SAME_UPPER" else ctx.emit("Sub", total, half)
    end = ctx.emit("Add", start, target)
    # Where the output is longer than what the windows reach, zeros follow.
    missing = ctx.emit("Max", ctx.emit("Sub", end, sizes), zero)
    padded = ctx.emit("Pad", whole, concat(ctx, [ctx.constant([0] * (rank + 4)), missing], 0))
    return ctx.emit("Slice", padded, start, end, ctx.constant(list(range(2, 2 + rank))))


@ir_op(ir.DeformableConvolution1, ir.DeformableConvolution8)
def deformable_convolution(
    ctx: Context, op: ir.DeformableConvolution8, x: Value, offsets: Value, weights: Value, mask: Value | None = None
) -> Value:
    """DeformConv (opset 19), which interpolates with zeros around the data"""
    if not getattr(op, "bilinear_interpolation_pad", False):
        ctx.fail("ONNX's DeformConv interpolates with zeros around the data (bilinear_interpolation_pad)")
    attributes = _attributes(ctx, op, x, weights, 2)
    if "auto_pad" in attributes:
        ctx.fail(f"ONNX's DeformConv has no auto_pad, but it is {op.auto_pad}")
    return ctx.emit(
        "DeformConv", x, weights, offsets, None, mask, group=op.group, offset_group=op.deformable_group, **attributes
    )
