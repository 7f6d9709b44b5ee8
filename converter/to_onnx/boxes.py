"""Boxes: how far they move, and which of them ONNX's NonMaxSuppression takes."""

from __future__ import annotations

import numpy as np

from .context import Context
from .graph import Value
from .layers import concat, reduce, split_equally

LOWEST = float(np.finfo(np.float32).min)
_NO_LIMIT = 1 << 31
"""More boxes than anybody has."""


def corners(ctx: Context, boxes: Value) -> tuple[Value, Value]:
    """The lower and the upper ends ``[..., 2]`` of boxes ``[..., 4]``."""
    lower, upper = split_equally(ctx, boxes, 2, -1)
    return lower, upper


def refined(ctx: Context, boxes: Value, moves: Value) -> Value:
    """Boxes whose centres move by parts of their size, and whose size changes by powers of e."""
    lower, upper = corners(ctx, boxes)
    shift, power = corners(ctx, moves)
    size = ctx.emit("Sub", upper, lower)
    half = ctx.like(0.5, boxes)
    middle = ctx.emit("Mul", ctx.emit("Add", lower, upper), half)
    centre = ctx.emit("Add", ctx.emit("Mul", shift, size), middle)
    reach = ctx.emit("Mul", ctx.emit("Mul", ctx.emit("Exp", power), size), half)
    return concat(ctx, [ctx.emit("Sub", centre, reach), ctx.emit("Add", centre, reach)], -1)


def limited(ctx: Context, values: Value, least: float, most: float) -> Value:
    """Numbers from ``least`` to ``most``."""
    return ctx.emit("Clip", values, ctx.like(least, values), ctx.like(most, values))


def taken_boxes(
    ctx: Context, boxes: Value, scores: Value, threshold: float, least: float = LOWEST, most: Value | None = None
) -> Value:
    """Rows ``batch, class, box`` of the boxes ``[b, n, 4]`` that overlap none of a greater score beyond ``threshold``.

    ``scores`` ``[b, c, n]`` have to be above ``least``. Boxes whose ends are the wrong way round overlap none: ONNX
    would turn them round.
    """
    lower, upper = corners(ctx, boxes)
    smaller = reduce(ctx, "ReduceMin", ctx.emit("Sub", upper, lower), [-1])
    upper = ctx.emit("Where", ctx.emit("Greater", smaller, ctx.like(0, boxes)), upper, lower)
    if threshold < 0:  # every other box overlaps by 0 at least
        most = ctx.constant([1]) if most is None else ctx.emit("Min", most, ctx.constant([1]))
    limit = ctx.constant([_NO_LIMIT]) if most is None else most
    bounds = [ctx.constant(np.array([one], np.float32)) for one in (min(max(threshold, 0), 1), least)]
    return ctx.emit("NonMaxSuppression", concat(ctx, [lower, upper], -1), scores, limit, *bounds)
