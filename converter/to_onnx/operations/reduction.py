"""Reductions over axes."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import known_list, reduce
from ir_runtime.graph import ElementType, Operation, element_types
from ir_runtime.operations import reduction as ir


def _reduction(operation: type[Operation], op_type: str, single: str = "", work: ElementType | None = None) -> None:
    """``single`` is what remains of the operation without axes; what is no float is computed in the type ``work``."""

    def export(ctx: Context, op: ir.Reduction, x: Value, axes: Value) -> Value:
        if known_list(ctx, axes) == []:
            return ctx.emit(single, x) if single else x
        operand = x if work is None or x.element_type.is_real else ctx.cast(x, work)
        return reduce(ctx, op_type, operand, axes, keepdims=op.keep_dims)

    notes = {element_types.f64: "; of integers in float64, rounded towards zero", element_types.i32: " of 0 and 1"}
    export.__doc__ = op_type + ("" if work is None else notes[work])
    ir_op(operation)(export)


_reduction(ir.ReduceSum1, "ReduceSum")
_reduction(ir.ReduceProd1, "ReduceProd")
_reduction(ir.ReduceMax1, "ReduceMax")
_reduction(ir.ReduceMin1, "ReduceMin")
_reduction(ir.ReduceMean1, "ReduceMean", work=element_types.f64)
_reduction(ir.ReduceL1_4, "ReduceL1", "Abs")
_reduction(ir.ReduceL2_4, "ReduceL2", "Abs", element_types.f64)
_reduction(ir.ReduceLogicalAnd1, "ReduceMin", work=element_types.i32)
_reduction(ir.ReduceLogicalOr1, "ReduceMax", work=element_types.i32)
