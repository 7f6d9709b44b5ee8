"""Shifts and poolings that OpenVINO got later, by layers of older opsets."""

from __future__ import annotations

import numpy as np

from converter.targets.openvino_cpu.intervals import is_small
from converter.targets.openvino_cpu.opaque_identity import opaque_identity
from converter.targets.registry import below_opset15
from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.elementwise import BitwiseAnd13, BitwiseLeftShift15, Divide1
from ir_runtime.operations.padding import Pad
from ir_runtime.operations.pooling import AvgPool1, AvgPool14, AvgPool16, MaxPool8, MaxPool14
from ir_runtime.operations.reduction import Reduction
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.shape_layers import as_list, dim_of

_BITS_TO_CLEAR = 8
"""Of 32 bits, the number to clear so that float32 holds the others."""


@below_opset15.replaces("bitwise_shifts", until="2024.5", seen_in=("2023.3",))
def bitwise_shifts(builder: Builder, node: Node) -> Replacement:
    """Multiply or divide by powers of two.

        BitwiseLeftShift(x, k)    becomes   Multiply(x, 2^k)
        BitwiseRightShift(x, k)   becomes   Divide(x, 2^k), rounded down, where float32 holds every x
        BitwiseRightShift(x, k)   becomes   Divide(x & -2^k, 2^k) otherwise, from 8 bits on

    32 - k bits are left then, and float32 holds 24. For less than 8 bits the lowest 8 are shifted by themselves.
    """
    value, amount = node.inputs
    constant = amount.type.constant
    if (
        constant is None
        or (constant < 0).any()
        or (constant >= value.element_type.bits - value.element_type.is_signed).any()
    ):
        return fail("the amount comes at run time, is negative, or shifts out every bit")
    amounts = constant.astype(np.int64)
    if isinstance(node.op, BitwiseLeftShift15):
        if isinstance(value.node.op, Reduction):
            # The plug-in would compute the product as floats, together with the reduction.
            value = builder.emit(opaque_identity(value.element_type), value, value)
        return layers.multiply(builder, value, _powers(builder, amounts, value))
    if is_small(value) or (amounts >= _BITS_TO_CLEAR).all():
        return _divide(builder, value, amounts)
    if (amounts > _BITS_TO_CLEAR).any():
        return fail("float32 does not hold the numbers, and some amounts are below 8 bits, others above")
    high = layers.multiply(
        builder,
        _divide(builder, value, np.full_like(amounts, _BITS_TO_CLEAR)),
        _powers(builder, _BITS_TO_CLEAR - amounts, value),
    )
    low = builder.emit(BitwiseAnd13(), value, builder.like((1 << _BITS_TO_CLEAR) - 1, value))
    return layers.add(builder, high, _divide(builder, low, amounts))


def _divide(builder: Builder, value: Output, amounts: Array) -> Output:
    """The quotient by powers of two; float32 must hold the bits that are left."""
    powers = _powers(builder, amounts, value)
    if not is_small(value):
        # Minus the power, in the type's bits: all the bits that are left.
        above = np.left_shift(-1, amounts).astype(value.element_type.dtype)
        value = builder.emit(BitwiseAnd13(), value, builder.constant(above, value.element_type))
    return builder.emit(Divide1(m_pythondiv=True), value, powers)


def _powers(builder: Builder, amounts: Array, value: Output) -> Output:
    return builder.constant(np.left_shift(1, amounts), value.element_type)


@below_opset15.replaces("rounded_up_poolings", until="2024.5", seen_in=("2023.3",))
def rounded_up_poolings(builder: Builder, node: Node) -> Replacement:
    """Pool by opset 1 or 8, and cut off what ``ceil_torch`` drops.

    ``ceil_torch`` rounds the number of windows up, but drops windows that start after the data. The older ``ceil``
    keeps these windows:

        AvgPool(ceil_torch)      becomes      AvgPool(ceil) -> Slice of the windows that do not start after the data

    Where no window can start after the data, whatever its shape, there is no Slice.
    """
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
