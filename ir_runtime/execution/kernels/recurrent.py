"""Recurrent sequences of float32 with the default activations.

The weights are rearranged once, so that a step is one product and a few functions over all gates, in memory that all
steps share. The sigmoid of x is (1 + tanh(x / 2)) / 2: with halved weights, which are exact, one tanh serves all gates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.recurrent import GRUSequence5, LSTMSequence5, RNNSequence5

from .registry import Prepared, Site, is_float32, kernel

_HALF = np.float32(0.5)

# (the inputs' part of every step [s, b, gates * h], states [b, h], weights, where hidden states go [s, b, h])
_Cell = Callable[[Array, Sequence[Array], "Arranged", Array], None]


class Arranged:
    """One direction: inputs' weights ``[i, gates * h]`` and biases, and the recurrent ones."""

    def __init__(self, w: Array, r: Array, b: Array, last: Array | None = None) -> None:
        self.w = np.ascontiguousarray(w.T)
        self.r = np.ascontiguousarray(r.T)
        self.b = b
        self.last = last
        """A bias that stays with the recurrent product of the last gate."""


@kernel(LSTMSequence5, GRUSequence5, RNNSequence5)
def sequence(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    directions = arranged(node, site.constants)
    if directions is None:
        return None
    cell = {LSTMSequence5: _lstm, GRUSequence5: _gru}.get(type(op), _rnn)
    if type(op) is GRUSequence5 and not op.linear_before_reset:
        cell = _gru_reset_first
    packed = tuple(node.inputs[2 + op.states :])
    return Prepared(_Sequence(op, directions, cell), fresh=False, packed=packed)


def arranged(node: Node, constants: Mapping[Output, Array]) -> list[Arranged] | None:
    """The rearranged weights of each direction; None where the kernel cannot compute the node."""
    op: Any = node.op
    usual = {LSTMSequence5: ["sigmoid", "tanh", "tanh"], GRUSequence5: ["sigmoid", "tanh"], RNNSequence5: ["tanh"]}
    count = 1 + op.states
    floats = [*node.inputs[:count], *node.inputs[count + 1 :]]
    weights = [constants.get(source) for source in node.inputs[count + 1 :]]
    if not is_float32(*floats) or op.clip > 0 or [name.lower() for name in op.activations] != usual[type(op)]:
        return None
    if any(value is None for value in weights):
        return None
    w, r, b = (value for value in weights if value is not None)
    arrange = {LSTMSequence5: _lstm_arranged, GRUSequence5: _gru_arranged}.get(type(op), _rnn_arranged)
    return [arrange(*one) for one in zip(w, r, b)]


class _Sequence:
    def __init__(self, op: Any, directions: list[Arranged], cell: _Cell) -> None:
        self._states: int = op.states
        self._backwards = [op.direction == "reverse" or number == 1 for number in range(len(directions))]
        self._directions = directions
        self._cell = cell

    def __call__(self, *inputs: Array) -> tuple[Array, ...] | None:
        count = 1 + self._states
        x, lengths = inputs[0], inputs[count]
        batch, steps, width = x.shape
        if not batch or not steps or (lengths != steps).any():
            return None
        hidden = inputs[1].shape[-1]
        number = len(self._directions)
        every = np.empty((batch, number, steps, hidden), np.float32)
        last = [np.empty((batch, number, hidden), np.float32) for _ in range(self._states)]
        rows = x.transpose(1, 0, 2).reshape(steps * batch, width)
        for index, (weights, backwards) in enumerate(zip(self._directions, self._backwards)):
            parts = np.matmul(rows, weights.w)
            np.add(parts, weights.b, out=parts)
            parts = parts.reshape(steps, batch, -1)
            states = [np.array(state[:, index]) for state in inputs[1:count]]
            out = np.empty((steps, batch, hidden), np.float32)
            if backwards:
                self._cell(parts[::-1], states, weights, out[::-1])
            else:
                self._cell(parts, states, weights, out)
            every[:, index] = out.transpose(1, 0, 2)
            for target, state in zip(last, states):
                target[:, index] = state
        return (every, *last)


def _lstm_arranged(w: Array, r: Array, b: Array) -> Arranged:
    """From forget, input, cell, output to forget, input, output (halved), cell."""
    size = r.shape[1]
    order = np.concatenate([np.arange(size) + gate * size for gate in (0, 1, 3, 2)])
    scale = np.ones((4 * size, 1), np.float32)
    scale[: 3 * size] = _HALF
    return Arranged(w[order] * scale, r[order] * scale, b[order] * scale[:, 0])


def _lstm(parts: Array, states: Sequence[Array], weights: Arranged, out: Array) -> None:
    hidden, cell = states
    batch, size = hidden.shape
    gates = np.empty((batch, 4 * size), np.float32)
    soft, new = gates[:, : 3 * size], gates[:, 3 * size :]
    forget, into, outwards = (gates[:, i * size : (i + 1) * size] for i in range(3))
    spare = np.empty((batch, size), np.float32)
    before: Array = hidden
    for part, after in zip(parts, out):
        np.matmul(before, weights.r, out=gates)
        np.add(gates, part, out=gates)
        np.tanh(gates, out=gates)
        np.multiply(soft, _HALF, out=soft)
        np.add(soft, _HALF, out=soft)
        np.multiply(cell, forget, out=cell)
        np.multiply(new, into, out=new)
        np.add(cell, new, out=cell)
        np.tanh(cell, out=spare)
        np.multiply(spare, outwards, out=after)
        before = after
    hidden[...] = before


def _gru_arranged(w: Array, r: Array, b: Array) -> Arranged:
    """Update and reset halved; of four biases the last belongs to the recurrent product."""
    size = r.shape[1]
    scale = np.ones((3 * size, 1), np.float32)
    scale[: 2 * size] = _HALF
    last = b[3 * size :] if len(b) > 3 * size else None
    return Arranged(w * scale, r * scale, b[: 3 * size] * scale[:, 0], last)


def _gru(parts: Array, states: Sequence[Array], weights: Arranged, out: Array) -> None:
    (hidden,) = states
    assert weights.last is not None
    batch, size = hidden.shape
    gates = np.empty((batch, 3 * size), np.float32)
    soft, new = gates[:, : 2 * size], gates[:, 2 * size :]
    update, reset = gates[:, :size], gates[:, size : 2 * size]
    before: Array = hidden
    for part, after in zip(parts, out):
        np.matmul(before, weights.r, out=gates)
        np.add(soft, part[:, : 2 * size], out=soft)
        np.tanh(soft, out=soft)
        np.multiply(soft, _HALF, out=soft)
        np.add(soft, _HALF, out=soft)
        np.add(new, weights.last, out=new)
        np.multiply(new, reset, out=new)
        np.add(new, part[:, 2 * size :], out=new)
        np.tanh(new, out=new)
        _mix(before, new, update, after)
        before = after
    hidden[...] = before


def _gru_reset_first(parts: Array, states: Sequence[Array], weights: Arranged, out: Array) -> None:
    (hidden,) = states
    batch, size = hidden.shape
    both = np.ascontiguousarray(weights.r[:, : 2 * size])
    last = np.ascontiguousarray(weights.r[:, 2 * size :])
    soft = np.empty((batch, 2 * size), np.float32)
    update, reset = soft[:, :size], soft[:, size:]
    kept, new = np.empty((2, batch, size), np.float32)
    before: Array = hidden
    for part, after in zip(parts, out):
        np.matmul(before, both, out=soft)
        np.add(soft, part[:, : 2 * size], out=soft)
        np.tanh(soft, out=soft)
        np.multiply(soft, _HALF, out=soft)
        np.add(soft, _HALF, out=soft)
        np.multiply(before, reset, out=kept)
        np.matmul(kept, last, out=new)
        np.add(new, part[:, 2 * size :], out=new)
        np.tanh(new, out=new)
        _mix(before, new, update, after)
        before = after
    hidden[...] = before


def _mix(before: Array, new: Array, update: Array, out: Array) -> None:
    """(1 - update) new + update before."""
    np.subtract(before, new, out=out)
    np.multiply(out, update, out=out)
    np.add(out, new, out=out)


def _rnn_arranged(w: Array, r: Array, b: Array) -> Arranged:
    return Arranged(w, r, b)


def _rnn(parts: Array, states: Sequence[Array], weights: Arranged, out: Array) -> None:
    (hidden,) = states
    before: Array = hidden
    for part, after in zip(parts, out):
        np.matmul(before, weights.r, out=after)
        np.add(after, part, out=after)
        np.tanh(after, out=after)
        before = after
    hidden[...] = before
