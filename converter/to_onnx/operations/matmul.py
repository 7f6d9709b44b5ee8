"""Products of matrices, and sums, which are the biases of products where ONNX's operators have an input for them."""

from __future__ import annotations

from converter.onnx_file.graph import operator_of
from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.integer_operands import integer_operand
from converter.to_onnx.layers import rank_of, reshape, transpose, unsqueeze
from ir_runtime.graph import Node, Output
from ir_runtime.operations import convolution as ir
from ir_runtime.operations.elementwise import Add1, Binary, Convert1
from ir_runtime.operations.matmul import Einsum7, MatMul1


@ir_op(MatMul1)
def matmul(ctx: Context, op: MatMul1, a: Value, b: Value) -> Value:
    """MatMul, with Transpose in front where an operand is transposed; Gemm for two matrices of which one is.
    Constant weights are stored as MatMul reads them. Integers of 8 bits are multiplied by MatMulInteger
    """
    integers = None if op.transpose_a or op.transpose_b else _of_integers(ctx)
    if integers is not None:
        return integers
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
