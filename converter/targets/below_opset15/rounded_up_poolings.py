"""Poolings of opset 14, by those of opset 1 and 8.

``ceil_torch`` rounds the number of windows up, but drops windows that start after the data. The older ``ceil`` keeps
these windows:

    AvgPool(ceil_torch)      becomes      AvgPool(ceil) -> Slice of the windows that do not start after the data

Where no window can start after the data, whatever its shape, there is no Slice.
"""

from __future__ import annotations

from converter.targets.openvino_cpu.opaque_identity import opaque_identity
from converter.targets.registry import below_opset15
from ir_runtime.graph import Node
from ir_runtime.operations.elementwise import Divide1
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.pooling import AvgPool1, AvgPool14, AvgPool16, MaxPool8, MaxPool14
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.shape_layers import as_list, dim_of


@below_opset15.replaces("rounded_up_poolings", until="2024.5", seen_in=("2023.3",))
def rounded_up_poolings(builder: Builder, node: Node) -> Replacement:
    """Pool by opset 1 or 8, and cut off what ``ceil_torch`` drops."""
    op = node.op
    if isinstance(op, AvgPool16) or not isinstance(op, (AvgPool14, MaxPool14)):
        return fail("it is an AvgPool of opset 16, with dilations that older ones do not have")
    torch = op.rounding_type == "ceil_torch"
    if torch and op.auto_pad != "explicit":
        return fail("it rounds up as ceil_torch, with automatic padding")
    (data,) = node.inputs
    if torch and isinstance(op, AvgPool14) and isinstance(data.node.op, Pad):
        # The plug-in would move the padding into the pooling, and then count elements past the padding, too.
        data = builder.emit(opaque_identity(data.element_type), data, data)
    older = AvgPool1 if isinstance(op, AvgPool14) else MaxPool8
    pooled = builder.emit_all(op.as_operation(older, rounding_type="ceil" if torch else op.rounding_type), data)
    dilations = op.dilations if isinstance(op, MaxPool14) else [1] * len(op.kernel)
    windows = zip(op.kernel, op.strides, dilations, op.pads_begin, op.pads_end)
    for axis, (kernel, stride, dilation, begin, end) in enumerate(windows, 2):
        if torch and end + stride > (kernel - 1) * dilation + 1:
            reach = layers.add(builder, dim_of(builder, data, axis), builder.constant(begin + stride - 1))
            count = as_list(builder, builder.emit(Divide1(m_pythondiv=True), reach, builder.constant(stride)))
            bounds = [builder.constant([0]), count, builder.constant([1]), builder.constant([axis])]
            pooled = [builder.emit(Slice8(), value, *bounds) for value in pooled]
    return pooled
