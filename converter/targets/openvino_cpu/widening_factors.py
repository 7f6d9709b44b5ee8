"""Products with a factor that is no number for each element, channel or column, kept apart from the layers behind.

OpenVINO moves factors into these layers without looking at the shapes: the model does not compile, or its result lacks
dimensions.

    x [n, 1, h, w] -> Multiply([c, 1, 1]) -> Convolution, where the factor adds the channels
    x -> Multiply(beta) -> Sigmoid -> Multiply(x), where beta widens x, or is computed and no scalar
    x -> MatMul([k]) -> Multiply(number), where the weights are a vector

A Maximum of the product and itself changes nothing, and prevents the fusion.
"""

from __future__ import annotations

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operations.activation import Sigmoid1
from ir_runtime.operations.convolution import (
    Convolution1,
    ConvolutionBackpropData1,
    GroupConvolution1,
    GroupConvolutionBackpropData1,
)
from ir_runtime.operations.elementwise import Divide1, Multiply1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.rewriting import PassTrace, UniqueNames, fail

from .opaque_identity import prevent_fusion

_CONVOLUTIONS = (Convolution1, GroupConvolution1, ConvolutionBackpropData1, GroupConvolutionBackpropData1)


@openvino_cpu.register("widening_factors", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def widening_factors(model: Model, trace: PassTrace) -> int:
    """Prevent fusions with factors that widen the data; names and values stay."""
    count = 0
    for part in model.parts():
        unique = UniqueNames(part)
        for node in part.nodes_of((*_CONVOLUTIONS, Sigmoid1, MatMul1)):
            source, readers = _fused_by_vector(node) if isinstance(node.op, MatMul1) else (node.inputs[0], [node])
            if not readers or not (isinstance(node.op, MatMul1) or _goes_wrong(node)):
                trace.not_matched(node, fail("no factor before or behind it changes the shape"))
                continue
            prevent_fusion(source, readers, unique)
            trace.matched(node)
            count += 1
    return count


def _fused_by_vector(node: Node) -> tuple[Output, list[Node]]:
    """The result of a matrix multiplication, and the products with constants if an operand is a constant vector."""
    has_vector = any(source.tensor is not None and len(source.tensor.shape) == 1 for source in node.inputs)
    readers = [reader for reader in node.outputs[0].uses if _constant_factor(reader) is not None] if has_vector else []
    return node.outputs[0], readers


def _goes_wrong(node: Node) -> bool:
    product = node.inputs[0]
    if isinstance(node.op, Sigmoid1):
        return isinstance(product.node.op, Multiply1) and any(
            _is_wrong_beta(beta, x, node) for x, beta in (product.node.inputs, product.node.inputs[::-1])
        )
    if _constant_factor(product.node) is None:
        return False
    data = next(source for source in product.node.inputs if source.type.constant is None)
    if not product.shape.has_rank or not data.shape.has_rank:
        return False
    return data.shape.rank < product.shape.rank or data.shape[1] != product.shape[1]


def _constant_factor(node: Node) -> Output | None:
    """The constant of a product or a quotient with one."""
    if not isinstance(node.op, (Multiply1, Divide1)):
        return None
    constants = [source for source in node.inputs if source.type.constant is not None or source.tensor is not None]
    return constants[0] if len(constants) == 1 else None


def _is_wrong_beta(beta: Output, x: Output, sigmoid: Node) -> bool:
    """True if ``x`` times the sigmoid of the product of both looks like a Swish with ``beta``, which is no scalar."""
    readers = sigmoid.outputs[0].uses
    if not any(isinstance(reader.op, Multiply1) and x in reader.inputs for reader in readers):
        return False
    if beta.tensor is None:
        return not (beta.shape.has_rank and beta.shape.rank == 0)
    values = beta.tensor.array()
    return values.ndim > 0 and values.size > 1 and bool(np.all(values == values.reshape(-1)[0]))
