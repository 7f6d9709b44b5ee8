"""Reductions over axes."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import known_list, reduce
from ir_runtime.graph import Operation, element_types
from ir_runtime.operations import reduction as ir


def _reduction(operation: type[Operation], single: str = "", *, in_float64: bool = False) -> None:
    """``single`` is what remains of the operation where there are no axes."""

    def export(ctx: Context, op: ir.Reduction, x: Value, axes: Value) -> Value:
        if known_list(ctx, axes) == []:
            return ctx.emit(single, x) if single else x
        work = ctx.cast(x, element_types.f64) if in_float64 and not x.element_type.is_real else x
        return ctx.cast(reduce(ctx, operation.type, work, axes, keepdims=op.keep_dims), x.element_type)

    export.__doc__ = operation.type + ("; of integers in float64, rounded towards zero" if in_float64 else "")
    ir_op(operation)(export)


_reduction(ir.ReduceSum1)
_reduction(ir.ReduceProd1)
_reduction(ir.ReduceMax1)
_reduction(ir.ReduceMin1)
_reduction(ir.ReduceMean1, in_float64=True)
_reduction(ir.ReduceL1_4, "Abs")
_reduction(ir.ReduceL2_4, "Abs", in_float64=True)


def _logical(op_type: str, operation: type[Operation]) -> None:
    def export(ctx: Context, op: ir.Reduction, x: Value, axes: Value) -> Value:
        if known_list(ctx, axes) == []:
            return x
        reduced = reduce(ctx, op_type, ctx.cast(x, element_types.i32), axes, keepdims=op.keep_dims)
        return ctx.cast(reduced, element_types.boolean)

    export.__doc__ = f"{op_type} of 0 and 1"
    ir_op(operation)(export)


_logical("ReduceMin", ir.ReduceLogicalAnd1)
_logical("ReduceMax", ir.ReduceLogicalOr1)
