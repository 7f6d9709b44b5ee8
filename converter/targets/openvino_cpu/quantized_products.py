"""Scales of quantized matrix multiplications and convolutions, moved from the sums to the weights.

QLinearConv, QLinearMatMul and similar operators add up products of integers exactly, and scale the sum. The
plug-in's low-precision transformations look for floats instead: quantized data, and weights with their scales.

    x (quantized) -> Convert(f32) -> Subtract(z)  \\
    w (8 bits)    -> Convert(f32) -> Subtract(z') -> Convolution -> (Add(bias)) -> Multiply(f) -> Round ...

becomes, where ``x`` is quantized in the model itself,

    x (quantized) -> Convert(f32) -> Subtract(z)  \\
    w (8 bits)    -> Convert(f32) -> Subtract(z') -> Multiply(f) -> Convolution -> (Add(bias f)) -> Round ...

The sum is rounded in float32, so that a value halfway between two quantization steps may be rounded to the other one.
Where integers are an input of the model, as in tests of a single operator, the layers stay as they are, and exact.
"""

from __future__ import annotations

import numpy as np

from converter.targets.openvino_cpu.fake_quantize import is_quantized
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.operations.convolution import Convolution1, GroupConvolution1
from ir_runtime.operations.elementwise import Add1, Convert1, Subtract1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting import Builder, Replacement, fail, layers

_PRODUCTS = (Convolution1, GroupConvolution1, MatMul1)


@openvino_cpu.replaces("quantized_products", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def quantized_products(builder: Builder, node: Node) -> Replacement:
    """Move the scale of a quantized product from its sum to its weights."""
    factor = node.inputs[1].tensor
    if factor is None or node.outputs[0].element_type is not element_types.f32:
        return fail("the factor is not constant, or not float32")
    total, bias = _split_bias(node.inputs[0])
    product = total.node
    if not isinstance(product.op, _PRODUCTS) or total.only_user is None:
        return fail("its input is no convolution or MatMul, or other layers read it, too")
    data, weights = product.inputs
    grouped = isinstance(product.op, GroupConvolution1) and isinstance(weights.node.op, Reshape1)
    stored = weights.node.inputs[0] if grouped else weights
    if not _is_dequantized(data, stored=False) or not (
        _is_dequantized(stored, stored=True) or _is_dequantized(stored, stored=False)
    ):
        return fail("the factors of the product are not dequantized integers of 8 bits")
    scale = _weight_scale(factor.array().astype(np.float32), product, stored)
    if scale is None:
        return fail("the factor has neither one element nor one for each output channel")
    scaled = layers.multiply(builder, stored, builder.constant(scale, element_types.f32))
    if grouped:
        scaled = builder.emit(weights.node.op, scaled, weights.node.inputs[1])
    result = builder.emit(product.op, data, scaled)
    if bias is not None:
        result = layers.add(builder, result, builder.constant(bias * factor.array(), element_types.f32))
    return result


def _split_bias(value: Output) -> tuple[Output, Array | None]:
    """Return the product in front of an integer Add of a constant bias, and the bias; None without one."""
    add = value.node.inputs[0].node if isinstance(value.node.op, Convert1) else None
    if add is None or not isinstance(add.op, Add1) or add.outputs[0].only_user is None or value.only_user is None:
        return value, None
    converted, bias = add.inputs[0].node, add.inputs[1].tensor
    if bias is None or not isinstance(converted.op, Convert1) or converted.outputs[0].only_user is None:
        return value, None
    return converted.inputs[0], bias.array().astype(np.float64)


def _is_dequantized(value: Output, *, stored: bool) -> bool:
    """True for 8-bit integers as floats, less a constant or not: constants if ``stored``, else quantized data."""
    node = value.node
    if isinstance(node.op, Subtract1):
        zero = node.inputs[1].node
        if node.inputs[1].tensor is None and not (isinstance(zero.op, Convert1) and zero.inputs[0].tensor is not None):
            return False
        node = node.inputs[0].node
    if not isinstance(node.op, Convert1) or not node.inputs[0].element_type.is_integral:
        return False
    if node.inputs[0].element_type.bits > 8:
        return False
    return node.inputs[0].tensor is not None if stored else is_quantized(node.inputs[0])


def _weight_scale(factor: Array, product: Node, weights: Output) -> Array | None:
    """Return the factor of the sum in the shape that scales the weights; None if it is not per output channel."""
    if factor.size == 1:
        return factor.reshape(())
    rank = product.outputs[0].shape.rank if product.outputs[0].shape.has_rank else None
    if rank is None or not weights.shape.has_rank:
        return None
    channels = rank - 1 if isinstance(product.op, MatMul1) else 1
    aligned_shape = (1,) * (rank - factor.ndim) + factor.shape
    if len(aligned_shape) != rank or factor.size != aligned_shape[channels]:
        return None
    if isinstance(product.op, MatMul1):
        return factor.reshape((-1, 1) if product.op.transpose_b else (-1,))
    return factor.reshape((-1,) + (1,) * (weights.shape.rank - 1))
