"""Products of matrices."""

from __future__ import annotations

import numpy as np

from converter.onnx_file.domains import MICROSOFT
from converter.onnx_file.graph import operator_of
from converter.to_onnx import Context, Value, ir_idiom, ir_op
from converter.to_onnx.compressed_weights import CompressedWeights, compressed_weights
from converter.to_onnx.integer_operands import integer_operand
from converter.to_onnx.layers import rank_of, transpose, unsqueeze
from ir_runtime.graph import Array, Node, Operation, Output, Tensor, element_types
from ir_runtime.operations.elementwise import Add1, Convert1
from ir_runtime.operations.matmul import Einsum7, MatMul1

_LEAST_BLOCK = 16
"""The smallest block of MatMulNBits."""
_FLOAT32 = 1
"""The ``accuracy_level`` of MatMulNBits that rounds no inputs."""


@ir_op(MatMul1)
def matmul(ctx: Context, op: MatMul1, a: Value, b: Value) -> Value:
    """MatMul, with Transpose in front where an operand is transposed; Gemm for two matrices of which one is.
    Constant weights are stored as MatMul reads them. Compressed weights are read by DequantizeLinear; with contrib
    operators the product is MatMulNBits. Integers of 8 bits are multiplied by MatMulInteger
    """
    integers = None if op.transpose_a or op.transpose_b else _of_integers(ctx)
    if integers is not None:
        return integers
    weights = compressed_weights(ctx.node.inputs[1])
    if weights is not None and op.transpose_b and not op.transpose_a and a.element_type is weights.element_type:
        product = _by_codes(ctx, a, weights)
        if product is not None:
            return product
    if not (op.transpose_a or op.transpose_b):
        return ctx.emit("MatMul", a, b)
    if a.shape.has_rank and b.shape.has_rank and a.shape.rank == b.shape.rank == 2 and a.element_type.is_real:
        return ctx.emit("Gemm", a, b, transA=int(op.transpose_a) or None, transB=int(op.transpose_b) or None)
    return ctx.emit(
        "MatMul",
        _transpose(ctx, a) if op.transpose_a else a,
        (_stored_transposed(ctx) or _transpose(ctx, b)) if op.transpose_b else b,
    )


def _of_integers(ctx: Context) -> Value | None:
    """MatMulInteger; None where the operands are no integers of 8 bits less zero points that it takes."""
    left, right = ctx.node.inputs
    if left.element_type.is_real or not (left.shape.has_rank and right.shape.has_rank):
        return None
    a, b = integer_operand(ctx, left), integer_operand(ctx, right, by_column=right.shape.rank == 2)
    if a is None or b is None or left.shape.rank < 2 or right.shape.rank < 2:
        return None
    return ctx.emit("MatMulInteger", ctx.value(a.codes), ctx.value(b.codes), a.zero_point, b.zero_point)


@ir_idiom(Add1)
def biased_product(ctx: Context, op: Operation) -> Value | None:
    """Gemm: the product of two matrices, and a bias for each of its columns"""
    for product, bias in ctx.node.orders:
        if not isinstance(product.node.op, MatMul1) or len(product.uses) != 1 or bias.type.constant is None:
            continue
        node = ctx.value(product).node
        if node.op.type not in ("MatMul", "Gemm") or len(node.inputs) != 2:
            continue
        if not all(value.shape.has_rank and value.shape.rank == 2 for value in node.inputs):
            continue
        columns, sizes = product.shape[1], list(bias.shape.static())
        is_row = (bool(sizes) and sizes[-1] == 1) or (columns.is_static and sizes[-1:] == [columns.value])
        if product.element_type.is_real and is_row and len(sizes) <= 2 and sizes[:-1] in ([], [1]):
            return ctx.emit("Gemm", *node.inputs, ctx.value(bias), **operator_of(node).values)
    return None


def _stored_transposed(ctx: Context) -> Value | None:
    """The weights [k, n] of an IR's weights [n, k], which may be stored as float16; None where others read these."""
    source = ctx.node.inputs[1]
    stored = source.node.inputs[0] if isinstance(source.node.op, Convert1) else source
    tensor = stored.tensor
    if stored.node.inputs or tensor is None or tensor.element_type.is_packed or len(tensor.shape) < 2:
        return None
    others = stored.uses if stored is not source else []
    if len(others) > 1 or not all(_reads_transposed(reader, source) for reader in source.uses):
        return None

    def make() -> Value:
        assert tensor is not None
        # The tensor's own names are those of the other order.
        value = ctx.initializer(tensor.transposed(), "" if stored.names else stored.node.name)
        return ctx.cast(value, source.element_type)

    return ctx.once(("transposed weights", source), make)


