"""Scales and zero points of compressed weights whose shapes the plug-in does not look at.

The plug-in keeps weights of 8 bits or fewer compressed where a product or Gather reads them. It reads their scales and
zero points as one number, one for each row, or one for each group of columns of a row, whatever their shapes are. So
it multiplies by the wrong numbers, and Gather also writes behind the end of its memory.

    w (u4 [n, k]) -> Convert -> Multiply(scale [1, k]) -> MatMul

becomes

    w (u4 [n, k]) -> Convert -> Multiply(scale [1, k]) -> Maximum(a, a) -> MatMul

Maximum of a value and itself changes nothing. The plug-in computes the weights while it compiles the model then, and
stores them as floats. Weights whose scales it reads correctly stay compressed: those of one scale, those of one for
each row (of the product, or of the table), and those in groups of a usual size. A block that does not divide the rows
of DequantizeLinear's input gives a scale for each weight.
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.targets.openvino_cpu.opaque_identity import opaque_identity
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Convert1, Multiply1, Subtract1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, NotMatched, Replacement, fail


@record
class _Weights:
    """Stored weights, and the shapes of their scale and of their zero point, of as many dimensions."""

    stored: tuple[int, ...]
    factors: Sequence[tuple[int, ...]]
    is_reshaped: bool
    is_transposed: bool


@openvino_cpu.replaces("scales_of_compressed_weights", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def scales_of_compressed_weights(builder: Builder, node: Node) -> Replacement:
    """Have the plug-in decompress the weights before the product."""
    place = 1 if isinstance(node.op, MatMul1) else 0
    inputs = list(node.inputs)
    weights = _weights_of(inputs[place])
    if isinstance(weights, NotMatched):
        return weights
    if _are_read_by_product(node, weights) if isinstance(node.op, MatMul1) else _are_of_rows(weights):
        return fail("the plug-in reads scales and zero points of these shapes correctly")
    inputs[place] = builder.emit(opaque_identity(inputs[place].element_type), inputs[place], inputs[place])
    return builder.emit(node.op, *inputs)


def _weights_of(value: Output) -> _Weights | NotMatched:
    """Follow ``value`` back over changes of its type and shape to constant weights of at most 8 bits."""
    node, changes = value.node, list[Node]()
    while isinstance(node.op, (Convert1, Reshape1, Transpose1)):
        changes.append(node)
        node = node.inputs[0].node
    for data, scale in node.orders if isinstance(node.op, Multiply1) else ():
        factors = [scale]
        if isinstance(data.node.op, Subtract1):
            data, zero = data.node.inputs
            factors.append(zero.node.inputs[0] if isinstance(zero.node.op, Convert1) else zero)
        stored = data.node.inputs[0] if isinstance(data.node.op, Convert1) else data
        if stored.element_type.bits > 8 or any(part.tensor is None for part in (stored, *factors)):
            continue
        rank = stored.shape.rank
        shapes = [(1,) * (rank - factor.shape.rank) + factor.shape.static() for factor in factors]
        is_transposed = sum(isinstance(change.op, Transpose1) for change in changes) % 2 == 1
        is_reshaped = any(isinstance(change.op, Reshape1) for change in changes)
        return _Weights(stored.shape.static(), shapes, is_reshaped, is_transposed)
    return fail(f"input '{value.node.name}' is not made of compressed weights")


def _are_of_rows(weights: _Weights) -> bool:
    """True if each factor belongs to weights that are stored in a row: it has their first dimensions, then 1."""
    stored = weights.stored
    shapes = [(*stored[:count], *[1] * (len(stored) - count)) for count in range(len(stored) + 1)]
    return all(factor in shapes for factor in weights.factors)


def _are_read_by_product(node: Node, weights: _Weights) -> bool:
    """True if the factors are one number, or one for each row or each group of a row, as the plug-in reads them."""
    assert isinstance(node.op, MatMul1)
    if all(set(factor) <= {1} for factor in weights.factors):
        return True
    matrix = node.inputs[1].shape
    if not matrix.is_static or matrix.rank < 2:
        return False
    *stack, _, _ = matrix.static()
    if any(size != 1 for size in stack):
        return True  # It decompresses these by layers of their own.
    shapes = [weights.stored, *weights.factors]
    if not weights.is_reshaped:
        shapes = [shape[-2:] for shape in shapes]
    if node.op.transpose_b == weights.is_transposed:
        shapes = [(shape[-1], *shape[:-1]) for shape in shapes]
    stored, *factors = shapes
    if len(stored) not in (2, 3) or stored[0] != matrix.static()[-2 if node.op.transpose_b else -1]:
        return False
    if any(factor[-1] != 1 for factor in factors) or not _are_of_rows(_Weights(stored, factors, False, False)):
        return False
    return all(set(factor[1:]) == {1} for factor in factors) or _is_usual_group(stored[-1])


def _is_usual_group(size: int) -> bool:
    """True if the plug-in reads groups of this size correctly, or decompresses them by layers of their own."""
    return size < 4 or size & (size - 1) == 0 or size % 32 == 0
