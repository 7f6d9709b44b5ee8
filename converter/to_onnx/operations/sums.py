"""Sums, which are the biases of products where ONNX's operators have an input for them."""

from __future__ import annotations

from converter.onnx_file.graph import operator_of
from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import reshape
from ir_runtime.graph import Node, Output
from ir_runtime.operations import convolution as ir
from ir_runtime.operations.elementwise import Add1, Binary
from ir_runtime.operations.matmul import MatMul1

_CONVOLUTIONS = (ir.Convolution1, ir.GroupConvolution1, ir.ConvolutionBackpropData1, ir.GroupConvolutionBackpropData1)


@ir_op(Add1)
def add(ctx: Context, op: Binary, a: Value, b: Value) -> Value:
    """Add; Conv, ConvTranspose and Gemm with a bias for each channel or column"""
    for product, bias in ctx.node.orders:
        is_private = isinstance(product.node.op, (MatMul1, *_CONVOLUTIONS)) and len(product.uses) == 1
        node = ctx.value(product).node
        if not is_private or bias.type.constant is None or len(node.inputs) != 2:
            continue
        if node.op.type in ("Conv", "ConvTranspose") and _is_by_channel(product, bias):
            vector = reshape(ctx, ctx.value(bias), [product.shape[1].value])
            return ctx.emit(node.op.type, *node.inputs, vector, **operator_of(node).values)
        if node.op.type in ("MatMul", "Gemm") and _is_by_column(node, product, bias):
            return ctx.emit("Gemm", *node.inputs, ctx.value(bias), **operator_of(node).values)
    return ctx.emit("Add", a, b)


def _is_by_channel(product: Output, bias: Output) -> bool:
    """Return whether a bias has an element for each channel of a convolution."""
    if not product.shape.has_rank or not product.shape[1].is_static or bias.shape.rank > product.shape.rank:
        return False
    sizes = [1] * (product.shape.rank - bias.shape.rank) + list(bias.shape.static())
    return sizes == [product.shape[1].value if axis == 1 else 1 for axis in range(len(sizes))]


def _is_by_column(node: Node, product: Output, bias: Output) -> bool:
    """Return whether a bias is one number, or one for each column of a product of two matrices."""
    if not product.element_type.is_real or not all(value.shape.has_rank for value in node.inputs):
        return False
    if any(value.shape.rank != 2 for value in node.inputs):
        return False
    columns, sizes = product.shape[1], list(bias.shape.static())
    is_row = (bool(sizes) and sizes[-1] == 1) or (columns.is_static and sizes[-1:] == [columns.value])
    return is_row and len(sizes) <= 2 and sizes[:-1] in ([], [1])