def _reads_transposed(node: Node, weights: Output) -> bool:
    """True if a layer becomes a MatMul, and not a Gemm, that reads the weights as its second operand alone."""
    if not isinstance(node.op, MatMul1) or not node.op.transpose_b or node.inputs[0] is weights:
        return False
    return not (node.inputs[0].shape.has_rank and node.inputs[0].shape.rank == weights.shape.rank == 2)


def _transpose(ctx: Context, x: Value) -> Value:
    rank = rank_of(ctx, x, "a transposed operand")
    if rank < 2:
        return x
    return transpose(ctx, x, [*range(rank - 2), rank - 1, rank - 2])


def _by_codes(ctx: Context, a: Value, weights: CompressedWeights) -> Value | None:
    """The product with ``[out, in]`` weights; None where they are laid out in another way."""
    bits, block = weights.codes.element_type.bits, weights.block
    if weights.is_by_row and bits == 8:
        points = None if weights.zero is None else ctx.constant(weights.zero.reshape(-1))
        factor = ctx.cast(_initializer(ctx, weights.scale, (weights.shape[0],)), weights.element_type)
        read = ctx.emit(
            "DequantizeLinear", ctx.initializer(weights.codes), factor, points, type=weights.element_type, axis=0
        )
        return ctx.emit("MatMul", a, transpose(ctx, read, [1, 0]))
    if weights.is_by_row:
        block = weights.shape[1]
    if block is None:
        return None
    rows, columns = weights.shape
    count = columns // block
    is_power = block >= _LEAST_BLOCK and block & (block - 1) == 0
    if ctx.contrib and is_power and a.element_type is element_types.f32:
        return _n_bits(ctx, a, weights, block, count)
    if not ctx.at_least(21):
        return None
    element_type = weights.codes.element_type
    codes = np.ascontiguousarray(weights.codes.array().reshape(rows, columns).T)
    scale = np.ascontiguousarray(weights.scale.array().reshape(rows, count).T)
    points = None
    if weights.zero is not None:
        points = ctx.constant(np.ascontiguousarray(weights.zero.reshape(rows, count).T), element_type)
    factor = ctx.cast(ctx.initializer(Tensor.from_array(scale, weights.scale.element_type)), weights.element_type)
    read = ctx.emit(
        "DequantizeLinear",
        ctx.initializer(Tensor.from_array(codes, element_type)),
        factor,
        points,
        type=weights.element_type,
        axis=0,
        block_size=block,
    )
    return ctx.emit("MatMul", a, read)


def _initializer(ctx: Context, tensor: Tensor, shape: tuple[int, ...]) -> Value:
    return ctx.initializer(Tensor.from_array(tensor.array().reshape(shape), tensor.element_type))


def _n_bits(ctx: Context, a: Value, weights: CompressedWeights, block: int, count: int) -> Value:
    """MatMulNBits of onnxruntime: codes without a sign, a row of blocks for each column of the product."""
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
    return ctx.emit(
        "MatMulNBits",
        a,
        ctx.constant(codes),
        ctx.cast(_initializer(ctx, weights.scale, (rows, count)), a.element_type),
        None if is_default else ctx.constant(zero),
        domain=MICROSOFT,
        type=a.element_type,
        K=columns,
        N=rows,
        bits=bits,
        block_size=block,
        accuracy_level=_FLOAT32,
    )


@ir_op(Einsum7)
def einsum(ctx: Context, op: Einsum7, *operands: Value) -> Value:
    """Einsum; where ellipses stand for different numbers of dimensions, Unsqueeze in front makes them equal"""
    terms = op.equation.replace(" ", "").split("->")[0].split(",")
    if all(value.shape.has_rank for value in operands) and any("..." in term for term in terms):
        counts = [value.shape.rank - len(term.replace("...", "")) for term, value in zip(terms, operands)]
        operands = tuple(
            unsqueeze(ctx, value, range(at, at + max(counts) - count)) if (at := term.find("...")) >= 0 else value
            for term, count, value in zip(terms, counts, operands)
        )
    return ctx.emit("Einsum", *operands, equation=op.equation)
