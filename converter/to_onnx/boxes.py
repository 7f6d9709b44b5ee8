"""Boxes: how far they move, and which of them ONNX's NonMaxSuppression takes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ir_runtime.graph import PartialShape, element_types
from ir_runtime.graph.operation import TensorType

from .context import Context
from .graph import Graph, Value
from .layers import concat, reduce, slice_along, split_equally, transpose, unsqueeze
from .sizes import Size, as_list, shape_list

LOWEST = float(np.finfo(np.float32).min)
_NO_LIMIT = 1 << 31
"""More boxes than anybody has."""


def corners(ctx: Context, boxes: Value) -> tuple[Value, Value]:
    """The lower and the upper ends ``[..., 2]`` of boxes ``[..., 4]``."""
    lower, upper = split_equally(ctx, boxes, 2, -1)
    return lower, upper


def refined(ctx: Context, boxes: Value, moves: Value, pixel: float = 0.0, limit: float | None = None) -> Value:
    """Boxes whose centres move by parts of their size, and whose size changes by powers of e up to ``limit``.

    ``pixel`` is 1 where the given upper ends are the last pixels inside; those that come out are where boxes end.
    """
    lower, upper = corners(ctx, boxes)
    shift, power = corners(ctx, moves)
    if limit is not None:
        power = ctx.emit("Min", power, ctx.like(limit, power))
    size = _widened(ctx, ctx.emit("Sub", upper, lower), pixel)
    half = ctx.like(0.5, boxes)
    middle = ctx.emit("Add", lower, ctx.emit("Mul", size, half))
    centre = ctx.emit("Add", ctx.emit("Mul", shift, size), middle)
    reach = ctx.emit("Mul", ctx.emit("Mul", ctx.emit("Exp", power), size), half)
    return concat(ctx, [ctx.emit("Sub", centre, reach), ctx.emit("Add", centre, reach)], -1)


def clipped(ctx: Context, boxes: Value, width: Value, height: Value) -> Value:
    """Boxes cut to those of the corners ``0, 0`` and ``width, height``, which have one element in their last axis."""
    ends = concat(ctx, [width, height, width, height], -1)
    return ctx.emit("Max", ctx.emit("Min", boxes, ends), ctx.like(0, boxes))


def large_enough(ctx: Context, boxes: Value, width: Value, height: Value, pixel: float = 0.0) -> Value:
    """Which boxes ``[..., 4]`` have at least that width and that height, which have one element in their last axis."""
    lower, upper = corners(ctx, boxes)
    sizes = _widened(ctx, ctx.emit("Sub", upper, lower), pixel)
    fits = ctx.cast(ctx.emit("GreaterOrEqual", sizes, concat(ctx, [width, height], -1)), element_types.i32)
    return ctx.cast(reduce(ctx, "ReduceMin", fits, [-1], keepdims=False), element_types.boolean)


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


def shares(ctx: Context, one: Value, others: Value, pixel: float = 0.0, *, touching: bool = False) -> Value:
    """Intersection over union ``[...]`` of boxes ``[..., 4]``, which are broadcast; 0 where either has no area.

    ``pixel`` is 1 where the upper ends are the last pixels inside; with ``touching`` boxes that lie apart by less than
    that overlap none.
    """
    ends = [corners(ctx, boxes) for boxes in (one, others)]
    lower, upper = ([pair[place] for pair in ends] for place in (0, 1))
    between = ctx.emit("Sub", ctx.emit("Min", *upper), ctx.emit("Max", *lower))
    common = _area(ctx, ctx.emit("Relu", _widened(ctx, between, pixel)))
    areas = [_area(ctx, _widened(ctx, ctx.emit("Sub", high, low), pixel)) for low, high in ends]
    zero = ctx.like(0, one)
    both = ctx.emit("And", *[ctx.emit("Greater", area, zero) for area in areas])
    if touching:
        nearest = reduce(ctx, "ReduceMin", between, [-1], keepdims=False)
        both = ctx.emit("And", both, ctx.emit("GreaterOrEqual", nearest, zero))
    union = ctx.emit("Where", both, ctx.emit("Sub", ctx.emit("Add", *areas), common), ctx.like(1, one))
    return ctx.emit("Div", ctx.emit("Where", both, common, zero), union)


def _widened(ctx: Context, sizes: Value, pixel: float) -> Value:
    return ctx.emit("Add", sizes, ctx.like(pixel, sizes)) if pixel else sizes


def _area(ctx: Context, sizes: Value) -> Value:
    return reduce(ctx, "ReduceProd", sizes, [-1], keepdims=False)


Overlaps = Callable[[Context, Value], Value]
"""What gives, in the context of a Loop's body, how much the box of a number overlaps each other one ``[b, n]``."""


