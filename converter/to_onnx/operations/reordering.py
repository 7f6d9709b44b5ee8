"""Elements in another order along some axes."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, dimension, int64_list, known_list, rank_of, transpose, with_shape
from converter.to_onnx.registry import ir_op
from ir_runtime.operations.reordering import Reverse1, ReverseSequence1, Roll7

_MIN, _MAX = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@ir_op(Reverse1)
def reverse(ctx: Context, op: Reverse1, x: Value, axes: Value) -> Value:
    """Slice with steps of -1"""
    known = known_list(ctx, axes)
    if known is None and op.mode == "mask":
        ctx.fail("the mask of the axes must be known")
    if known is not None:
        chosen = [axis for axis, flag in enumerate(known) if flag] if op.mode == "mask" else known
        if not chosen:
            return x
        at, count = ctx.constant(chosen), len(chosen)
    else:
        size = axes.shape.element_count()
        if not size.is_static:
            ctx.fail("the number of axes must be known")
        at, count = int64_list(ctx, axes), size.value
    first, last, step = ([number] * count for number in (-1, _MIN, -1))
    return ctx.emit("Slice", x, ctx.constant(first), ctx.constant(last), at, ctx.constant(step))


@ir_op(ReverseSequence1)
def reverse_sequence(ctx: Context, op: ReverseSequence1, x: Value, lengths: Value) -> Value:
    """ReverseSequence, whose axes are the first two"""
    rank = rank_of(ctx, x, "the data")
    batch, time = op.batch_axis % rank, op.seq_axis % rank
    counts = int64_list(ctx, lengths)
    if {batch, time} == {0, 1}:
        return ctx.emit("ReverseSequence", x, counts, batch_axis=batch, time_axis=time)
    order = [batch, time, *[i for i in range(rank) if i not in (batch, time)]]
    made = ctx.emit("ReverseSequence", transpose(ctx, x, order), counts, batch_axis=0, time_axis=1)
    return transpose(ctx, made, [order.index(i) for i in range(rank)])


@ir_op(Roll7)
def roll(ctx: Context, op: Roll7, x: Value, shift: Value, axes: Value) -> Value:
    """Concat of the two parts of a Slice along each axis"""
    at = known_list(ctx, axes)
    if at is None:
        ctx.fail("the axes must be known")
    rank = rank_of(ctx, x, "the data")
    known = known_list(ctx, shift)
    if known is not None and len(known) == 1:
        known = known * len(at)
    for place, axis in enumerate(one % rank for one in at):
        size = x.shape[axis]
        if known is not None and size.is_static:
            cut = ctx.constant([-known[place] % size.value if size.value else 0])
        else:
            by = ctx.constant([known[place]]) if known is not None else _one(ctx, shift, place)
            length = ctx.emit("Max", dimension(ctx, x, axis), ctx.constant([1]))
            cut = ctx.emit("Mod", ctx.emit("Neg", by), length)
        along = ctx.constant([axis])
        front = ctx.emit("Slice", x, ctx.constant([0]), cut, along)
        back = ctx.emit("Slice", x, cut, ctx.constant([_MAX]), along)
        shape = x.shape
        x = with_shape(concat(ctx, [back, front], axis), shape)
    return x


def _one(ctx: Context, shifts: Value, place: int) -> Value:
    values = int64_list(ctx, shifts)
    count = shifts.shape.element_count()
    if count.is_static and count.value == 1:
        return values
    return ctx.emit("Gather", values, ctx.constant([place]), axis=0)
