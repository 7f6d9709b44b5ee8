"""Convolution by kernels of a single element over padded data, as GroupConvolution of one group.

The plug-in moves the strides of such kernels to the layers before, past their pads and past a Pad, which then count
in steps of the strides: shapes and numbers are wrong. It also moves strides there from convolutions that follow.
It leaves GroupConvolution as it is, and runs it as fast, in 8 bits, too.

    x, weights [O, I, 1, 1] -> Convolution(pads)      becomes      weights -> Reshape [1, O, I, 1, 1]
                                                                   x ------> GroupConvolution(pads)

Seen in OpenVINO 2023.3, 2024.6 and 2026.4, where dimensions are static; the user may make them so later.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.targets.legalisation import legalise
from converter.targets.registry import openvino_cpu
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.rewrite import Uses


@openvino_cpu.register("padded_pointwise_convolutions", after=["fake_quantize", "integer_products", "pads"])
def padded_pointwise_convolutions(model: Model) -> int:
    """Make them GroupConvolutions."""
    return legalise(model, (Convolution1,), _grouped)


def _grouped(builder: Builder, node: Node, uses: Uses) -> Output | None:
    data, weights = node.inputs
    op = node.op
    if not isinstance(op, Convolution1) or not weights.shape.has_rank:
        return None
    if not any((*op.pads_begin, *op.pads_end)) and not isinstance(data.node.op, (Pad1, Pad12)):
        return None
    # A dimension of the kernel that is not known may be 1.
    if not all(extent.contains(1) for extent in weights.shape.dims[2:]):
        return None
    grouped = GroupConvolution1(
        strides=op.strides,
        pads_begin=op.pads_begin,
        pads_end=op.pads_end,
        dilations=op.dilations,
        auto_pad=op.auto_pad,
    )
    return builder.emit(grouped, data, _of_one_group(builder, weights))


def _of_one_group(builder: Builder, weights: Output) -> Output:
    if not weights.shape.is_static:
        return layers.unsqueeze(builder, weights, 0)
    # The plug-in looks for scales of 8-bit weights behind a Reshape, not behind an Unsqueeze.
    target = builder.constant([1, *(extent.value for extent in weights.shape.dims)])
    return builder.emit(Reshape1(special_zero=False), weights, target)
