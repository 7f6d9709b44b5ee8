"""NMSRotated: the suppression of boxes that are turned by an angle."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.boxes import Overlaps, best_scores, first_rows, rows_at, taken_in_order
from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, reduce, reshape, slice_along, squeeze, unsqueeze
from converter.to_onnx.registry import ir_op
from converter.to_onnx.sizes import as_list, as_scalar, multiply, shape_list, size_of
from ir_runtime.graph import element_types
from ir_runtime.operations.nms_rotated import NMSRotated13

_KINDS = [element_types.f32, element_types.i64]
_CORNERS = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
_SLACK = 1e-9
"""Parts of an area by which a corner may lie beyond an edge and counts as on it."""


@ir_op(NMSRotated13, local_function=True)
def nms_rotated(
    ctx: Context, op: NMSRotated13, boxes: Value, scores: Value, limit: Value, overlap: Value, least: Value
) -> list[Value]:
    """A Loop over the boxes of all classes by their scores, sorted by TopK"""
    scores = ctx.cast(scores, element_types.f32)
    images, classes, count = (size_of(ctx, scores, axis) for axis in range(3))
    groups = multiply(ctx, images, classes)
    best, places = best_scores(ctx, scores, as_list(ctx, count))
    wide = ctx.emit("Expand", unsqueeze(ctx, boxes, [1]), shape_list(ctx, [images, classes, count, 5]))
    found = rows_at(ctx, wide, places, 4, 5)
    by_score = ctx.emit("Reshape", ctx.cast(found, element_types.f64), shape_list(ctx, [groups, count, 5]))
    best, places = (ctx.emit("Reshape", one, shape_list(ctx, [groups, count])) for one in (best, places))
    floor, bound = (reshape(ctx, ctx.cast(one, element_types.f32), [1]) for one in (least, overlap))
    usable = ctx.emit("Greater", best, floor)
    marks = taken_in_order(ctx, _row_of(ctx, by_score, op.clockwise), usable, bound)
    most = reshape(ctx, ctx.cast(limit, element_types.i64), [1])
    rows, _, _ = first_rows(ctx, marks, most)
    score, place = (ctx.emit("GatherND", one, rows) for one in (best, places))
    group = squeeze(ctx, slice_along(ctx, rows, 1, 0, 1), [1])
    if op.sort_result_descending:
        length = ctx.emit("Shape", score)
        score, order = ctx.emit_many("TopK", score, length, count=2, types=_KINDS, axis=0, sorted=1)
        group, place = (ctx.emit("Gather", one, order, axis=0) for one in (group, place))
    number = as_scalar(ctx, classes)
    parts = [ctx.emit(op_type, group, number) for op_type in ("Div", "Mod")]
    columns = [unsqueeze(ctx, one, [1]) for one in (*parts, place)]
    heads = ctx.cast(concat(ctx, columns[:2], 1), element_types.f32)
    total = ctx.emit("Shape", score)
    return [
        ctx.cast(concat(ctx, columns, 1), op.output_type),
        concat(ctx, [heads, unsqueeze(ctx, score, [1])], 1),
        ctx.cast(total, op.output_type),
    ]


def _row_of(ctx: Context, boxes: Value, clockwise: bool) -> Overlaps:
    """Intersection over union of one of the boxes ``[b, n, 5]`` with all of them, in float64."""
    centre, size, angle = (slice_along(ctx, boxes, 2, *ends) for ends in ((0, 2), (2, 4), (4, 5)))
    half = ctx.emit("Mul", unsqueeze(ctx, size, [2]), ctx.constant(_CORNERS))
    x, y = (slice_along(ctx, half, 3, *ends) for ends in ((0, 1), (1, 2)))
    cosine, sine = (unsqueeze(ctx, ctx.emit(op_type, angle), [2]) for op_type in ("Cos", "Sin"))
    if not clockwise:
        sine = ctx.emit("Neg", sine)
    turned = [
        ctx.emit(op_type, ctx.emit("Mul", x, one), ctx.emit("Mul", y, other))
        for op_type, one, other in (("Sub", cosine, sine), ("Add", sine, cosine))
    ]
    corners = ctx.emit("Add", concat(ctx, turned, 3), unsqueeze(ctx, centre, [2]))
    area = reduce(ctx, "ReduceProd", size, [2], keepdims=False)

    def row(inner: Context, number: Value) -> Value:
        one, own = (unsqueeze(inner, inner.emit("Gather", value, number, axis=1), [1]) for value in (corners, area))
        # Places are counted from the one box, so that little is lost by rounding.
        origin = unsqueeze(inner, unsqueeze(inner, inner.emit("Gather", centre, number, axis=1), [1]), [1])
        pair = [inner.emit("Sub", value, origin) for value in (one, corners)]
        common = inner.emit("Add", _inside(inner, *pair, is_closed=True), _inside(inner, *pair[::-1], is_closed=False))
        common = inner.emit("Mul", inner.emit("Abs", common), inner.like(0.5, common))
        zero = inner.like(0, common)
        both = inner.emit("And", inner.emit("Greater", own, zero), inner.emit("Greater", area, zero))
        union = inner.emit("Sub", inner.emit("Add", own, area), common)
        share = inner.emit("Div", inner.emit("Where", both, common, zero), _or_one(inner, both, union))
        return inner.cast(share, element_types.f32)

    return row


def _or_one(ctx: Context, condition: Value, value: Value) -> Value:
    return ctx.emit("Where", condition, value, ctx.like(1, value))


def _inside(ctx: Context, corners: Value, others: Value, *, is_closed: bool) -> Value:
    """Twice the area that the parts of a rectangle's edges within another enclose, seen from the origin ``[b, n]``.

    The border of what two convex shapes have in common consists of such parts of both (Green's theorem). An edge that
    lies on one of the other counts once: where ``is_closed``, and both run the same way.
    """
    # Dimensions: box, box, edge, edge of the other.
    along, of_other = (_edges(ctx, value) for value in (corners, others))
    start, edge = unsqueeze(ctx, corners, [3]), unsqueeze(ctx, along, [3])
    other_start, other_edge = unsqueeze(ctx, others, [2]), unsqueeze(ctx, of_other, [2])
    distance = _cross(ctx, other_edge, ctx.emit("Sub", start, other_start))
    speed = _cross(ctx, other_edge, edge)
    zero = ctx.like(0, speed)
    scale = ctx.emit("Sqrt", ctx.emit("Mul", _square(ctx, edge), _square(ctx, other_edge)))
    slack = ctx.emit("Mul", scale, ctx.like(_SLACK, scale))
    is_parallel = ctx.emit("LessOrEqual", ctx.emit("Abs", speed), slack)
    place = ctx.emit("Neg", ctx.emit("Div", distance, _or_one(ctx, ctx.emit("Not", is_parallel), speed)))
    enters = ctx.emit("And", ctx.emit("Greater", speed, zero), ctx.emit("Not", is_parallel))
    leaves = ctx.emit("And", ctx.emit("Less", speed, zero), ctx.emit("Not", is_parallel))
    first = reduce(ctx, "ReduceMax", ctx.emit("Where", enters, place, zero), [3], keepdims=False)
    last = reduce(ctx, "ReduceMin", ctx.emit("Where", leaves, place, ctx.like(1, place)), [3], keepdims=False)
    first, last = ctx.emit("Max", first, zero), ctx.emit("Min", last, ctx.like(1, last))
    within = ctx.emit("Greater", distance, slack)
    if is_closed:
        products = ctx.emit("Mul", edge, other_edge)
        same_way = ctx.emit("Greater", reduce(ctx, "ReduceSum", products, [-1], keepdims=False), zero)
        on_edge = ctx.emit("LessOrEqual", ctx.emit("Abs", distance), slack)
        within = ctx.emit("Or", within, ctx.emit("And", on_edge, same_way))
    fits = ctx.cast(ctx.emit("Or", ctx.emit("Not", is_parallel), within), element_types.i32)
    is_all = ctx.cast(reduce(ctx, "ReduceMin", fits, [3], keepdims=False), element_types.boolean)
    length = ctx.emit("Max", ctx.emit("Sub", last, first), zero)
    doubled = ctx.emit("Mul", _cross(ctx, corners, along), ctx.emit("Where", is_all, length, zero))
    return reduce(ctx, "ReduceSum", doubled, [2], keepdims=False)


def _edges(ctx: Context, corners: Value) -> Value:
    """From each corner to the next one."""
    following = ctx.emit("Gather", corners, ctx.constant([1, 2, 3, 0]), axis=2)
    return ctx.emit("Sub", following, corners)


def _cross(ctx: Context, a: Value, b: Value) -> Value:
    (ax, ay), (bx, by) = ([ctx.emit("Gather", one, ctx.constant(place), axis=-1) for place in (0, 1)] for one in (a, b))
    return ctx.emit("Sub", ctx.emit("Mul", ax, by), ctx.emit("Mul", ay, bx))


def _square(ctx: Context, edges: Value) -> Value:
    return reduce(ctx, "ReduceSum", ctx.emit("Mul", edges, edges), [-1], keepdims=False)
