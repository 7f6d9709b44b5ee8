"""ONNX's recurrent networks in all their versions: RNN, GRU and LSTM.

Sizes: ``s`` steps, ``b`` batch, ``i`` inputs, ``h`` hidden, ``d`` directions. X is ``[s, b, i]``, W
``[d, gates*h, i]``, R ``[d, gates*h, h]``, B ``[d, 2*gates*h]``, the initial states ``[d, b, h]``;
with ``layout`` 1 the batch comes first. Outputs are all hidden states ``[s, d, b, h]`` and the last states.
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.from_onnx.operators.onnx.recurrent_layers import GRU, LSTM, RNN, Inputs, Options, run
from converter.from_onnx.translation.context import Context
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph import Output


@onnx_op("RNN", versions=(1,), without=("layout",))
@onnx_op("RNN", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("RNN", versions=(14, 22), without=("output_sequence",))
def rnn(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Output, ...]:
    """A plain recurrent network: all hidden states, and the last.

    ``output_sequence`` means that all hidden states are wanted; it is not read, since the node's outputs show that.
    """
    options = Options(direction, hidden_size, activations, activation_alpha, activation_beta, clip, layout)
    return run(ctx, RNN, Inputs(x, w, r, b, sequence_lens, [initial_h]), options)


@onnx_op("GRU", versions=(1,), without=("layout", "linear_before_reset"))
@onnx_op("GRU", versions=(3,), without=("layout",))
@onnx_op("GRU", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("GRU", versions=(14, 22), without=("output_sequence",))
def gru(
    ctx: Context,
    x: Output,
    w: Output,
    r: Output,
    b: Output | None = None,
    sequence_lens: Output | None = None,
    initial_h: Output | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Output, ...]:
    """Gated recurrent units: all hidden states, and the last.

    In version 1 the reset gate always comes before the recurrent product, and the schema misspells the default of
    ``direction``. ``output_sequence`` is as for RNN.
    """
    options = Options(
        direction,
        hidden_size,
        activations,
        activation_alpha,
        activation_beta,
        clip,
        layout,
        linear_before_reset=bool(linear_before_reset),
    )
    return run(ctx, GRU, Inputs(x, w, r, b, sequence_lens, [initial_h]), options)


@onnx_op("LSTM", versions=(1,), without=("layout",))
@onnx_op("LSTM", versions=(7,), without=("layout", "output_sequence"))
@onnx_op("LSTM", versions=(14, 22), without=("output_sequence",))
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
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Output, ...]:
    """Long short-term memory: all hidden states, the last, and the last cell states.

    ``output_sequence`` is as for RNN.
    """
    options = Options(
        direction,
        hidden_size,
        activations,
        activation_alpha,
        activation_beta,
        clip,
        layout,
        input_forget=bool(input_forget),
    )
    return run(ctx, LSTM, Inputs(x, w, r, b, sequence_lens, [initial_h, initial_c], p), options)
