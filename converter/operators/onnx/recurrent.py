"""ONNX's recurrent networks in all their versions: RNN, GRU and LSTM.

Sizes: ``s`` steps, ``b`` batch, ``i`` inputs, ``h`` hidden, ``d`` directions. X is ``[s, b, i]``, W
``[d, gates*h, i]``, R ``[d, gates*h, h]``, B ``[d, 2*gates*h]``, the initial states ``[d, b, h]``;
with ``layout`` 1 the batch comes first. Outputs are all hidden states ``[s, d, b, h]`` and the last states.
"""

from __future__ import annotations

from collections.abc import Sequence

from converter.operators.onnx.recurrent_layers import GRU, LSTM, RNN, Options, run
from converter.translation.context import Context
from converter.translation.registry import onnx_op
from ir_runtime.graph import Output


@onnx_op("RNN", versions=(14, 22))
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
) -> tuple[Output, ...]:
    """A plain recurrent network: all hidden states, and the last."""
    options = Options(direction, hidden_size, activations, activation_alpha, activation_beta, clip, layout)
    return run(ctx, RNN, x, w, r, b, sequence_lens, [initial_h], None, options)


@onnx_op("RNN", versions=(7,))
def rnn_7(
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
) -> tuple[Output, ...]:
    """RNN with the steps in front."""
    options = Options(direction, hidden_size, activations, activation_alpha, activation_beta, clip)
    return run(ctx, RNN, x, w, r, b, sequence_lens, [initial_h], None, options)


@onnx_op("RNN", versions=(1,))
def rnn_1(
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
    output_sequence: int = 0,
) -> tuple[Output, ...]:
    """RNN that tells whether all hidden states are wanted, which the node's outputs tell anyway."""
    options = Options(direction, hidden_size, activations, activation_alpha, activation_beta, clip)
    return run(ctx, RNN, x, w, r, b, sequence_lens, [initial_h], None, options)


@onnx_op("GRU", versions=(14, 22))
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
) -> tuple[Output, ...]:
    """Gated recurrent units: all hidden states, and the last."""
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
    return run(ctx, GRU, x, w, r, b, sequence_lens, [initial_h], None, options)


@onnx_op("GRU", versions=(7,))
def gru_7(
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
    linear_before_reset: int = 0,
) -> tuple[Output, ...]:
    """GRU with the steps in front."""
    options = Options(
        direction,
        hidden_size,
        activations,
        activation_alpha,
        activation_beta,
        clip,
        linear_before_reset=bool(linear_before_reset),
    )
    return run(ctx, GRU, x, w, r, b, sequence_lens, [initial_h], None, options)


@onnx_op("GRU", versions=(3,))
def gru_3(
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
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Output, ...]:
    """GRU that tells whether all hidden states are wanted, which the node's outputs tell anyway."""
    options = Options(
        direction,
        hidden_size,
        activations,
        activation_alpha,
        activation_beta,
        clip,
        linear_before_reset=bool(linear_before_reset),
    )
    return run(ctx, GRU, x, w, r, b, sequence_lens, [initial_h], None, options)


@onnx_op("GRU", versions=(1,))
def gru_1(
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
    direction: str = "foward",
    hidden_size: int | None = None,
    output_sequence: int = 0,
) -> tuple[Output, ...]:
    """GRU whose reset gate always acts before the recurrent product."""
    options = Options(direction, hidden_size, activations, activation_alpha, activation_beta, clip)
    return run(ctx, GRU, x, w, r, b, sequence_lens, [initial_h], None, options)


@onnx_op("LSTM", versions=(14, 22))
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
) -> tuple[Output, ...]:
    """Long short-term memory: all hidden states, the last, and the last cell states."""
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
    return run(ctx, LSTM, x, w, r, b, sequence_lens, [initial_h, initial_c], p, options)


@onnx_op("LSTM", versions=(7,))
def lstm_7(
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
) -> tuple[Output, ...]:
    """LSTM with the steps in front."""
    options = Options(
        direction,
        hidden_size,
        activations,
        activation_alpha,
        activation_beta,
        clip,
        input_forget=bool(input_forget),
    )
    return run(ctx, LSTM, x, w, r, b, sequence_lens, [initial_h, initial_c], p, options)


@onnx_op("LSTM", versions=(1,))
def lstm_1(
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
    output_sequence: int = 0,
) -> tuple[Output, ...]:
    """LSTM that tells whether all hidden states are wanted, which the node's outputs tell anyway."""
    options = Options(
        direction,
        hidden_size,
        activations,
        activation_alpha,
        activation_beta,
        clip,
        input_forget=bool(input_forget),
    )
    return run(ctx, LSTM, x, w, r, b, sequence_lens, [initial_h, initial_c], p, options)
