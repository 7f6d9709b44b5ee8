"""Pads."""

from __future__ import annotations

from converter.to_onnx import Context, Value, ir_op
from converter.to_onnx.layers import concat, int64_list, known_list, rank_of, scalar
from converter.to_onnx.split_lists import halves_of
from ir_runtime.operations.padding import Pad1, Pad12


@ir_op(Pad1, Pad12)
def pad(ctx: Context, op: Pad1, x: Value, begins: Value, ends: Value, value: Value | None = None) -> Value:
    """Pad; for the mode symmetric, Gather by indices that turn back at the edges"""
    if op.pad_mode == "symmetric":
        return ctx.decompose()[0]
    pads_per_end = known_list(ctx, begins), known_list(ctx, ends)
    if pads_per_end[0] is not None and pads_per_end[1] is not None:
        if not any([*pads_per_end[0], *pads_per_end[1]]):
            return x
        pads = ctx.constant([*pads_per_end[0], *pads_per_end[1]])
    elif (whole := halves_of(ctx.node.inputs[1], ctx.node.inputs[2], rank_of(ctx, x, "the data"))) is not None:
        pads = int64_list(ctx, ctx.value(whole))
    else:
        pads = concat(ctx, [int64_list(ctx, begins), int64_list(ctx, ends)], 0)
    if op.pad_mode == "constant":
        filled = value is not None and ctx.constant_values(value) is not None and not ctx.constant_values(value).any()  # type: ignore[union-attr]
        return ctx.emit("Pad", x, pads, None if filled or value is None else scalar(ctx, value))
    return ctx.emit("Pad", x, pads, mode=op.pad_mode)
