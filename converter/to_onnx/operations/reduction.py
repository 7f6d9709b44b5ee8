"""Reductions over axes."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import known_list, reduce
from ir_runtime.graph import Operation, element_types
from ir_runtime.operations import reduction as ir


def _reduction(op_type: str, operation: type[Operation], single: str = "") -> None:
    """``single`` is what remains of the operation where there are no axes."""

    def export(ctx: Context, op: ir.Reduction, x: Value, axes: Value) -> Value:
        if known_list(ctx, axes) == []:
            return ctx.emit(single, x) if single else x
        return reduce(ctx, op_type, x, axes, keepdims=op.keep_dims)

    export.__doc__ = op_type
    ir_op(operation)(export)


for _op_type, _operation in {
    "ReduceSum": ir.ReduceSum1,
    "ReduceProd": ir.ReduceProd1,
    "ReduceMax": ir.ReduceMax1,
    "ReduceMin": ir.ReduceMin1,
}.items():
    _reduction(_op_type, _operation)
_reduction("ReduceL1", ir.ReduceL1_4, "Abs")


@ir_op(ir.ReduceMean1)
def reduce_mean(ctx: Context, op: ir.Reduction, x: Value, axes: Value) -> Value:
    """ReduceMean; of integers in float64, rounded towards zero"""
    if known_list(ctx, axes) == []:
        return x
    element_type = x.element_type
    if element_type.is_real:
        return reduce(ctx, "ReduceMean", x, axes, keepdims=op.keep_dims)
    mean = reduce(ctx, "ReduceMean", ctx.cast(x, element_types.f64), axes, keepdims=op.keep_dims)
    return ctx.cast(mean, element_type)


@ir_op(ir.ReduceL2_4)
def reduce_l2(ctx: Context, op: ir.Reduction, x: Value, axes: Value) -> Value:
    """ReduceL2; of integers in float64, rounded towards zero"""
    element_type = x.element_type
    work = x if element_type.is_real else ctx.cast(x, element_types.f64)
    if known_list(ctx, axes) == []:
        return ctx.emit("Abs", x)
    return ctx.cast(reduce(ctx, "ReduceL2", work, axes, keepdims=op.keep_dims), element_type)


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
