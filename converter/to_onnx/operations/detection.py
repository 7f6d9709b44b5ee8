"""Boxes without those that overlap better ones."""

from __future__ import annotations

import math

import numpy as np

from converter.to_onnx.boxes import corners, shares
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.layers import concat, known_number, reduce, reshape, slice_along, squeeze, transpose, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import as_scalar, multiply, positions, shape_list, size_of, smallest
from converter.to_onnx.undone import before_next_number
from ir_runtime.graph import ElementType, PartialShape, element_types
from ir_runtime.graph.operation import TensorType
from ir_runtime.operations.detection import (
    NonMaxSuppression1,
    NonMaxSuppression3,
    NonMaxSuppression4,
    NonMaxSuppression5,
    NonMaxSuppression9,
)


@ir_op(
    NonMaxSuppression1,
    NonMaxSuppression3,
    NonMaxSuppression4,
    NonMaxSuppression5,
    NonMaxSuppression9,
    local_function=True,
)
def non_max_suppression(
    ctx: Context,
    op: NonMaxSuppression9,
    boxes: Value,
    scores: Value,
    limit: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
    sigma: Value | None = None,
) -> list[Value]:
    """NonMaxSuppression; soft suppression in a Loop; sorted by score over all classes with TopK"""
    values = ctx.cast(scores, element_types.f32)
    most = ctx.constant([0]) if limit is None else reshape(ctx, ctx.cast(limit, element_types.i64), [1])
    floor = ctx.constant([0.0]) if least is None else reshape(ctx, ctx.cast(least, element_types.f32), [1])
    if sigma is not None and known_number(ctx, sigma) != 0:
        bound = ctx.constant([0.0]) if overlap is None else reshape(ctx, ctx.cast(overlap, element_types.f32), [1])
        width = reshape(ctx, ctx.cast(sigma, element_types.f32), [1])
        rows, best = _soft(ctx, op, ctx.cast(boxes, element_types.f32), values, most, bound, floor, width)
        return _written(ctx, op, rows, best, scores.element_type)
    most = _limit(ctx, most, overlap)
    rows = ctx.emit(
        "NonMaxSuppression",
        ctx.cast(boxes, element_types.f32),
        values,
        most,
        _threshold(ctx, overlap),
        floor,
        center_point_box=int(op.box_encoding == "center") or None,
    )
    return _written(ctx, op, rows, ctx.emit("GatherND", values, rows), scores.element_type)


def _written(ctx: Context, op: NonMaxSuppression9, rows: Value, best: Value, of_scores: ElementType) -> list[Value]:
    """The layer's outputs for rows ``batch, class, box`` and their scores."""
    if op.sort_result_descending:
        kinds = [element_types.f32, element_types.i64]
        best, order = ctx.emit_many("TopK", best, ctx.emit("Shape", best), count=2, types=kinds, axis=0, sorted=1)
        rows = ctx.emit("Gather", rows, order, axis=0)
    kind = getattr(op, "output_type", element_types.i64)
    if len(ctx.node.outputs) == 1:
        return [ctx.cast(rows, kind)]
    ends = ctx.constant([0]), ctx.constant([2]), ctx.constant([1])
    places = ctx.cast(ctx.emit("Slice", rows, *ends), element_types.f32)
    scored = ctx.emit("Concat", places, ctx.emit("Unsqueeze", best, ctx.constant([1])), axis=1)
    count = ctx.emit("Shape", best)
    return [ctx.cast(rows, kind), ctx.cast(scored, of_scores), ctx.cast(count, kind)]


