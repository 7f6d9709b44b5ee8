"""Elements in another order along some axes."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import int64_list, known_list, rank_of, transpose
from converter.to_onnx.registry import write_inline
from ir_runtime.operations.reordering import Reverse1, ReverseSequence1, Roll7

_MIN, _MAX = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)


@ir_op(Reverse1)
def reverse(ctx: Context, op: Reverse1, x: Value, axes: Value) -> Value:
    """Slice with steps of -1"""
    numbers = known_list(ctx, axes)
    if numbers is None and op.mode == "mask":
        ctx.fail("the mask of the axes must be known")
    if numbers is not None:
        chosen = [axis for axis, flag in enumerate(numbers) if flag] if op.mode == "mask" else numbers
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
    reversed_batch = ctx.emit("ReverseSequence", transpose(ctx, x, order), counts, batch_axis=0, time_axis=1)
    return transpose(ctx, reversed_batch, [order.index(i) for i in range(rank)])


write_inline(Roll7)
