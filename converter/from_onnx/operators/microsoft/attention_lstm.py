"""onnxruntime's LSTM that attends to a memory after every step (Bahdanau et al., https://arxiv.org/abs/1409.0473).

Letters in shapes: l steps, b batches, h hidden numbers, t steps of the memory, d numbers of each, a of the attention.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.AttnLSTM
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.rewriting.expressions import Expression, concat, loop, positions, where

_ACTIVATIONS = ["sigmoid", "tanh", "tanh"]
_DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@onnx_op("AttnLSTM", domain=MICROSOFT, versions=(1,))
def attention_lstm(
    ctx: Context,
    x: Expression,
    w: Expression,
    r: Expression,
    b: Expression | None = None,
    sequence_lens: Expression | None = None,
    initial_h: Expression | None = None,
    initial_c: Expression | None = None,
    p: Expression | None = None,
    qw: Expression | None = None,
    mw: Expression | None = None,
    v: Expression | None = None,
    m: Expression | None = None,
    memory_seq_lens: Expression | None = None,
    aw: Expression | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: Literal["forward", "reverse", "bidirectional"] = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> list[Expression]:
    """The hidden states ``[l, directions, b, h]``, and the last hidden and cell states ``[directions, b, h]``.

    Each step reads its input and the attention of the step before: the memory ``m`` ``[b, t, d]`` weighted by the
    softmax of v tanh(m mw + h qw), and with ``aw`` [h, weighted memory] times that.
    """
    backwards = _DIRECTIONS[direction]
    names = [name.lower() for name in activations or ()] or _ACTIVATIONS * len(backwards)
    if names != _ACTIVATIONS * len(backwards) or activation_alpha or activation_beta or clip:
        raise ctx.unsupported("activations other than Sigmoid, Tanh and Tanh, and clip, are not supported")
    if qw is None or mw is None or v is None or m is None:
        raise ctx.invalid("the inputs QW, MW, V and M of the attention are required, but one is missing")
    lengths = None if sequence_lens is None else sequence_lens.as_type("i64")
    mask = None
    if memory_seq_lens is not None:
        mask = positions(m.size(1)) < memory_seq_lens.as_type("i64").unsqueeze(1)
    results = []
    for number, is_backward in enumerate(backwards):
        # The parts of a direction.
        own_w, own_r, own_qw, own_mw, own_v = (value.gather(number) for value in (w, r, qw, mw, v))
        own_b, own_p, own_aw, h, c = (
            None if value is None else value.gather(number) for value in (b, p, aw, initial_h, initial_c)
        )
        cell = _Cell(own_w, own_r, own_b, own_p, bool(input_forget))
        attention = _Attention(own_qw, own_mw, own_v, m, mask, own_aw, cell.hidden)
        order = None if not is_backward else _backwards(x, lengths)
        steps = x if order is None else _order(x, order)
        hidden, state, last = _run(steps, cell, attention, h, c, lengths)
        results.append([hidden if order is None else _order(hidden, order), state, last])
    return [concat([part.unsqueeze(axis) for part in parts], axis) for parts, axis in zip(zip(*results), (1, 0, 0))]


class _Cell:
    """An LSTM cell with the gates i, o, f and c, in this order."""

    def __init__(
        self, w: Expression, r: Expression, b: Expression | None, p: Expression | None, input_forget: bool
    ) -> None:
        self._w, self._r, self._input_forget = w, r, input_forget
        self.hidden = r.size(1)
        self._bias = None if b is None else b.reshape(2, -1).sum(0)
        self._peepholes = None if p is None else p.split(3, 0)

    def step(self, x: Expression, h: Expression, c: Expression) -> tuple[Expression, Expression]:
        gates = x.matmul(self._w, transpose_b=True) + h.matmul(self._r, transpose_b=True)
        i, o, f, g = (gates if self._bias is None else gates + self._bias).split(4, 1)
        if self._peepholes is not None:
            i, f = i + self._peepholes[0] * c, f + self._peepholes[2] * c
        i = i.sigmoid()
        c = (1.0 - i if self._input_forget else f.sigmoid()) * c + i * g.tanh()
        o = o if self._peepholes is None else o + self._peepholes[1] * c
        return o.sigmoid() * c.tanh(), c


class _Attention:
    """The attention to a memory, whose keys are computed once."""

    def __init__(
        self,
        qw: Expression,
        mw: Expression,
        v: Expression,
        memory: Expression,
        mask: Expression | None,
        aw: Expression | None,
        hidden: Expression,
    ) -> None:
        self._qw, self._v, self._memory, self._mask = qw, v, memory, mask
        self._keys = memory.matmul(mw)
        self._parts = None if aw is None else (aw.cut(0, 0, hidden), aw.cut(0, hidden))
        self.size = memory.size(2) if aw is None else aw.size(1)

    def of(self, h: Expression) -> Expression:
        scores = (self._v * (self._keys + h.matmul(self._qw).unsqueeze(1)).tanh()).sum(2)
        if self._mask is not None:
            scores = where(self._mask, scores, -np.inf)
        weights = (scores - scores.max(1, keep_dims=True)).exp()
        weights = weights / weights.sum(1, keep_dims=True)
        context = weights.unsqueeze(1).matmul(self._memory).squeeze(1)
        return context if self._parts is None else h.matmul(self._parts[0]) + context.matmul(self._parts[1])


def _run(
    x: Expression,
    cell: _Cell,
    attention: _Attention,
    initial_h: Expression | None,
    initial_c: Expression | None,
    lengths: Expression | None,
) -> list[Expression]:
    """Return the hidden states ``[l, b, h]``, 0 behind the length of a row, and the last hidden and cell states."""
    count, batch = x.size(0), x.size(1)

    def zeros(size: Expression) -> Expression:
        return x.of(0.0).broadcast(batch, size)

    h = zeros(cell.hidden) if initial_h is None else initial_h
    c = zeros(cell.hidden) if initial_c is None else initial_c

    def step(number: Expression, h: Expression, c: Expression, a: Expression) -> list[Expression]:
        new_h, new_c = cell.step(concat([x.gather(number), a], 1), h, c)
        new_a = attention.of(new_h)
        if lengths is None:
            return [new_h, new_c, new_a, new_h]
        is_inside = (number < lengths).unsqueeze(1)
        return [where(is_inside, new_h, h), where(is_inside, new_c, c), new_a, where(is_inside, new_h, 0.0)]

    last_h, last_c, _, hidden = loop(count, [h, c, zeros(attention.size)], step)
    return [hidden, last_h, last_c]


def _backwards(x: Expression, lengths: Expression | None) -> Expression:
    """Return the places ``[l, b]`` of the steps in the other order; those behind the length of a row stay."""
    number = positions(x.size(0)).unsqueeze(1)
    if lengths is None:
        return x.size(0) - 1 - number + number.of(0).broadcast(1, x.size(1))
    return where(number < lengths, lengths - 1 - number, number)


def _order(x: Expression, order: Expression) -> Expression:
    return x.gather_elements(order.unsqueeze(2).broadcast(*x.sizes()), 0)
