"""Weights that an IR keeps in whole numbers of 4 or 8 bits, in operators that read the codes.

    codes -> Convert [-> Subtract zero points] -> Multiply scales [-> Reshape] [-> Convert]

ONNX's DequantizeLinear is this in one node. onnxruntime computes a product with such weights from the codes where a
scale belongs to a block of rows of ``[in, out]`` weights, or to a whole column.

x, codes -> Convert [-> Subtract] -> Multiply -> MatMul       becomes       MatMulNBits, or DequantizeLinear -> MatMul
codes -> Convert [-> Subtract] -> Multiply -> Gather          becomes       Gather of codes and scales -> Multiply
"""

from __future__ import annotations

import numpy as np

from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Array, ElementType, Node, Output, PartialShape, Tensor, TensorType, element_types
from ir_runtime.operations.elementwise import Convert1, Multiply1, Subtract1
from ir_runtime.operations.inputs_outputs import Const1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.records import record
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import gather, in_type, multiply, subtract, transpose

from .operators import emit_operator, may_use, may_use_contrib
from .registry import before_export

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


_LEAST_BLOCK = 16
"""The smallest block of MatMulNBits."""
_FLOAT32 = 1
"""The ``accuracy_level`` of MatMulNBits that rounds no inputs."""


@before_export.replaces("compressed_products")
def product(builder: Builder, node: Node) -> Replacement:
    """Replace the product with ``[out, in]`` weights by MatMulNBits, or by one of weights from DequantizeLinear."""
    weights, op = compressed_weights(node.inputs[1]), node.op
    assert isinstance(op, MatMul1)
    if weights is None or not op.transpose_b or op.transpose_a or len(weights.shape) != 2:
        return fail("the second operand is no matrix of compressed weights")
    x, bits = node.inputs[0], weights.codes.element_type.bits
    if x.element_type is not weights.element_type:
        return fail("the weights are of another type than the data")
    if weights.is_by_row and bits == 8:
        if not may_use(13):
            return fail("DequantizeLinear along an axis needs opset 13")
        zero = None if weights.zero is None else weights.zero.reshape(-1)
        scale = weights.scale.array().reshape(weights.shape[0])
        read = _dequantized(builder, weights, weights.codes, scale, zero)
        return _multiplied(builder, x, transpose(builder, read, builder.constant([1, 0])))
    block = weights.shape[1] if weights.is_by_row else weights.block
    if block is None:
        return fail("the scales are not of rows or blocks")
    rows, columns = weights.shape
    count = columns // block
    is_power = block >= _LEAST_BLOCK and block & (block - 1) == 0
    if may_use_contrib() and is_power and x.element_type is element_types.f32:
        return _n_bits(builder, node, weights, block, count)
    if not may_use(21):
        return fail("DequantizeLinear of blocks needs opset 21")
    codes = np.ascontiguousarray(weights.codes.array().reshape(rows, columns).T)
    scale = np.ascontiguousarray(weights.scale.array().reshape(rows, count).T)
    zero = None if weights.zero is None else np.ascontiguousarray(weights.zero.reshape(rows, count).T)
    stored = Tensor.from_array(codes, weights.codes.element_type)
    return _multiplied(builder, x, _dequantized(builder, weights, stored, scale, zero, block))


def _multiplied(builder: Builder, x: Output, weights: Output) -> Output:
    return builder.emit(MatMul1(transpose_a=False, transpose_b=False), x, weights)


def _converted(builder: Builder, values: Array, stored: ElementType, element_type: ElementType) -> Output:
    """Return a constant in the type that it is stored in, converted to another one."""
    value = builder.tensor(Tensor.from_array(values, stored))
    return value if stored is element_type else builder.emit_unfolded(Convert1(destination_type=element_type), value)


def _dequantized(
    builder: Builder,
    weights: CompressedWeights,
    codes: Tensor,
    scale: Array,
    zero: Array | None,
    block: int | None = None,
) -> Output:
    """Emit DequantizeLinear along the first axis."""
    like = TensorType(weights.element_type, PartialShape(codes.shape))
    inputs = [
        builder.tensor(codes),
        _converted(builder, scale, weights.scale.element_type, weights.element_type),
        None if zero is None else builder.constant(zero, codes.element_type),
    ]
    return emit_operator(builder, "DequantizeLinear", inputs, [like], axis=0, block_size=block)[0]


def _n_bits(builder: Builder, node: Node, weights: CompressedWeights, block: int, count: int) -> Replacement:
    """Emit MatMulNBits: codes without a sign, a row of blocks for each column of the product."""
    rows, columns = weights.shape
    element_type = weights.codes.element_type
    bits = element_type.bits
    shift = 1 << (bits - 1) if element_type.category == "signed" else 0
    codes: Array = (weights.codes.array().astype(np.int16) + shift).astype(np.uint8).reshape(rows, count, block)
    zero: Array = np.full((rows, count), shift, np.uint8)
    if weights.zero is not None:
        zero = (weights.zero.astype(np.int16) + shift).astype(np.uint8).reshape(rows, count)
    if bits == 4:
        codes = codes[..., 0::2] | (codes[..., 1::2] << 4)
        if count % 2:
            zero = np.concatenate([zero, np.zeros((rows, 1), np.uint8)], 1)
        zero = zero[:, 0::2] | (zero[:, 1::2] << 4)
    is_default = weights.zero is None and element_type.category == "signed"
    scale = weights.scale.array().reshape(rows, count)
    inputs = [
        node.inputs[0],
        builder.constant(codes, "u8"),
        _converted(builder, scale, weights.scale.element_type, weights.element_type),
        None if is_default else builder.constant(zero, "u8"),
    ]
    return emit_operator(
        builder,
        "MatMulNBits",
        inputs,
        node.outputs,
        domain=MICROSOFT,
        K=columns,
        N=rows,
        bits=bits,
        block_size=block,
        accuracy_level=_FLOAT32,
    )


@before_export.replaces("compressed_tables")
def rows_of_a_table(builder: Builder, node: Node) -> Replacement:
    """Replace rows of a table of floats by those of its codes, of which only what is looked up becomes floats."""
    weights, axis = compressed_weights(node.inputs[0]), node.inputs[2].type.constant
    if weights is None or not weights.is_by_row or weights.codes.element_type.bits != 8:
        return fail("it reads no table of codes of 8 bits with a scale for each row")
    if getattr(node.op, "batch_dims", 0) or axis is None or axis.reshape(-1).tolist() not in ([0], [-2]):
        return fail("it does not take rows")
    first = builder.constant(0)

    def taken(table: Output) -> Output:
        return in_type(builder, gather(builder, table, node.inputs[1], first), weights.element_type)

    rows = taken(builder.tensor(weights.codes))
    if weights.zero is not None:
        rows = subtract(builder, rows, taken(builder.constant(weights.zero, weights.codes.element_type)))
    return multiply(builder, rows, taken(builder.tensor(weights.scale)))
