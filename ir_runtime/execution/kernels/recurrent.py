"""Recurrent sequences of float32 with the default activations.

The weights are rearranged once, so that a step is one product and a few functions over all gates of both directions,
in memory that all steps share. The sigmoid of x is (1 + tanh(x / 2)) / 2: with halved weights, which are exact, one
tanh serves all gates. Each gate is a matrix of its own: products of few rows with small matrices need no packing in
NumPy's library, which takes two thirds of the time of a product of 8 rows with one matrix for all gates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.recurrent import GRUSequence5, LSTMSequence5, RNNSequence5

from .registry import Prepared, Site, is_float32, kernel
from .threads import aligned_empty, scratch

_HALF, _ONE = np.float32(0.5), np.float32(1)
_MAX_BYTES_OF_DIRECTIONS = 1 << 20
"""With larger recurrent weights one direction is computed after the other: those of both would not stay in the
second-level cache from step to step."""


class _Weights:
    """The weights of all ``d`` directions, of which ``r`` are the recurrent ones of each gate ``[d, gates, h, h]``.

    ``gates`` has the place of each gate in the weights of the node, and its factor.
    """

    def __init__(
        self, w: Array, r: Array, b: Array, gates: Sequence[tuple[int, np.float32]], last: Array | None = None
    ) -> None:
        count, _, size = r.shape
        self.w = aligned_empty((count, w.shape[2], len(gates) * size))
        """Of the inputs, ``[d, i, gates * h]``."""
        self.r = aligned_empty((count, len(gates), size, size))
        self.b = aligned_empty((count, len(gates), 1, size))
        self.last = None if last is None else last[:, None]
        """A bias that stays with the recurrent product of the last gate, ``[d, 1, h]``."""
        for number, (place, factor) in enumerate(gates):
            rows = slice(place * size, (place + 1) * size)
            columns = slice(number * size, (number + 1) * size)
            np.multiply(w[:, rows].transpose(0, 2, 1), factor, out=self.w[:, :, columns])
            np.multiply(r[:, rows].transpose(0, 2, 1), factor, out=self.r[:, number])
            np.multiply(b[:, rows], factor, out=self.b[:, number, 0])


_Cell = Callable[[Array, Sequence[Array], Array, "Array | None", Array], None]
"""Computes all steps from the inputs' part of every step ``[s, d, gates, b, h]``, the states ``[d, b, h]``, the
recurrent weights and the last bias into hidden states ``[s, d, b, h]``. The states become those of the last step."""


@kernel(LSTMSequence5, GRUSequence5, RNNSequence5)
def sequence(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    weights = _arrange_weights(node, site.constants)
    if weights is None:
        return None
    cell = {LSTMSequence5: _lstm, GRUSequence5: _gru}.get(type(op), _rnn)
    if type(op) is GRUSequence5 and not op.linear_before_reset:
        cell = _gru_reset_first
    packed = tuple(node.inputs[2 + op.states :])
    return Prepared(_Sequence(op, weights, cell), packed=packed)


def _arrange_weights(node: Node, constants: Mapping[Output, Array]) -> _Weights | None:
    """The rearranged weights; None where the kernel cannot compute the node."""
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
    size = r.shape[2]
    if type(op) is LSTMSequence5:
        # From forget, input, cell, output to forget, input, output (halved), cell.
        return _Weights(w, r, b, [(0, _HALF), (1, _HALF), (3, _HALF), (2, _ONE)])
    if type(op) is GRUSequence5:
        # Update and reset are halved; of four biases the last belongs to the recurrent product.
        last = b[:, 3 * size :] if b.shape[1] > 3 * size else None
        return _Weights(w, r, b, [(0, _HALF), (1, _HALF), (2, _ONE)], last)
    return _Weights(w, r, b, [(0, _ONE)])


class _Sequence:
    def __init__(self, op: Any, weights: _Weights, cell: _Cell) -> None:
        self._states: int = op.states
        self._backwards = [op.direction == "reverse" or number == 1 for number in range(len(weights.w))]
        self._weights = weights
        self._cell = cell

    def __call__(self, *inputs: Array) -> tuple[Array, ...] | None:
        x, *states = inputs[: 1 + self._states]
        batch, steps, width = x.shape
        if not batch or not steps or (inputs[1 + self._states] != steps).any():
            return None
        weights = self._weights
        count, gates, hidden, _ = weights.r.shape
        rows = x.transpose(1, 0, 2).reshape(steps * batch, width)
        parts = scratch("inputs' parts", steps, count, gates, batch, hidden)
        every = scratch("hidden states", steps, count, batch, hidden)
        product = scratch("products", steps * batch, gates * hidden)
        last = [np.array(state.transpose(1, 0, 2), order="C") for state in states]
        for index, is_backwards in enumerate(self._backwards):
            np.matmul(rows, weights.w[index], out=product)
            ordered = product.reshape(steps, batch, gates, hidden).transpose(0, 2, 1, 3)
            np.add(ordered[::-1] if is_backwards else ordered, weights.b[index], out=parts[:, index])
        at_once = count if weights.r.nbytes <= _MAX_BYTES_OF_DIRECTIONS else 1
        for start in range(0, count, at_once):
            directions = slice(start, start + at_once)
            bias = None if weights.last is None else weights.last[directions]
            own = [state[directions] for state in last]
            self._cell(parts[:, directions], own, weights.r[directions], bias, every[:, directions])
        out = np.empty((batch, count, steps, hidden), np.float32)
        for index, is_backwards in enumerate(self._backwards):
            ordered = every[:, index]
            out[:, index] = (ordered[::-1] if is_backwards else ordered).transpose(1, 0, 2)
        return (out, *(np.ascontiguousarray(state.transpose(1, 0, 2)) for state in last))


def _lstm(parts: Array, states: Sequence[Array], r: Array, _: Array | None, out: Array) -> None:
    hidden, cell = states
    gates = np.empty(parts.shape[1:], np.float32)
    soft, (forget, into, outwards, new) = gates[:, :3], (gates[:, gate] for gate in range(4))
    spare = np.empty(cell.shape, np.float32)
    before = hidden
    for part, after in zip(parts, out):
        np.matmul(before[:, None], r, out=gates)
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


def _gru(parts: Array, states: Sequence[Array], r: Array, last: Array | None, out: Array) -> None:
    (hidden,) = states
    assert last is not None
    gates = np.empty(parts.shape[1:], np.float32)
    soft, (update, reset, new) = gates[:, :2], (gates[:, gate] for gate in range(3))
    before = hidden
    for part, after in zip(parts, out):
        np.matmul(before[:, None], r, out=gates)
        np.add(soft, part[:, :2], out=soft)
        np.tanh(soft, out=soft)
        np.multiply(soft, _HALF, out=soft)
        np.add(soft, _HALF, out=soft)
        np.add(new, last, out=new)
        np.multiply(new, reset, out=new)
        np.add(new, part[:, 2], out=new)
        np.tanh(new, out=new)
        _mix(before, new, update, after)
        before = after
    hidden[...] = before


def _gru_reset_first(parts: Array, states: Sequence[Array], r: Array, _: Array | None, out: Array) -> None:
    (hidden,) = states
    both, last = r[:, :2], r[:, 2]
    soft = np.empty((len(hidden), 2, *hidden.shape[1:]), np.float32)
    update, reset = soft[:, 0], soft[:, 1]
    reset_state, new = np.empty((2, *hidden.shape), np.float32)
    before = hidden
    for part, after in zip(parts, out):
        np.matmul(before[:, None], both, out=soft)
        np.add(soft, part[:, :2], out=soft)
        np.tanh(soft, out=soft)
        np.multiply(soft, _HALF, out=soft)
        np.add(soft, _HALF, out=soft)
        np.multiply(before, reset, out=reset_state)
        np.matmul(reset_state, last, out=new)
        np.add(new, part[:, 2], out=new)
        np.tanh(new, out=new)
        _mix(before, new, update, after)
        before = after
    hidden[...] = before


def _mix(before: Array, new: Array, update: Array, out: Array) -> None:
    """(1 - update) new + update before."""
    np.subtract(before, new, out=out)
    np.multiply(out, update, out=out)
    np.add(out, new, out=out)


def _rnn(parts: Array, states: Sequence[Array], r: Array, _: Array | None, out: Array) -> None:
    (hidden,) = states
    before = hidden
    for part, after in zip(parts, out):
        np.matmul(before, r[:, 0], out=after)
        np.add(after, part[:, 0], out=after)
        np.tanh(after, out=after)
        before = after
    hidden[...] = before
