"""Convolution by kernels of a single element over padded data, as GroupConvolution of one group.

The plug-in moves the strides of such kernels to the layers before, past their pads and past a Pad, whose pads then
count in steps of the strides: shapes and numbers are wrong. It also moves the strides of convolutions that follow.
It does not do that with GroupConvolution, which is as fast, in 8 bits, too.

    x, weights [O, I, 1, 1] -> Convolution(pads)      becomes      weights -> Reshape [1, O, I, 1, 1]
                                                                   x ------> GroupConvolution(pads)

The fault needs static dimensions. A converted model may be reshaped to such, and so the rule applies to all.
"""

from __future__ import annotations

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.padding import Pad
from ir_runtime.rewriting import Builder, Replacement, fail, layers


@openvino_cpu.replaces("padded_pointwise_convolutions", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def padded_pointwise_convolutions(builder: Builder, node: Node) -> Replacement:
    """Convolve as one group."""
    data, weights = node.inputs
    op = node.op
    if not isinstance(op, Convolution1) or not weights.shape.has_rank:
        return fail("the rank of the weights is dynamic")
    if not any((*op.pads_begin, *op.pads_end)) and not isinstance(data.node.op, Pad):
        return fail("the data is not padded")
    # A dynamic dimension of the kernel may be 1.
    if not all(dimension.contains(1) for dimension in weights.shape.dims[2:]):
        return fail("the kernel has several elements")
    grouped = GroupConvolution1(
        strides=op.strides, pads_begin=op.pads_begin, pads_end=op.pads_end, dilations=op.dilations, auto_pad=op.auto_pad
    )
    return builder.emit(grouped, data, _of_one_group(builder, weights))


def _of_one_group(builder: Builder, weights: Output) -> Output:
    if not weights.shape.is_static:
        return layers.unsqueeze(builder, weights, 0)
    # The plug-in finds the scales of 8-bit weights after a Reshape, but not after an Unsqueeze.
    target = builder.constant([1, *(dimension.value for dimension in weights.shape.dims)])
    return builder.emit(Reshape1(special_zero=False), weights, target)
