"""onnxruntime's convolutions over steps, whose last inputs are an output for the next call.

Letters in shapes: b batches, c channels, l steps, k taps of the kernel, p past steps.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output
from ir_runtime.operations import activation as ir
from ir_runtime.operations import convolution, movement
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.expressions import Expression, positions, where
from ir_runtime.rewriting.expressions import concat as concat_
from ir_runtime.rewriting.layers import add, concat, cut, multiply, unsqueeze
from ir_runtime.rewriting.shape_layers import concat_lists, dim_of

from .packed_tokens import Rows


@onnx_op(
    "CausalConvWithState",
    versions=(27,),
    without=(
        *("channels_last", "dilation", "input_channel_offset", "input_channels", "ndim"),
        *("state_channels_last", "state_length", "state_update_capacity", "state_window"),
    ),
)
@onnx_op("CausalConvWithState", domain=MICROSOFT, versions=(1,))
def causal_convolution(
    ctx: Context,
    x: Output,
    weight: Output,
    bias: Output | None = None,
    past_state: Output | None = None,
    *,
    activation: Literal["none", "silu", "swish"] = "none",
    channels_last: int = 0,
    dilation: int = 1,
    input_channel_offset: int = 0,
    input_channels: int = 0,
    ndim: int = 1,
    state_channels_last: int = -1,
    state_length: int = 0,
    state_update_capacity: int = 0,
    state_window: int = 0,
) -> tuple[Output, Output]:
    """Each channel of ``[b, c, l]`` by its own kernel ``[c, 1, k]``, behind a past ``[b, c, p]``; and the next past.

    With ``channels_last`` data and pasts are ``[b, l, c]``.
    """
    if ndim != 1:
        raise ctx.unsupported(f"{ndim} spatial dimensions are not supported")
    if state_window or state_length or state_update_capacity:
        raise ctx.unsupported(
            "states of another length than (k - 1) * dilation of the kernel, and updates of them, are not supported"
        )
    if input_channel_offset or input_channels:
        raise ctx.unsupported("a part of the input's channels is not supported")
    if state_channels_last not in (-1, channels_last):
        raise ctx.unsupported("states in another layout than the data's are not supported")
    if dilation < 1:
        raise ctx.invalid(f"dilation must be positive, but is {dilation}")
    if ctx.rank(x, "the input") != 3:
        raise ctx.unsupported(f"the input must have 3 dimensions, but has the shape {x.shape}")
    ctx.rank(weight, "the weights", 3)
    taps = weight.shape[2]
    if not taps.is_static:
        raise ctx.unsupported("the number of the kernel's taps must be known while converting, but is not")
    reach = (taps.value - 1) * dilation
    if channels_last:
        x, past_state = _swapped_axes(ctx, x), None if past_state is None else _swapped_axes(ctx, past_state)
    if past_state is None:
        shape = concat_lists(ctx, [dim_of(ctx, x, 0), dim_of(ctx, x, 1), ctx.constant(reach)])
        past_state = ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, x), shape)
    whole = concat(ctx, 2, past_state, x)
    op = convolution.GroupConvolution1(strides=[1], pads_begin=[0], pads_end=[0], dilations=[dilation])
    y = ctx.emit(op, whole, unsqueeze(ctx, weight, 1))
    if bias is not None:
        y = add(ctx, y, unsqueeze(ctx, bias, 0, 2))
    if activation != "none":
        y = multiply(ctx, y, ctx.emit(ir.Sigmoid1(), y))
    present_state = cut(ctx, whole, -reach, None, 2) if reach else cut(ctx, whole, 0, 0, 2)
    if channels_last:
        y, present_state = _swapped_axes(ctx, y), _swapped_axes(ctx, present_state)
    return y, present_state


def _swapped_axes(ctx: Context, x: Output) -> Output:
    """``[b, l, c]`` as ``[b, c, l]``, and back."""
    return layers.transpose(ctx, x, ctx.constant([0, 2, 1]))


@onnx_op("VarlenCausalConvWithState", domain=MICROSOFT, versions=(1,))
def packed_causal_convolution(
    ctx: Context,
    x: Expression,
    weight: Expression,
    cumulative_sequence_length: Expression,
    bias: Expression | None = None,
    initial_state: Expression | None = None,
    capture_count: Expression | None = None,
    kernel_delta: Expression | None = None,
    previous_mask: Expression | None = None,
    *,
    activation: Literal["none", "silu", "swish"] = "none",
    delta_offset: int = 0,
    dilation: int = 1,
    group_size: int = 1,
    state_update_capacity: int = 0,
) -> list[Expression]:
    """As CausalConvWithState, of the tokens ``[t, c]`` of several sequences; and the first inputs of each."""
    if kernel_delta is not None or previous_mask is not None:
        raise ctx.unsupported("kernels that change from token to token are not supported")
    if initial_state is None:
        raise ctx.invalid("input 'initial_state' is required, but missing")
    if state_update_capacity and capture_count is None:
        raise ctx.invalid("state_update_capacity requires the input capture_count, which is missing")
    rows = Rows.of(ctx, x, cumulative_sequence_length, initial_state)
    steps, present = rows.split(x).transpose(1, 2, 0), initial_state
    y, _ = causal_convolution(
        ctx,
        steps.value,
        weight.value,
        None if bias is None else bias.value,
        present.value,
        activation=activation,
        dilation=dilation,
    )
    whole = concat_([present, steps], 2)
    # The last inputs of a sequence stand behind as many as it has steps.
    places = rows.lengths().unsqueeze(1, 2) + positions(present.size(2))
    final = whole.gather_elements(places.broadcast(*present.sizes()), 2)
    results = [rows.join(Expression(ctx, y).transpose(2, 0, 1)), final]
    if not state_update_capacity:
        return results
    batches, channels, _ = present.sizes()
    first = concat_([steps, x.of(0.0).broadcast(batches, channels, state_update_capacity)], 2)
    first = first.cut(2, 0, state_update_capacity).transpose(0, 2, 1)
    assert capture_count is not None
    count = capture_count.as_type("i64").minimum(rows.lengths()).unsqueeze(1)
    captured = count > count.of(np.arange(state_update_capacity), "i64")
    return [*results, where(captured.unsqueeze(2), first, 0.0)]
