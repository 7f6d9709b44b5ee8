"""Weights that an IR keeps in whole numbers of 4 or 8 bits, with the layers that turn them back into floats.

    codes -> Convert [-> Subtract zero points] -> Multiply scales [-> Reshape] [-> Convert]

ONNX's DequantizeLinear is this in one node. onnxruntime computes a product with such weights from the codes where a
scale belongs to a block of rows of ``[in, out]`` weights, or to a whole column.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Array, ElementType, Node, Output, Tensor
from ir_runtime.operations.elementwise import Convert1, Multiply1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.records import record

_TYPES = ("u4", "i4", "u8", "i8")


@record
class CompressedWeights:
    """The codes as they are stored, and what belongs to them; scales and zero points broadcast with the codes."""

    codes: Tensor
    scale: Tensor
    zero: Array | None
    """The zero points in the type of the codes; None where they are 0."""
    shape: tuple[int, ...]
    """The shape of the weights, which may join the dimensions of the codes."""
    element_type: ElementType
    """The type of the floats."""

    @property
    def block(self) -> int | None:
        """The number of neighbours along the last dimension that share a scale; None where it is no integer."""
        sizes, scales = self.codes.shape, self.scale.shape
        if len(sizes) == 3 and scales == (*sizes[:2], 1) and self.shape == (sizes[0], sizes[1] * sizes[2]):
            return sizes[2]
        return None

    @property
    def is_by_row(self) -> bool:
        """True if each row of a matrix has one scale."""
        return len(self.shape) == 2 and self.codes.shape == self.shape and self.scale.shape == (self.shape[0], 1)


def compressed_weights(output: Output) -> CompressedWeights | None:
    """The weights that a value is made from; None where it is no such value."""
    if not output.shape.is_static:
        return None
    element_type, shape = output.element_type, output.shape.static()
    node = _without(Convert1, output.node)
    node = _without(Reshape1, node)
    if not isinstance(node.op, Multiply1):
        return None
    for codes, scale in node.orders:
        factor = _constant(_without(Convert1, scale.node))
        if factor is None or not factor.element_type.is_real:
            continue
        zero = None
        source = codes.node
        if isinstance(source.op, Subtract1):
            zero = _constant(_without(Convert1, source.inputs[1].node))
            if zero is None:
                return None
            source = source.inputs[0].node
        stored = _constant(source.inputs[0].node) if isinstance(source.op, Convert1) else None
        if stored is None or stored.element_type.name not in _TYPES:
            return None
        points = None if zero is None else _zero_points(zero, stored, factor)
        if zero is not None and points is None:
            return None
        return CompressedWeights(stored, factor, points, shape, element_type)
    return None


def _without(operation: type, node: Node) -> Node:
    """The layer in front of one of this operation, which takes its first input; else the layer itself."""
    return node.inputs[0].node if isinstance(node.op, operation) else node


def _constant(node: Node) -> Tensor | None:
    return node.op.value if isinstance(node.op, Const1) else None


def _zero_points(zero: Tensor, codes: Tensor, scale: Tensor) -> Array | None:
    """The zero points in the codes' type and the scales' shape; None where they do not fit these."""
    values = zero.array()
    if not codes.element_type.holds(values):
        return None
    try:
        return np.broadcast_to(values, scale.shape).astype(codes.element_type.dtype)
    except ValueError:
        return None
