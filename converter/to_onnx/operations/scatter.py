"""Updates placed by indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.to_onnx import updates as updates_
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import known_list, rank_of, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from ir_runtime.graph import ElementType, element_types
from ir_runtime.operations.scatter import (
    ScatterElementsUpdate3,
    ScatterElementsUpdate12,
    ScatterNDUpdate4,
    ScatterNDUpdate15,
    ScatterUpdate3,
)

_REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "min": "min", "max": "max"}
"""ONNX's names of the reductions."""


def _axis(ctx: Context, axis: Value, x: Value) -> int:
    known = known_list(ctx, axis)
    if known is None:
        ctx.fail("the axis must be known")
    return known[0] % rank_of(ctx, x, "the data") if known[0] < 0 else known[0]


@ir_op(ScatterUpdate3)
def scatter_update(ctx: Context, op: ScatterUpdate3, x: Value, indices: Value, updates: Value, axis: Value) -> Value:
    """ScatterND along the first axis; another one is moved there"""
    at, rank = _axis(ctx, axis, x), rank_of(ctx, x, "the data")
    count = rank_of(ctx, indices, "the indices")
    order = [at, *[i for i in range(rank) if i != at]]
    total = rank + count - 1
    moved = [*range(at, at + count), *range(at), *range(at + count, total)]
    places = unsqueeze(ctx, ctx.cast(indices, element_types.i64), [-1])
    found = ctx.emit("ScatterND", transpose(ctx, x, order), places, transpose(ctx, updates, moved))
    return transpose(ctx, found, [order.index(i) for i in range(rank)])


@ir_op(ScatterElementsUpdate3, ScatterElementsUpdate12)
def scatter_elements(
    ctx: Context, op: ScatterElementsUpdate12, x: Value, indices: Value, updates: Value, axis: Value
) -> Value:
    """ScatterElements; means as a sum divided by the number of updates"""
    at = _axis(ctx, axis, x)
    reduction = getattr(op, "reduction", "none")
    if reduction == "none":
        return ctx.emit("ScatterElements", x, indices, updates, axis=at)
    kind = x.element_type
    if kind is element_types.boolean:
        reduction = {"sum": "max", "prod": "min"}.get(reduction, reduction)
        x, updates = (ctx.cast(one, element_types.i32) for one in (x, updates))
    if not op.use_init_val:
        start = ctx.emit("Expand", ctx.like(_neutral(reduction, kind), x), ctx.emit("Shape", updates))
        x = ctx.emit("ScatterElements", x, indices, start, axis=at)
    made = updates_.scatter_elements(ctx, x, indices, updates, at, _REDUCTIONS[reduction])
    if reduction == "mean":
        zeros = ctx.emit("Expand", ctx.constant(0), ctx.emit("Shape", x))
        ones = ctx.emit("Expand", ctx.constant(1), ctx.emit("Shape", updates))
        counts = updates_.scatter_elements(ctx, zeros, indices, ones, at, "add")
        if op.use_init_val:
            counts = ctx.emit("Add", counts, ctx.constant(1))
        else:
            counts = ctx.emit("Max", counts, ctx.constant(1))
        made = _mean(ctx, made, ctx.cast(counts, made.element_type))
    return ctx.cast(made, kind)


def _mean(ctx: Context, total: Value, count: Value) -> Value:
    """The quotient; of integers rounded down."""
    quotient = ctx.emit("Div", total, count)
    if total.element_type.kind != "signed":
        return quotient
    is_less = ctx.emit("Less", ctx.emit("Mod", total, count, fmod=1), ctx.like(0, total))
    return ctx.emit("Sub", quotient, ctx.cast(is_less, total.element_type))


def _neutral(reduction: str, kind: ElementType) -> Any:
    """The value from which a reduction starts."""
    if reduction in ("sum", "mean", "prod"):
        return int(reduction == "prod")
    if kind is element_types.boolean:
        return int(reduction == "min")
    if kind.is_real:
        return np.inf if reduction == "min" else -np.inf
    return kind.limits[1 if reduction == "min" else 0]


@ir_op(ScatterNDUpdate4, ScatterNDUpdate15)
def scatter_nd(ctx: Context, op: ScatterNDUpdate15, x: Value, indices: Value, updates: Value) -> Value:
    """ScatterND; differences as sums of negated updates"""
    places = ctx.cast(indices, element_types.i64)
    reduction = getattr(op, "reduction", "none")
    if reduction == "none":
        return ctx.emit("ScatterND", x, places, updates)
    kind = x.element_type
    if kind is element_types.boolean:
        reduction = {"sum": "max", "prod": "min"}.get(reduction, reduction)
        x, updates = (ctx.cast(one, element_types.i32) for one in (x, updates))
    if reduction == "sub":
        updates, reduction = ctx.emit("Sub", ctx.like(0, updates), updates), "sum"
    return ctx.cast(updates_.scatter_nd(ctx, x, places, updates, _REDUCTIONS[reduction]), kind)
