"""Updates that are combined with what they replace: reductions of ScatterElements and ScatterND at any opset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.operation import TensorType

from .context import Context
from .graph import Graph, Value
from .layers import concat, dimension, rank_of, reshape, reshape_exactly

_REDUCTIONS = {"add": ("Add", 16), "mul": ("Mul", 16), "min": ("Min", 18), "max": ("Max", 18)}
"""The operator of each reduction, and the opset from which ScatterElements and ScatterND have it."""


def scatter_elements(ctx: Context, x: Value, indices: Value, updates: Value, axis: int, reduction: str) -> Value:
    """ScatterElements with a reduction; in older opsets a Loop along the axis.

    Updates that have the same index along the axis belong to different elements, so that they are made at once.
    """
    operator, since = _REDUCTIONS[reduction]
    if ctx.at_least(since):
        return _emit(ctx, "ScatterElements", x, indices, updates, axis=axis, reduction=reduction)
    indices = ctx.cast(indices, element_types.i64)

    def step(inner: Context, number: Value, state: Value) -> Value:
        places, change = (inner.emit("Gather", source, number, axis=axis) for source in (indices, updates))
        before = inner.emit("GatherElements", state, places, axis=axis)
        return inner.emit("ScatterElements", state, places, inner.emit(operator, before, change), axis=axis)

    return _repeat(ctx, dimension(ctx, indices, axis), x, step)


def scatter_nd(ctx: Context, x: Value, places: Value, updates: Value, reduction: str) -> Value:
    """ScatterND with a reduction; in older opsets a Loop over the places ``[..., coordinates]``."""
    operator, since = _REDUCTIONS[reduction]
    if ctx.at_least(since):
        return _emit(ctx, "ScatterND", x, places, updates, reduction=reduction)
    rank, size = rank_of(ctx, x, "the data"), places.shape[-1]
    if not size.is_static:
        ctx.fail("the number of coordinates must be known")
    rows = reshape(ctx, places, [-1, size.value])
    count = ctx.emit("Gather", ctx.emit("Shape", rows), ctx.constant([0]), axis=0)
    behind = [dimension(ctx, x, axis) for axis in range(size.value, rank)]
    changes = reshape_exactly(ctx, updates, concat(ctx, [count, *behind], 0), 1 + len(behind))

    def step(inner: Context, number: Value, state: Value) -> Value:
        place, change = (inner.emit("Gather", source, number, axis=0) for source in (rows, changes))
        before = inner.emit("GatherND", state, place)
        return inner.emit("ScatterND", state, place, inner.emit(operator, before, change))

    return _repeat(ctx, count, x, step)


def _emit(ctx: Context, op_type: str, x: Value, indices: Value, updates: Value, **attributes: Any) -> Value:
    kind = x.element_type
    if kind is element_types.f16:  # onnxruntime has kernels for it, which refuse reductions
        x, updates = (ctx.cast(value, element_types.f32) for value in (x, updates))
    return ctx.cast(ctx.emit(op_type, x, indices, updates, **attributes), kind)


def _repeat(ctx: Context, count: Value, start: Value, step: Callable[[Context, Value, Value], Value]) -> Value:
    """A Loop of ``count`` steps: what the last one makes. A step gets its number as a list of one int64."""
    graph = Graph()
    inner = ctx.inside(graph)
    number = Value(TensorType(element_types.i64, PartialShape(())), "number")
    state = Value(TensorType(start.element_type, start.shape), "state")
    graph.inputs = [number, Value(TensorType(element_types.boolean, PartialShape(())), "goes_on"), state]
    graph.outputs = [inner.constant(True), step(inner, reshape(inner, number, [1]), state)]
    trips = reshape(ctx, count, [])
    return ctx.emit("Loop", trips, ctx.constant(True), start, type=start.element_type, shape=start.shape, body=graph)
