"""Updates placed by indices."""

from __future__ import annotations

from typing import Any

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import list_of, rank_of, transpose, unsqueeze
from ir_runtime.graph import element_types
from ir_runtime.operations import scatter as ir

_REDUCTIONS = {"sum": ("add", 16), "prod": ("mul", 16), "min": ("min", 18), "max": ("max", 18)}
"""ONNX's names of the reductions, and the opset from which ScatterElements and ScatterND have them."""


def _axis(ctx: Context, axis: Value, x: Value) -> int:
    numbers = list_of(ctx, axis, "the axis")
    return numbers[0] % rank_of(ctx, x, "the data") if numbers[0] < 0 else numbers[0]


@ir_op(ir.ScatterUpdate3)
def scatter_update(ctx: Context, op: ir.ScatterUpdate3, x: Value, indices: Value, updates: Value, axis: Value) -> Value:
    """ScatterND along the first axis; another one is moved there"""
    at, rank = _axis(ctx, axis, x), rank_of(ctx, x, "the data")
    count = rank_of(ctx, indices, "the indices")
    order = [at, *[i for i in range(rank) if i != at]]
    total = rank + count - 1
    moved = [*range(at, at + count), *range(at), *range(at + count, total)]
    places = unsqueeze(ctx, ctx.cast(indices, element_types.i64), [-1])
    scattered = ctx.emit("ScatterND", transpose(ctx, x, order), places, transpose(ctx, updates, moved))
    return transpose(ctx, scattered, [order.index(i) for i in range(rank)])


@ir_op(ir.ScatterElementsUpdate3, ir.ScatterElementsUpdate12)
def scatter_elements(
    ctx: Context, op: ir.ScatterElementsUpdate12, x: Value, indices: Value, updates: Value, axis: Value
) -> Value:
    """ScatterElements; in older opsets a Loop; means as a sum divided by the number of updates"""
    reduction = getattr(op, "reduction", "none")
    if reduction != "none" and (not op.use_init_val or not _has_reduction(ctx, x, reduction)):
        return ctx.decompose()[0]
    return _emit(ctx, "ScatterElements", x, indices, updates, reduction, axis=_axis(ctx, axis, x))


@ir_op(ir.ScatterNDUpdate4, ir.ScatterNDUpdate15)
def scatter_nd(ctx: Context, op: ir.ScatterNDUpdate15, x: Value, indices: Value, updates: Value) -> Value:
    """ScatterND; in older opsets a Loop; differences as sums of negated updates"""
    reduction = getattr(op, "reduction", "none")
    if reduction != "none" and not _has_reduction(ctx, x, reduction):
        return ctx.decompose()[0]
    return _emit(ctx, "ScatterND", x, ctx.cast(indices, element_types.i64), updates, reduction)


def _has_reduction(ctx: Context, x: Value, reduction: str) -> bool:
    """True if the opset's operators have a reduction for the data."""
    since = _REDUCTIONS[reduction][1] if reduction in _REDUCTIONS else None
    return since is not None and x.element_type is not element_types.boolean and ctx.at_least(since)


def _emit(
    ctx: Context, op_type: str, x: Value, indices: Value, updates: Value, reduction: str, **attributes: Any
) -> Value:
    if reduction == "none":
        return ctx.emit(op_type, x, indices, updates, **attributes)
    if x.element_type is element_types.f16:  # onnxruntime has kernels for it, which refuse reductions
        x, updates = (ctx.cast(value, element_types.f32) for value in (x, updates))
    return ctx.emit(op_type, x, indices, updates, reduction=_REDUCTIONS[reduction][0], **attributes)
