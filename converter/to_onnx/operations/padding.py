"""Pads."""

from __future__ import annotations

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import concat, dimension, int64_list, known_list, rank_of, scalar
from converter.to_onnx.registry import ir_op
from converter.to_onnx.undone import halves_of
from ir_runtime.operations.padding import Pad1, Pad12


@ir_op(Pad1, Pad12)
def pad(ctx: Context, op: Pad1, x: Value, begins: Value, ends: Value, value: Value | None = None) -> Value:
    """Pad; for the mode symmetric, Gather by indices that turn back at the edges"""
    if op.pad_mode == "symmetric":
        return _symmetric(ctx, x, begins, ends)
    known = known_list(ctx, begins), known_list(ctx, ends)
    if known[0] is not None and known[1] is not None:
        if not any([*known[0], *known[1]]):
            return x
        pads = ctx.constant([*known[0], *known[1]])
    elif (whole := halves_of(ctx.node.inputs[1], ctx.node.inputs[2], rank_of(ctx, x, "the data"))) is not None:
        pads = int64_list(ctx, ctx.value(whole))
    else:
        pads = concat(ctx, [int64_list(ctx, begins), int64_list(ctx, ends)], 0)
    if op.pad_mode == "constant":
        filled = value is not None and ctx.known(value) is not None and not ctx.known(value).any()  # type: ignore[union-attr]
        return ctx.emit("Pad", x, pads, None if filled or value is None else scalar(ctx, value))
    return ctx.emit("Pad", x, pads, mode=op.pad_mode)


def _symmetric(ctx: Context, x: Value, begins: Value, ends: Value) -> Value:
    first, last = known_list(ctx, begins), known_list(ctx, ends)
    for axis in range(rank_of(ctx, x, "the data")):
        if first is not None and last is not None and not (first[axis] or last[axis]):
            continue
        size = dimension(ctx, x, axis)
        before, after = (
            ctx.constant([known[axis]]) if known is not None else _one(ctx, value, axis)
            for known, value in ((first, begins), (last, ends))
        )
        start = _scalar(ctx, ctx.emit("Neg", before))
        places = ctx.emit("Range", start, _scalar(ctx, ctx.emit("Add", size, after)), ctx.constant(1))
        # In a period of twice the size the second half runs backwards.
        period = ctx.emit("Mod", places, ctx.emit("Mul", size, ctx.constant([2])))
        mirrored = ctx.emit("Sub", ctx.emit("Sub", ctx.emit("Mul", size, ctx.constant([2])), ctx.constant([1])), period)
        x = ctx.emit("Gather", x, ctx.emit("Min", period, mirrored), axis=axis)
    return x


def _one(ctx: Context, pads: Value, axis: int) -> Value:
    return ctx.emit("Gather", int64_list(ctx, pads), ctx.constant([axis]), axis=0)


def _scalar(ctx: Context, value: Value) -> Value:
    return ctx.emit("Reshape", value, ctx.constant([], None))