def row_of(boxes: Value, pixel: float = 0.0, *, touching: bool = False) -> Overlaps:
    """:func:`shares` of one of the boxes ``[b, n, 4]`` with all of them."""

    def row(inner: Context, number: Value) -> Value:
        one = unsqueeze(inner, inner.emit("Gather", boxes, number, axis=1), [1])
        return shares(inner, one, boxes, pixel, touching=touching)

    return row


def taken_in_order(
    ctx: Context,
    overlaps: Overlaps,
    usable: Value,
    threshold: float | Value,
    *,
    inclusive: bool = False,
    shrink: float = 1.0,
) -> Value:
    """Which of ``usable`` ``[b, n]`` boxes are taken: those that overlap none taken before them too much.

    Too much is above ``threshold``, or from it on if ``inclusive``. A ``shrink`` below 1 multiplies a threshold above a
    half after each box that is taken.
    """
    single = element_types.f32
    graph = Graph()
    inner = ctx.inside(graph)
    number = Value(TensorType(element_types.i64, PartialShape(())), "number")
    goes_on = Value(TensorType(element_types.boolean, PartialShape(())), "goes_on")
    alive, worst, bound = (
        Value(TensorType(kind, PartialShape.of_rank(2)), name)
        for kind, name in ((element_types.boolean, "alive"), (single, "worst"), (single, "bound"))
    )
    graph.inputs = [number, goes_on, alive, worst, bound]
    # What is alive when its turn comes is taken, and stays; only what comes after it may go.
    taken = unsqueeze(inner, inner.emit("Gather", alive, number, axis=1), [1])
    new_worst = inner.emit("Where", taken, inner.emit("Max", worst, overlaps(inner, number)), worst)
    new_bound = bound
    if shrink < 1:
        shrinks = inner.emit("And", taken, inner.emit("Greater", bound, inner.like(0.5, bound)))
        new_bound = inner.emit("Where", shrinks, inner.emit("Mul", bound, inner.like(shrink, bound)), bound)
    is_too_much = inner.emit("GreaterOrEqual" if inclusive else "Greater", new_worst, new_bound)
    length = inner.emit("Gather", inner.emit("Shape", alive), inner.constant(1), axis=0)
    is_later = inner.emit("Less", number, inner.emit("Range", inner.constant(0), length, inner.constant(1)))
    goes = inner.emit("And", inner.emit("And", taken, is_later), is_too_much)
    graph.outputs = [
        inner.constant(True),
        inner.emit("And", alive, inner.emit("Not", goes)),
        new_worst,
        inner.emit("Identity", new_bound) if new_bound is bound else new_bound,
    ]
    shape = ctx.emit("Shape", usable)
    count = ctx.emit("Gather", shape, ctx.constant(1), axis=0)
    nothing = ctx.emit("Expand", ctx.constant(np.float32(0)), shape)
    first = ctx.emit("Gather", shape, ctx.constant([0]), axis=0)
    least = threshold if isinstance(threshold, Value) else ctx.constant(np.float32(threshold))
    start = ctx.emit("Expand", least, concat(ctx, [first, ctx.constant([1])], 0))
    kinds = [element_types.boolean, single, single]
    return ctx.emit_many("Loop", count, ctx.constant(True), usable, nothing, start, count=3, types=kinds, body=graph)[0]


