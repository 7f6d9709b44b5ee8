"""Rules for normalizations, convolutions and interpolation, by other layers of the same values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.graph.element_types import f32, f64
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.generation import ShapeOf
from ir_runtime.operations.interpolate import Interpolate11
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.normalization import LRN1, BatchNormInference5
from ir_runtime.operations.padding import Pad
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("batch_normalizations", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def batch_normalizations(builder: Builder, node: Node) -> Replacement:
    """Replace a batch normalization by constants by one factor and one summand for each channel.

    The plug-in rewrites each layer so when it compiles a model, out of the four constants. That takes a third of the
    time in which it loads a DenseNet. OpenVINO's converter stores factors and summands, too.

        x -> BatchNormInference(gamma, beta, mean, variance)      becomes      x -> Multiply(f) -> Add(s)

    with f = gamma / sqrt(variance + epsilon) and s = beta - mean f, computed in float64 and rounded once. Summands that
    are all 0 are left out.
    """
    assert isinstance(node.op, BatchNormInference5)
    data, *constants = node.inputs
    element_type = data.element_type
    if element_type not in (f32, f64):
        return fail("the numbers are neither float32 nor float64, and the factors would be rounded more than these")
    tensors = [value.tensor for value in constants if value.tensor is not None]
    if len(tensors) < len(constants):
        return fail("gamma, beta, mean or variance is not constant")
    # A dynamic number of channels may be 1, which factors of several channels would broadcast.
    if not data.shape.has_rank or not data.shape[1].is_static:
        return fail("the rank or the number of channels is dynamic")
    gamma, beta, mean, variance = (tensor.array().astype(np.float64) for tensor in tensors)
    with np.errstate(all="ignore"):
        factors = gamma / np.sqrt(variance + node.op.epsilon)
        summands = beta - mean * factors
    limit = float(np.finfo(element_type.dtype).max)
    if not all((np.abs(each) <= limit).all() for each in (factors, summands)):
        return fail("a factor or a summand would not be finite")
    shape = (1, -1, *[1] * (data.shape.rank - 2))
    factor, summand = (
        builder.computed(node.op.type, values.reshape(shape), element_type, constants) for values in (factors, summands)
    )
    scaled = layers.multiply(builder, data, factor)
    return layers.add(builder, scaled, summand) if summands.any() else scaled


@openvino_cpu.replaces("interpolate_many_axes", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def interpolate_many_axes(builder: Builder, node: Node) -> Replacement:
    """Interpolate along a few of many dimensions after the others.

    Dimensions are independent of each other, and so the numbers are the same.

        x -> Interpolate(cubic, axes 1, 2, 3)      becomes      x -> Interpolate(axis 1) -> Interpolate(axes 2, 3)

    The plug-in resizes these dimensions at once; with others it is wrong or refuses them:

    - cubic: any two dimensions of four, the last two of three, and any of five or more;
    - linear: any two, any three of five or more, and the last three of four.

    What depends on constants and shapes alone is folded while the plug-in compiles. That fails with "Axes are not
    correct!" for most axes of mode linear_onnx, but not of mode linear, which gives the same numbers:

        ShapeOf -> ... -> Interpolate(linear_onnx)      becomes      ShapeOf -> ... -> Interpolate(linear)
    """
    op = node.op
    if not isinstance(op, Interpolate11) or len(node.inputs) < 3 or any((*op.pads_begin, *op.pads_end)):
        return fail("it pads, or has no axes")
    resized, target, axes = node.inputs
    constant = axes.type.constant
    if constant is None or not resized.shape.has_rank:
        return fail("the axes come at run time, or the rank is dynamic")
    rank = resized.shape.rank
    places = [int(axis) % rank for axis in constant.reshape(-1)]
    if op.mode == "linear_onnx" and not op.antialias and _is_folded(resized):
        return builder.emit(op.with_attributes(mode="linear"), *node.inputs)
    step = _at_once(op.mode, rank, places)
    if step >= len(places):
        return fail("the plug-in resizes these dimensions at once")
    # The last dimensions, those of images, stay together: the plug-in is fast for these.
    for end in range(len(places) % step or step, len(places) + 1, step):
        some = list(range(max(end - step, 0), end))
        part = layers.gather(builder, target, builder.constant(some), builder.constant(0))
        resized = builder.emit(op, resized, part, builder.constant([places[index] for index in some]))
    return resized


def _is_folded(value: Output) -> bool:
    """True if a value depends on constants and shapes alone."""
    pending, seen = [value.node], set()
    while pending:
        node = pending.pop()
        if node in seen or isinstance(node.op, ShapeOf):
            continue
        if not node.inputs and node.op.data is None:
            return False
        if not node.op.deterministic:
            return False
        seen.add(node)
        pending += [source.node for source in node.inputs]
    return True


def _at_once(mode: str, rank: int, axes: Sequence[int]) -> int:
    """Return the number of these dimensions that the plug-in resizes at once."""
    if mode == "cubic" and rank == 3:
        return 1 if 0 in axes else 2
    if mode == "cubic" and rank == 4:
        return 2
    if mode == "linear_onnx":
        return 3 if len(axes) == 3 and (rank != 4 or 0 not in axes) else 2
    return len(axes)


@openvino_cpu.replaces("lrn_fractional_bias", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def lrn_fractional_bias(builder: Builder, node: Node) -> Replacement:
    """Multiply by a power of a fractional bias of LRN instead of adding it.

    The plug-in drops the fraction of the bias. The rule divides the sum by the bias, whose sign alone stays in it:

        x -> LRN(alpha, beta, bias)      becomes      x -> LRN(alpha / |bias|, beta, 1) -> Multiply(|bias| ^ -beta)
    """
    op = node.op
    if not isinstance(op, LRN1) or float(op.bias).is_integer():
        return fail("the bias is an integer")
    size = abs(op.bias)
    whole = LRN1(alpha=op.alpha / size, beta=op.beta, bias=math.copysign(1.0, op.bias), size=op.size)
    normalized = builder.emit(whole, *node.inputs)
    return layers.multiply(builder, normalized, builder.like(math.pow(size, -op.beta), normalized))


@openvino_cpu.replaces("padded_pointwise_convolutions", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def padded_pointwise_convolutions(builder: Builder, node: Node) -> Replacement:
    """Convolve padded data by kernels of a single element as one group.

    The plug-in moves the strides of such kernels to the layers before, past their pads and past a Pad, whose pads then
    count in steps of the strides: shapes and numbers are wrong. It also moves the strides of convolutions that follow.
    It does not do that with GroupConvolution, which is as fast, in 8 bits, too.

        x, weights [O, I, 1, 1] -> Convolution(pads)      becomes      weights -> Reshape [1, O, I, 1, 1]
                                                                       x ------> GroupConvolution(pads)

    The fault needs static dimensions. A converted model may be reshaped to such, and so the rule applies to all.
    """
    data, weights = node.inputs
    op = node.op
    if not isinstance(op, Convolution1) or not weights.shape.has_rank:
        return fail("the rank of the weights is dynamic")
    if not any((*op.pads_begin, *op.pads_end)) and not isinstance(data.node.op, Pad):
        return fail("the data is not padded")
    # A dynamic dimension of the kernel may be 1.
    if not all(dimension.contains(1) for dimension in weights.shape.dims[2:]):
        return fail("the kernel has several elements")
    return builder.emit(op.as_operation(GroupConvolution1), data, _of_one_group(builder, weights))


def _of_one_group(builder: Builder, weights: Output) -> Output:
    if not weights.shape.is_static:
        return layers.unsqueeze(builder, weights, 0)
    # The plug-in finds the scales of 8-bit weights after a Reshape, but not after an Unsqueeze.
    target = builder.constant([1, *(dimension.value for dimension in weights.shape.dims)])
    return builder.emit(Reshape1(special_zero=False), weights, target)
