"""Recurrent cells and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from converter.to_onnx import Context, Value, ir_op, layers
from ir_runtime.graph import element_types
from ir_runtime.operations import recurrent as ir

_Sequence = Union[ir.GRUSequence5, ir.LSTMSequence5, ir.RNNSequence5]
_Cell = Union[ir.GRUCell3, ir.LSTMCell1, ir.LSTMCell4, ir.RNNCell1]
_Recurrent = Union[_Sequence, _Cell]

# The names in ONNX, and the defaults of alpha and beta in the IR; None where the function has no such parameter.
_ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "sigmoid": ("Sigmoid", None, None),
    "tanh": ("Tanh", None, None),
    "relu": ("Relu", None, None),
    "softsign": ("Softsign", None, None),
    "softplus": ("Softplus", None, None),
    "hardsigmoid": ("HardSigmoid", 0.2, 0.5),
    "elu": ("Elu", 1.0, None),
    "affine": ("Affine", 1.0, 0.0),
    "leakyrelu": ("LeakyRelu", 0.01, None),
    "thresholdedrelu": ("ThresholdedRelu", 1.0, None),
    "scaledtanh": ("ScaledTanh", 1.0, 1.0),
}
_ONNX_GATES = "iofc"
"""The order of an LSTM's gates in ONNX; those of a GRU (z, r, h) have the IR's."""


def _attributes(ctx: Context, op: _Recurrent, directions: int) -> dict[str, Any]:
    names: list[str] = []
    alphas: list[float] = []
    betas: list[float] = []
    for index, name in enumerate(op.activations):
        if name.lower() not in _ACTIVATIONS:
            ctx.fail(f"ONNX has no activation '{name}'")
        onnx_name, alpha, beta = _ACTIVATIONS[name.lower()]
        names.append(onnx_name)
        for parameters, given_values, default in (
            (alphas, op.activations_alpha, alpha),
            (betas, op.activations_beta, beta),
        ):
            if default is not None:
                parameters.append(given_values[index] if index < len(given_values) else default)
    return {
        "activations": names * directions,
        "activation_alpha": alphas * directions or None,
        "activation_beta": betas * directions or None,
        "clip": op.clip if op.clip > 0 else None,
    }


def _rows(ctx: Context, weights: Value, order: Sequence[int], count: int) -> Value:
    """``[d, count*h, ...]`` with its parts along axis 1 in another order: a constant at once."""
    if list(order) == list(range(count)):
        return weights
    constant = ctx.constant_values(weights)
    if constant is not None:
        return ctx.constant(
            np.concatenate([np.split(constant, count, 1)[part] for part in order], 1), weights.element_type
        )
    parts = layers.split_equally(ctx, weights, count, 1)
    return ctx.emit("Concat", *[parts[part] for part in order], axis=1)


def _zeros(ctx: Context, like: Value) -> Value:
    """Zeros of the shape and type of a value."""
    constant = ctx.constant_values(like)
    return ctx.like(np.zeros(constant.shape), like) if constant is not None else ctx.emit("Sub", like, like)


def _gru_biases(ctx: Context, op: ir.GRUCell3 | ir.GRUSequence5, biases: Value) -> Value:
    if not op.linear_before_reset:
        return layers.concat(ctx, [biases, _zeros(ctx, biases)], 1)
    z, r, new, recurrent = layers.split_equally(ctx, biases, 4, 1)
    return ctx.emit("Concat", z, r, new, _zeros(ctx, z), _zeros(ctx, r), recurrent, axis=1)


def _emit(
    ctx: Context,
    op: _Recurrent,
    x: Value,
    states: Sequence[Value],
    lengths: Value | None,
    weights: Sequence[Value],
    direction: str,
) -> list[Value]:
    """The ONNX operator over x ``[s, b, i]`` and states ``[d, b, h]``; W, R and B have directions in front."""
    w, r, b = weights
    hidden = op.hidden_size
    if not hidden:
        size = ctx.node.inputs[1].shape[-1]
        if not size.is_static:
            ctx.fail("the hidden size must be known")
        hidden = size.value
    attributes = _attributes(ctx, op, 2 if direction == "bidirectional" else 1)
    if isinstance(op, (ir.GRUCell3, ir.GRUSequence5)):
        name, b = "GRU", _gru_biases(ctx, op, b)
        attributes["linear_before_reset"] = int(op.linear_before_reset) or None
    elif isinstance(op, (ir.RNNCell1, ir.RNNSequence5)):
        name, b = "RNN", layers.concat(ctx, [b, _zeros(ctx, b)], 1)
    else:
        name = "LSTM"
        own = getattr(op, "weights_format", "fico")
        order = [own.index(gate) for gate in _ONNX_GATES]
        w, r, b = (_rows(ctx, weight, order, 4) for weight in (w, r, b))
        b = layers.concat(ctx, [b, _zeros(ctx, b)], 1)
    return ctx.emit_many(
        name,
        x,
        w,
        r,
        b,
        lengths,
        *states,
        count=1 + len(states),
        hidden_size=hidden,
        direction=direction if direction != "forward" else None,
        **attributes,
    )


@ir_op(ir.GRUSequence5, ir.LSTMSequence5, ir.RNNSequence5)
def sequence(ctx: Context, op: _Sequence, x: Value, *rest: Value) -> list[Value]:
    """LSTM, GRU or RNN"""
    count = len(rest) - 4
    states, lengths, weights = rest[:count], rest[count], rest[count + 1 :]
    constant_lengths, steps = layers.known_list(ctx, lengths), x.shape[1] if x.shape.has_rank else None
    is_whole = (
        constant_lengths is not None
        and steps is not None
        and steps.is_static
        and set(constant_lengths) == {steps.value}
    )
    lengths_input = None if is_whole else ctx.cast(layers.int64_list(ctx, lengths), element_types.i32)
    outputs = _emit(
        ctx,
        op,
        layers.transpose(ctx, x, [1, 0, 2]),
        [layers.transpose(ctx, state, [1, 0, 2]) for state in states],
        lengths_input,
        weights,
        op.direction,
    )
    return [
        layers.transpose(ctx, outputs[0], [2, 1, 0, 3]),
        *[layers.transpose(ctx, state, [1, 0, 2]) for state in outputs[1:]],
    ]


@ir_op(ir.GRUCell3, ir.LSTMCell1, ir.LSTMCell4, ir.RNNCell1)
def cell(ctx: Context, op: _Cell, x: Value, *rest: Value) -> list[Value]:
    """LSTM, GRU or RNN over one step"""
    states, weights = rest[: op.states], list(rest[op.states : op.states + 3])
    if len(weights) < 3:
        rows = weights[0].shape[0]
        if not rows.is_static:
            ctx.fail("the hidden size must be known")
        weights.append(ctx.like(np.zeros(rows.value // op.gates * op.bias_gates()), x))
    outputs = _emit(
        ctx,
        op,
        layers.unsqueeze(ctx, x, [0]),
        [layers.unsqueeze(ctx, state, [0]) for state in states],
        None,
        [_with_direction(ctx, weight) for weight in weights],
        "forward",
    )
    return [layers.squeeze(ctx, state, [0]) for state in outputs[1:]]


def _with_direction(ctx: Context, value: Value) -> Value:
    """A direction in front of weights: a constant at once."""
    constant = ctx.constant_values(value)
    if constant is not None:
        return ctx.constant(constant[None], value.element_type)
    return layers.with_shape(layers.unsqueeze(ctx, value, [0]), [1, *value.shape.dims])