def taken_marks(
    ctx: Context,
    boxes: Value,
    scores: Value,
    threshold: float,
    *,
    pixel: float = 0.0,
    touching: bool = False,
    inclusive: bool = False,
    shrink: float = 1.0,
) -> Value:
    """Which of the boxes ``[b, n, 4]``, sorted by falling scores ``[b, n]``, are taken; minus infinity counts as none.

    NonMaxSuppression where it means the same, else a Loop: see :func:`taken_in_order`.
    """
    if shrink < 1 or (touching and pixel):
        usable = ctx.emit("Greater", scores, ctx.like(-math.inf, scores))
        overlaps = row_of(boxes, pixel, touching=touching)
        return taken_in_order(ctx, overlaps, usable, threshold, inclusive=inclusive, shrink=shrink)
    if pixel:
        boxes = ctx.emit("Add", boxes, ctx.constant(np.array([0, 0, pixel, pixel], np.float32)))
    if inclusive:  # ONNX suppresses beyond the threshold: the next smaller number
        threshold = float(np.nextafter(np.float32(threshold), np.float32(-1)))
    rows = taken_boxes(ctx, boxes, unsqueeze(ctx, scores, [1]), threshold)
    spots = concat(ctx, [slice_along(ctx, rows, 1, 0, 1), slice_along(ctx, rows, 1, 2, 3)], 1)
    ones = ctx.emit("Expand", ctx.constant(1), ctx.emit("Gather", ctx.emit("Shape", rows), ctx.constant([0]), axis=0))
    nothing = ctx.emit("Expand", ctx.constant(0), ctx.emit("Shape", scores))
    return ctx.cast(ctx.emit("ScatterND", nothing, spots, ones), element_types.boolean)


def first_rows(ctx: Context, marks: Value, most: int | Value) -> tuple[Value, Value, Value]:
    """Rows ``[m, 2]`` of the places of the first ``most`` marks in each row of ``[b, n]``.

    With them each one's number in its row ``[m]``, and the number of each row ``[b]``.
    """
    counted = ctx.emit("CumSum", ctx.cast(marks, element_types.i64), ctx.constant(1))
    limit = most if isinstance(most, Value) else ctx.constant(most)
    chosen = ctx.emit("And", marks, ctx.emit("LessOrEqual", counted, limit))
    rows = transpose(ctx, ctx.emit("NonZero", chosen), [1, 0])
    number = ctx.emit("Sub", ctx.emit("GatherND", counted, rows), ctx.constant(1))
    counts = reduce(ctx, "ReduceSum", ctx.cast(chosen, element_types.i64), [1], keepdims=False)
    return rows, number, counts


def scores_where(ctx: Context, condition: Value, scores: Value) -> Value:
    """The scores where the condition holds, else minus infinity, which counts as none."""
    return ctx.emit("Where", condition, scores, ctx.like(-math.inf, scores))


def best_scores(ctx: Context, scores: Value, most: Value) -> tuple[Value, Value]:
    """The ``most`` (a list of one) greatest scores along the last axis, falling, and their places."""
    kinds = [scores.element_type, element_types.i64]
    best, places = ctx.emit_many("TopK", scores, most, count=2, types=kinds, axis=-1, sorted=1)
    return best, places


def rows_at(ctx: Context, rows: Value, places: Value, rank: int, width: int = 4) -> Value:
    """The rows ``[..., k, width]`` at places ``[..., k]`` of ``[..., n, width]``, which has ``rank`` dimensions."""
    index = ctx.emit("Expand", unsqueeze(ctx, places, [rank - 1]), ctx.constant([1] * (rank - 1) + [width]))
    return ctx.emit("GatherElements", rows, index, axis=rank - 2)


def padded(ctx: Context, rows: Value, count: Size, shape: list[int]) -> Value:
    """The first ``count`` rows ``[n, *shape]``, with zeros behind them."""
    zeros = ctx.emit("Expand", ctx.like(0, rows), shape_list(ctx, [count, *shape]))
    return slice_along(ctx, concat(ctx, [rows, zeros], 0), 0, 0, as_list(ctx, count))