def _soft(
    ctx: Context,
    op: NonMaxSuppression9,
    boxes: Value,
    scores: Value,
    most: Value,
    bound: Value,
    least: Value,
    sigma: Value,
) -> tuple[Value, Value]:
    """Rows ``batch, class, box`` and their scores: each box lowers those of the others by how much it overlaps them.

    With a sigma of 0 it takes those away that it overlaps by ``bound`` or more.
    """
    images, classes, count = (size_of(ctx, scores, axis) for axis in range(3))
    groups = multiply(ctx, images, classes)
    ends = corners(ctx, boxes)
    if op.box_encoding == "center":
        half = ctx.emit("Mul", ends[1], ctx.like(0.5, boxes))
        pair = [ctx.emit(op_type, ends[0], half) for op_type in ("Sub", "Add")]
    else:
        pair = [ctx.emit(op_type, *ends) for op_type in ("Min", "Max")]
    wide = ctx.emit("Expand", unsqueeze(ctx, concat(ctx, pair, 2), [1]), shape_list(ctx, [images, classes, count, 4]))
    placed = ctx.emit("Reshape", wide, shape_list(ctx, [groups, count, 4]))
    start = ctx.emit("Reshape", scores, shape_list(ctx, [groups, count]))
    is_soft = ctx.emit("Greater", sigma, ctx.like(0, sigma))
    power = ctx.emit("Div", ctx.like(-0.5, sigma), ctx.emit("Where", is_soft, sigma, ctx.like(1, sigma)))
    graph = Graph()
    inner = ctx.inside(graph)
    states = [
        Value(TensorType(kind, PartialShape.of_rank(rank)), name)
        for kind, rank, name in (
            (element_types.i64, 0, "number"),
            (element_types.boolean, 0, "goes_on"),
            (element_types.f32, 2, "current"),
            (element_types.boolean, 2, "left"),
        )
    ]
    graph.inputs, (_, _, current, left) = states, states
    open_scores = inner.emit("Where", left, current, inner.like(-math.inf, current))
    value = reduce(inner, "ReduceMax", open_scores, [1])
    best = inner.emit("ArgMax", open_scores, axis=1, keepdims=1, type=element_types.i64)
    taken = inner.emit("Greater", value, inner.like(-math.inf, value))
    one = unsqueeze(inner, inner.emit("GatherND", placed, best, batch_dims=1), [1])
    share = shares(inner, one, placed)
    factor = inner.emit("Exp", inner.emit("Mul", inner.emit("Mul", share, share), power))
    lowered = inner.emit("Where", inner.emit("And", taken, is_soft), inner.emit("Mul", current, factor), current)
    is_far = inner.emit("Or", is_soft, inner.emit("Less", share, bound))
    fits = inner.emit("And", is_far, inner.emit("Greater", lowered, least))
    is_best = inner.emit("Equal", positions(inner, count), best)
    stays = inner.emit("And", left, inner.emit("Not", inner.emit("And", taken, is_best)))
    graph.outputs = [
        inner.constant(True),
        lowered,
        inner.emit("And", stays, inner.emit("Or", fits, inner.emit("Not", taken))),
        *(squeeze(inner, found, [1]) for found in (best, value, taken)),
    ]
    trips = as_scalar(ctx, smallest(ctx, most, count))
    usable = ctx.emit("Greater", start, least)
    kinds = [current.element_type, left.element_type, element_types.i64, element_types.f32, element_types.boolean]
    made = ctx.emit_many("Loop", trips, ctx.constant(True), start, usable, count=5, types=kinds, body=graph)
    places, values, marks = (transpose(ctx, one, [1, 0]) for one in made[2:])
    spots = transpose(ctx, ctx.emit("NonZero", marks), [1, 0])
    group = squeeze(ctx, slice_along(ctx, spots, 1, 0, 1), [1])
    parts = [ctx.emit(op_type, group, as_scalar(ctx, classes)) for op_type in ("Div", "Mod")]
    columns = [unsqueeze(ctx, one, [1]) for one in (*parts, ctx.emit("GatherND", places, spots))]
    return concat(ctx, columns, 1), ctx.emit("GatherND", values, spots)


def _limit(ctx: Context, most: Value, overlap: Value | None) -> Value:
    """At most one box where the threshold is 0: every other one overlaps by 0 at least."""
    threshold = 0.0 if overlap is None else known_number(ctx, overlap)
    if threshold is not None:
        return most if threshold > 0 else ctx.emit("Min", most, ctx.constant([1]))
    if overlap is None or before_next_number(ctx.node.inputs[3]) is not None:
        return most
    is_zero = ctx.emit("LessOrEqual", reshape(ctx, overlap, [1]), ctx.like(0, overlap))
    return ctx.emit("Where", is_zero, ctx.emit("Min", most, ctx.constant([1])), most)


def _threshold(ctx: Context, overlap: Value | None) -> Value:
    """ONNX suppresses beyond the threshold, the IR at the threshold already: the next smaller number."""
    if overlap is None:
        return ctx.constant([0.0])
    number = known_number(ctx, overlap)
    if number is not None:
        return ctx.constant(np.array([max(np.nextafter(np.float32(number), np.float32(-1)), 0)], np.float32))
    before = before_next_number(ctx.node.inputs[3])
    if before is not None:
        return reshape(ctx, ctx.cast(ctx.value(before), element_types.f32), [1])
    value = reshape(ctx, ctx.cast(overlap, element_types.f32), [1])
    return ctx.emit("Mul", value, ctx.constant(np.array([1 - 2.0**-24], np.float32)))
