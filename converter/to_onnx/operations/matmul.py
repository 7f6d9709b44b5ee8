"""Products of matrices."""

from __future__ import annotations

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import rank_of
from converter.to_onnx.registry import ir_op
from ir_runtime.operations.matmul import Einsum7, MatMul1


@ir_op(MatMul1)
def matmul(ctx: Context, op: MatMul1, a: Value, b: Value) -> Value:
    """MatMul, with Transpose in front where an operand is transposed; Gemm for two transposed matrices"""
    if not (op.transpose_a or op.transpose_b):
        return ctx.emit("MatMul", a, b)
    if a.shape.has_rank and b.shape.has_rank and a.shape.rank == b.shape.rank == 2 and a.element_type.is_real:
        return ctx.emit("Gemm", a, b, transA=int(op.transpose_a) or None, transB=int(op.transpose_b) or None)
    return ctx.emit(
        "MatMul",
        _transposed(ctx, a) if op.transpose_a else a,
        _transposed(ctx, b) if op.transpose_b else b,
    )


def _transposed(ctx: Context, x: Value) -> Value:
    rank = rank_of(ctx, x, "a transposed operand")
    if rank < 2:
        return x
    return ctx.emit("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


@ir_op(Einsum7)
def einsum(ctx: Context, op: Einsum7, *operands: Value) -> Value:
    """Einsum"""
    return ctx.emit("Einsum", *operands, equation=op.equation)
