"""Pooling whose number of windows is rounded up without those that start behind the data, as one that keeps them.

    AvgPool(ceil_torch)      becomes      AvgPool(ceil) -> Slice: the windows that start on data or in front of it

Where no window can start behind the data, whatever its shape, there is nothing to slice off.
"""

from __future__ import annotations

from converter.lowering import layers
from converter.lowering.shapes import as_list, dim_of
from converter.targets.legalisation import legalise
from converter.targets.openvino_cpu.opaque_identity import opaque_identity
from converter.targets.registry import below_opset15
from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.elementwise import Divide1
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.pooling import AvgPool1, AvgPool14, AvgPool16, MaxPool8, MaxPool14, Pooling
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewrite import Uses


@below_opset15.register("rounded_up_poolings")
def rounded_up_poolings(model: Model) -> int:
    """Put poolings of opset 1 or 8 in the place of those of opset 14."""
    return legalise(model, (AvgPool14, MaxPool14), _sliced)


def _sliced(builder: Builder, node: Node, uses: Uses) -> list[Output] | None:
    op = node.op
    if isinstance(op, AvgPool16) or not isinstance(op, (AvgPool14, MaxPool14)):
        return None
    torch = op.rounding_type == "ceil_torch"
    if torch and op.auto_pad != "explicit":
        return None
    (data,) = node.inputs
    if torch and isinstance(op, AvgPool14) and isinstance(data.node.op, (Pad1, Pad12)):
        # The plug-in would pad in the pooling, and then count what lies beyond the padding, too.
        data = builder.emit(opaque_identity(data.element_type), data, data)
    made = builder.emit_all(_older(op, "ceil" if torch else op.rounding_type), data)
    dilations = op.dilations if isinstance(op, MaxPool14) else [1] * len(op.kernel)
    windows = zip(op.kernel, op.strides, dilations, op.pads_begin, op.pads_end)
    for axis, (kernel, stride, dilation, begin, end) in enumerate(windows, 2):
        if torch and end + stride > (kernel - 1) * dilation + 1:
            reach = layers.add(builder, dim_of(builder, data, axis), builder.constant(begin + stride - 1))
            count = as_list(builder, builder.emit(Divide1(m_pythondiv=True), reach, builder.constant(stride)))
            bounds = [builder.constant([0]), count, builder.constant([1]), builder.constant([axis])]
            made = [builder.emit(Slice8(), value, *bounds) for value in made]
    return made


def _older(op: AvgPool14 | MaxPool14, rounding: str) -> Pooling:
    if isinstance(op, AvgPool14):
        return AvgPool1(
            strides=op.strides,
            pads_begin=op.pads_begin,
            pads_end=op.pads_end,
            kernel=op.kernel,
            auto_pad=op.auto_pad,
            exclude_pad=op.exclude_pad,
            rounding_type=rounding,
        )
    return MaxPool8(
        strides=op.strides,
        pads_begin=op.pads_begin,
        pads_end=op.pads_end,
        kernel=op.kernel,
        auto_pad=op.auto_pad,
        dilations=op.dilations,
        index_element_type=op.index_element_type,
        axis=op.axis,
        rounding_type=rounding,
    )
