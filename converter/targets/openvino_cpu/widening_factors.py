"""Products with a factor that is no number for each element, channel or column, kept apart from the layers behind.

OpenVINO moves factors into these layers without looking at the shapes: the model does not compile, or its result lacks
dimensions.

    x [n, 1, h, w] -> Multiply([c, 1, 1]) -> Convolution, where the factor adds the channels
    x -> Multiply(beta) -> Sigmoid -> Multiply(x), where beta widens x, or is computed and no scalar
    x -> MatMul([k]) -> Multiply(number), where the weights are a vector
    x -> ReLU -> Multiply(slopes), the branch of a PReLU, where slopes widen x

A Maximum of the product and itself changes nothing, and prevents the fusion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.activation import ReLU1, Sigmoid1
from ir_runtime.operations.elementwise import Divide1, Multiply1, Negative1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.rewriting import NotMatched, UniqueNames, fail

from .opaque_identity import prevent_fusion


@openvino_cpu.edits("widening_factors", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def widening_factors(node: Node, unique: UniqueNames) -> int | NotMatched:
    """Prevent fusions with factors that widen the data; names and values stay."""
    reads = list(_fused_wrongly(node))
    for source, readers in reads:
        prevent_fusion(source, readers, unique)
    return len(reads) or fail("no factor before or behind it changes the shape")


def _fused_wrongly(node: Node) -> Iterator[tuple[Output, Sequence[Node]]]:
    """Values, and the layers that would be fused with the layer that computes the value, around ``node``."""
    (result,) = node.outputs
    if isinstance(node.op, MatMul1):
        if any(source.tensor is not None and len(source.tensor.shape) == 1 for source in node.inputs):
            readers = [reader for reader in result.uses if _constant_factor(reader) is not None]
            yield from [(result, readers)] if readers else []
    elif isinstance(node.op, ReLU1):
        for reader in [*result.uses, *(each for use in result.uses if _negates(use) for each in use.outputs[0].uses)]:
            scaled = reader.outputs[0] if reader.outputs else result
            if _constant_factor(reader) is not None and str(scaled.shape) != str(result.shape):
                yield scaled, list(scaled.uses)
    elif _goes_wrong(node):
        yield node.inputs[0], [node]


def _negates(node: Node) -> bool:
    return isinstance(node.op, Negative1)


def _goes_wrong(node: Node) -> bool:
    product = node.inputs[0]
    if isinstance(node.op, Sigmoid1):
        return isinstance(product.node.op, Multiply1) and any(
            _is_wrong_beta(beta, x, node) for x, beta in product.node.orders
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
