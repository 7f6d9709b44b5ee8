"""Slices and splits."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op, layers
from converter.to_onnx.parts_of_lists import part_of_shape
from ir_runtime.graph import Output
from ir_runtime.operations.elementwise import Less1, Maximum1, Select1, Subtract1
from ir_runtime.operations.reduction import ReduceSum1
from ir_runtime.operations.slicing import Slice8, Split1, StridedSlice1, VariadicSplit1
from ir_runtime.rewriting import Match, anything, layer, number

_LENGTHS = anything("lengths")
_COUNTED = layer(ReduceSum1, layer(Maximum1, _LENGTHS, number(0)))
_WITHOUT_REST = layer(Select1, layer(Less1, _LENGTHS, number(0)), layer(Subtract1, anything(), _COUNTED), _LENGTHS)


@ir_op(Slice8)
def slice_(
    ctx: Context, op: Slice8, x: Value, start: Value, stop: Value, step: Value, axes: Value | None = None
) -> Value:
    """Slice; Shape of neighbouring dimensions (opset 15)"""
    sizes = part_of_shape(ctx)
    if sizes is not None:
        return sizes
    ends = [layers.int64_list(ctx, position) for position in (start, stop)]
    steps: Value | None = layers.int64_list(ctx, step)
    if all(number == 1 for number in layers.known_list(ctx, step) or [0]):
        steps = None
    return ctx.emit("Slice", x, *ends, None if axes is None else layers.int64_list(ctx, axes), steps)


@ir_op(StridedSlice1)
def strided_slice(
    ctx: Context, op: StridedSlice1, x: Value, begin: Value, end: Value, strides: Value | None = None
) -> Value:
    """Slice; Gather of single elements, and Unsqueeze of new dimensions"""
    count = begin.shape.element_count()
    if not begin.shape.has_rank or not count.is_static:
        ctx.fail("the number of positions must be known")
    rank = layers.rank_of(ctx, x, "the data")
    steps = [1] * count.value if strides is None else layers.list_of(ctx, strides, "the strides")
    axes, starts, stops, chosen = [], [], [], []
    new, single = [], []
    place = 0
    for part_type, axis, index in op.plan(rank, count.value):
        if part_type == "new":
            new.append(place)
        elif part_type == "one":
            single.append((axis, 0 if op.is_set(op.begin_mask, index) else _position(ctx, begin, index)))
            continue
        elif part_type == "part":
            step = steps[index]
            first, last = (0, layers.INT64_MAX) if step > 0 else (layers.INT64_MAX, layers.INT64_MIN)
            low = first if op.is_set(op.begin_mask, index) else _position(ctx, begin, index)
            high = last if op.is_set(op.end_mask, index) else _position(ctx, end, index)
            if (low, high, step) != (0, layers.INT64_MAX, 1):
                axes.append(axis)
                starts.append(low)
                stops.append(high)
                chosen.append(step)
        place += 1
    if axes:
        by = ctx.constant(chosen) if any(step != 1 for step in chosen) else None
        x = ctx.emit("Slice", x, layers.shape_list(ctx, starts), layers.shape_list(ctx, stops), ctx.constant(axes), by)
    for axis, position in reversed(single):
        x = ctx.emit("Gather", x, layers.as_scalar(ctx, position), axis=axis)
    return layers.unsqueeze(ctx, x, new)


def _position(ctx: Context, positions: Value, index: int) -> layers.Size:
    """Return one of the positions: a number, or a list of one int64."""
    numbers = layers.known_list(ctx, positions)
    if numbers is not None:
        return numbers[index]
    bounds = positions.type.known_bounds
    if bounds is not None:
        low, high = bounds.lower.reshape(-1)[index], bounds.upper.reshape(-1)[index]
        if low == high:
            return int(low)
    return ctx.emit("Gather", layers.int64_list(ctx, positions), ctx.constant([index]), axis=0)


@ir_op(Split1)
def split(ctx: Context, op: Split1, x: Value, axis: Value) -> list[Value]:
    """Split; with num_outputs from opset 18 on"""
    at = layers.list_of(ctx, axis, "the axis")
    return layers.split_equally(ctx, x, op.num_splits, at[0])


@ir_op(VariadicSplit1)
def variadic_split(ctx: Context, op: VariadicSplit1, x: Value, axis: Value, lengths: Value) -> list[Value]:
    """Split; the length -1 is what the others leave"""
    at = layers.list_of(ctx, axis, "the axis")
    index = at[0] % layers.rank_of(ctx, x, "the data")
    numbers = layers.known_list(ctx, lengths)
    count = len(ctx.node.outputs)
    if numbers is not None and -1 in numbers:
        size, rest = x.shape[index], sum(length for length in numbers if length != -1)
        if size.is_static:
            numbers[numbers.index(-1)] = size.value - rest
        else:
            whole = ctx.emit("Gather", ctx.emit("Shape", x), ctx.constant([index]), axis=0)
            left = ctx.emit("Sub", whole, ctx.constant([rest]))
            split_at: list[layers.Size] = [left if length == -1 else length for length in numbers]
            return ctx.emit_many("Split", x, layers.shape_list(ctx, split_at), count=count, axis=index)
    sizes = ctx.constant(numbers) if numbers is not None else layers.int64_list(ctx, lengths)
    if numbers is None and not _is_without_rest(ctx.node.inputs[2]):
        is_rest = ctx.emit("Less", sizes, ctx.constant([0]))
        whole = ctx.emit("Gather", layers.shape_of(ctx, x), ctx.constant([index]), axis=0)
        others = ctx.emit("ReduceSum", ctx.emit("Max", sizes, ctx.constant([0])), keepdims=1)
        sizes = ctx.emit("Where", is_rest, ctx.emit("Sub", whole, others), sizes)
    return ctx.emit_many("Split", x, sizes, count=count, axis=index)


def _is_without_rest(lengths: Output) -> bool:
    """True if lengths have no -1 any more, as it was replaced by what the others leave."""
    return isinstance(_WITHOUT_REST.match(lengths), Match)
