"""Recurrent sequences of known dimensions: every step's calls made once, both directions in each of them.

The weights are those of the kernel for any shapes: halved where a sigmoid follows, which is then (1 + tanh) / 2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ir_runtime.execution.kernels.recurrent import Arranged, arranged
from ir_runtime.graph import Array, Node
from ir_runtime.operations.recurrent import GRUSequence5, LSTMSequence5, RNNSequence5

from .binding import Binding, Call, as_matrix, binder

_MAX_STEPS = 256
"""Longer sequences are left to the kernel for any shapes: the calls of each step take memory."""
_HALF = np.float32(0.5)


@binder(LSTMSequence5, GRUSequence5, RNNSequence5)
def sequence(node: Node, b: Binding) -> list[Call] | None:
    op: Any = node.op
    arrays = b.all_arrays(node.inputs[: 1 + op.states])
    lengths = b.constant(node.inputs[1 + op.states])
    if arrays is None or lengths is None:
        return None
    x, *states = arrays
    batch, steps, width = x.shape
    if not batch or not 0 < steps <= _MAX_STEPS or not width or (lengths != steps).any():
        return None
    directions = arranged(node, b.site.constants)
    if directions is None or (isinstance(op, GRUSequence5) and not op.linear_before_reset and len(directions) > 2):
        return None
    hidden = states[0].shape[-1]
    count = len(directions)
    backwards = [op.direction == "reverse" or number == 1 for number in range(count)]
    calls: list[Call] = []
    parts = _inputs_parts(x, directions, backwards, calls, b)
    recurrent = np.stack([one.r for one in directions])
    # [steps, directions, batch, hidden]
    every = b.scratch((steps, count, batch, hidden))
    held = [b.scratch((count, batch, hidden)) for _ in states]
    for target, state in zip(held, states):
        calls.append(partial(np.copyto, target, state.transpose(1, 0, 2)))
    if isinstance(op, LSTMSequence5):
        _lstm(parts, held, recurrent, every, calls, b)
    elif isinstance(op, GRUSequence5):
        last = [one.last for one in directions]
        _gru(parts, held, recurrent, None if last[0] is None else np.stack(last)[:, None], every, calls, b)  # type: ignore[arg-type]
    else:
        _rnn(parts, held, recurrent, every, calls)
    _outputs(node, held, every, backwards, calls, b)
    return calls


def _inputs_parts(x: Array, directions: list[Arranged], backwards: list[bool], calls: list[Call], b: Binding) -> Array:
    """The products of the inputs with their weights for every step: ``[steps, directions, batch, gates]``, in the order
    in which each direction takes the steps."""
    batch, steps, width = x.shape
    gates = directions[0].w.shape[1]
    parts = b.scratch((steps, len(directions), batch, gates))
    rows = x.transpose(1, 0, 2)
    if as_matrix(rows) is None:
        copied = b.scratch((steps, batch, width))
        calls.append(partial(np.copyto, copied, rows))
        rows = copied
    flat = as_matrix(rows)
    assert flat is not None
    made = b.scratch((steps * batch, gates))
    for number, (one, is_backwards) in enumerate(zip(directions, backwards)):
        calls.append(partial(np.matmul, flat, one.w, out=made))
        seen = made.reshape(steps, batch, gates)
        calls.append(partial(np.add, seen[::-1] if is_backwards else seen, one.b, parts[:, number]))
    return parts


def _outputs(node: Node, held: list[Array], every: Array, backwards: list[bool], calls: list[Call], b: Binding) -> None:
    out = b.new(node.outputs[0])
    for number, is_backwards in enumerate(backwards):
        made = every[:, number]
        calls.append(partial(np.copyto, out[:, number], (made[::-1] if is_backwards else made).transpose(1, 0, 2)))
    for output, state in zip(node.outputs[1:], [every[-1], *held[1:]]):
        calls.append(partial(np.copyto, b.new(output), state.transpose(1, 0, 2)))


def _lstm(parts: Array, held: list[Array], recurrent: Array, every: Array, calls: list[Call], b: Binding) -> None:
    before, cell = held
    count, batch, size = cell.shape
    gates = b.scratch((count, batch, 4 * size))
    soft, new = gates[..., : 3 * size], gates[..., 3 * size :]
    forget, into, outwards = (gates[..., i * size : (i + 1) * size] for i in range(3))
    spare = b.scratch(cell.shape)
    every_step = [
        partial(np.tanh, gates, gates),
        partial(np.multiply, soft, _HALF, soft),
        partial(np.add, soft, _HALF, soft),
        partial(np.multiply, cell, forget, cell),
        partial(np.multiply, new, into, new),
        partial(np.add, cell, new, cell),
        partial(np.tanh, cell, spare),
    ]
    for part, after in zip(parts, every):
        calls += [partial(np.matmul, before, recurrent, out=gates), partial(np.add, gates, part, gates)]
        calls += every_step
        calls.append(partial(np.multiply, spare, outwards, after))
        before = after


def _gru(
    parts: Array, held: list[Array], recurrent: Array, last: Array | None, every: Array, calls: list[Call], b: Binding
) -> None:
    """With ``last``, the recurrent bias of the new state, the reset gate comes after the recurrent product."""
    before = held[0]
    count, batch, size = before.shape
    gates = b.scratch((count, batch, (3 if last is not None else 2) * size))
    soft = gates[..., : 2 * size]
    update, reset = gates[..., :size], gates[..., size : 2 * size]
    new = gates[..., 2 * size :] if last is not None else b.scratch(before.shape)
    kept = b.scratch(before.shape)
    both, rest = np.ascontiguousarray(recurrent[..., : 2 * size]), np.ascontiguousarray(recurrent[..., 2 * size :])
    halves = [partial(np.tanh, soft, soft), partial(np.multiply, soft, _HALF, soft), partial(np.add, soft, _HALF, soft)]
    for part, after in zip(parts, every):
        first, second = part[..., : 2 * size], part[..., 2 * size :]
        calls.append(partial(np.matmul, before, recurrent if last is not None else both, out=gates))
        calls += [partial(np.add, soft, first, soft), *halves]
        if last is not None:
            calls += [partial(np.add, new, last, new), partial(np.multiply, new, reset, new)]
        else:
            calls += [partial(np.multiply, before, reset, kept), partial(np.matmul, kept, rest, out=new)]
        # (1 - update) new + update before
        calls += [
            partial(np.add, new, second, new),
            partial(np.tanh, new, new),
            partial(np.subtract, before, new, after),
            partial(np.multiply, after, update, after),
            partial(np.add, after, new, after),
        ]
        before = after


def _rnn(parts: Array, held: list[Array], recurrent: Array, every: Array, calls: list[Call]) -> None:
    before = held[0]
    for part, after in zip(parts, every):
        calls += [
            partial(np.matmul, before, recurrent, out=after),
            partial(np.add, after, part, after),
            partial(np.tanh, after, after),
        ]
        before = after
