"""ONNX's recurrent networks in all their versions: RNN, GRU and LSTM.

Sizes: ``s`` steps, ``b`` batch, ``i`` inputs, ``h`` hidden, ``d`` directions. X is ``[s, b, i]``, W
``[d, gates*h, i]``, R ``[d, gates*h, h]``, B ``[d, 2*gates*h]``, the initial states ``[d, b, h]``;
with ``layout`` 1 the batch comes first. Outputs are all hidden states ``[s, d, b, h]`` and the last states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from converter.from_onnx.operators.onnx.recurrent_layers import GRU, LSTM, RNN, Inputs, Options, run
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from ir_runtime.graph import Output


@onnx_op("RNN", versions=(1,), without=("layout",))
@onnx_op("RNN", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("RNN", versions=(14, 22), without=("output_sequence",))
@attributes_of(Options, without=("input_forget", "linear_before_reset", "quantizes_data"))
def rnn(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    *,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    **attributes: Any,
) -> tuple[Output, ...]:
    """A plain recurrent network: all hidden states, and the last."""
    options = Options(activations=activations, **attributes)
    return run(ctx, RNN, Inputs(x, w, r, b, sequence_lens, [initial_h]), options)


@onnx_op("GRU", versions=(1,), without=("layout", "linear_before_reset"))
@onnx_op("GRU", versions=(3,), without=("layout",))
@onnx_op("GRU", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("GRU", versions=(14, 22), without=("output_sequence",))
@attributes_of(Options, without=("input_forget", "quantizes_data"))
def gru(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    **attributes: Any,
) -> tuple[Output, ...]:
    """Gated recurrent units: all hidden states, and the last.

    In version 1 the reset gate always comes before the recurrent product, and the schema misspells the default of
    ``direction``.
    """
    return run(ctx, GRU, Inputs(x, w, r, b, sequence_lens, [initial_h]), Options(**attributes))


@onnx_op("LSTM", versions=(1,), without=("layout",))
@onnx_op("LSTM", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("LSTM", versions=(14, 22), without=("output_sequence",))
@attributes_of(Options, without=("linear_before_reset", "quantizes_data"))
def lstm(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    initial_c: Output | None = None,
    p: Output | None = None,
    **attributes: Any,
) -> tuple[Output, ...]:
    """Long short-term memory: all hidden states, the last, and the last cell states."""
    return run(ctx, LSTM, Inputs(x, w, r, b, sequence_lens, [initial_h, initial_c], p), Options(**attributes))
