"""Linear attention of onnxruntime's language models: recurrences whose state is a matrix for each head.

Letters in shapes: l steps, b batches, t tokens of all batches, h heads of the state, g queries that read each state,
k numbers of a query or key, v numbers of a value.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
https://onnx.ai/onnx/operators/onnx__LinearAttention.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Dimension
from ir_runtime.operations.activation import SoftPlus4
from ir_runtime.records import record
from ir_runtime.rewriting.expressions import Expression, concat, loop, where

from .packed_tokens import Rows

_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Update rule -> if the state decays, and if a value replaces the one that the key retrieves."""


@onnx_op("LinearAttentionGate", versions=(1,), domain=MICROSOFT)
def linear_attention_gate(
    ctx: Context, a: Expression, dt_bias: Expression, decay_scale: Expression, b: Expression | None = None
) -> list[Expression]:
    """decay_scale softplus(a + dt_bias), which is rounded to a's type once, and sigmoid(b)."""
    decay = ((a.as_type("f32") + dt_bias).emit(SoftPlus4()) * decay_scale).as_type(a.element_type)
    if b is not None:
        return [decay, b.sigmoid()]
    if ctx.wants(1):
        raise ctx.invalid("the output beta requires the input b, which is missing")
    return [decay]


# --- the gated delta rule, with one decay for each head ---


def _gated_delta_rule(
    query: Expression,
    key: Expression,
    value: Expression,
    decay: Expression | None,
    beta: Expression,
    state: Expression,
    scale: float,
) -> list[Expression]:
    """Return the outputs ``[b, h, l, v]`` and the last state ``[b, h, k, v]``.

    ``query`` and ``key`` are ``[b, h, l, k]``, ``value`` is ``[b, h, l, v]``, the logarithm of the ``decay`` and
    ``beta`` are ``[b, h, l]``. A ``scale`` of 0 is the inverse square root of k.

    OpenVINO's pass FuseGDNLoop replaces a Loop with these ports and this body by one GatedDeltaNet layer:
    https://github.com/openvinotoolkit/openvino/blob/master/src/common/transformations/src/transformations/common_optimizations/fuse_gated_delta_net.cpp
    """
    if decay is None:
        decay = beta.of(0.0).broadcast(*beta.sizes())
    scaled = query * scale if scale else query / query.size(3).as_type("f32").power(0.5)

    def step(
        number: Expression,
        query: Expression,
        key: Expression,
        value: Expression,
        decay: Expression,
        beta: Expression,
        before: Expression,
        outputs: Expression,
    ) -> list[Expression]:
        faded = before * decay.exp().unsqueeze(-1)
        key = key.squeeze(2).unsqueeze(-1)
        change = (value.squeeze(2) - (faded * key).sum(-2)) * beta
        after = faded + key * change.unsqueeze(-2)
        output = (after * query.squeeze(2).unsqueeze(-1)).sum(-2, keep_dims=True)
        return [after, outputs.replace(number.unsqueeze(0), output, 2)]

    outputs = value.of(0.0).broadcast(*value.sizes())
    sliced = [scaled, key, value, decay, beta]
    return loop(value.size(2), [state, outputs], step, sliced, axis=2, order=(1, 0))


# --- the recurrence of all rules ---


@record
class _Steps:
    """The rows that a recurrence reads in float32, one for each step."""

    query: Expression
    """``[l, b, h, g, k]``"""
    key: Expression
    """``[l, b, h, k]``"""
    value: Expression
    """``[l, b, h, v]``"""
    decay: Expression | None
    """``[l, b, h, 1]`` or ``[l, b, h, k]``: the factor of the state; None for 1."""
    beta: Expression | None
    """``[l, b, h, 1]``: the rate of the updates; None where a value is added without retrieving the old one."""
    active: Expression | None = None
    """``[l, b]``: whether the step belongs to the sequence; None where all sequences have the same length."""


def _recurrence(
    steps: _Steps, state: Expression, scale: float | Expression, with_updates: bool = False
) -> list[Expression]:
    """The outputs ``[l, b, h, g, v]`` and the last state ``[b, h, k, v]``, and ``[l, b, h, v]`` what keys add to it.

    S' = decay S + key (beta (value - decay S key)), output = scale query S'.
    """

    def step(number: Expression, before: Expression) -> Sequence[Expression]:
        key, value = (values.gather(number).unsqueeze(2) for values in (steps.key, steps.value))
        faded = before if steps.decay is None else before * steps.decay.gather(number).unsqueeze(3)
        if steps.beta is not None:
            value = (value - key.matmul(faded)) * steps.beta.gather(number).unsqueeze(3)
        after = faded + key.matmul(value, transpose_a=True)
        output = steps.query.gather(number).matmul(after) * scale
        if steps.active is not None:
            after = where(steps.active.gather(number).unsqueeze(1, 2, 3), after, before)
        return [after, output, *([value.squeeze(2)] if with_updates else [])]

    last, outputs, *updates = loop(steps.key.size(0), [state], step)
    return [outputs, last, *updates]


def _rule(
    ctx: Context, name: str, decay: Expression | None, beta: Expression | None
) -> tuple[Expression | None, Expression | None]:
    """The inputs that the update rule uses."""
    decays, retrieves = _RULES[name]
    for needed, value, role in ((decays, decay, "decay"), (retrieves, beta, "beta")):
        if needed and value is None:
            raise ctx.invalid(f"the update rule {name!r} requires the input {role}, which is missing")
    return decay if decays else None, beta if retrieves else None


def _heads_of_keys(ctx: Context, query: Expression, key: Expression, queries: int, heads: int) -> int | None:
    """Return the number of heads of keys: that of the values, or fewer where values share keys; None if unknown."""
    query_width, key_width = (ctx.declared(values.value).shape[2] for values in (query, key))
    if not query_width.is_static or not key_width.is_static or not query_width.value:
        return None
    count = key_width.value * queries // query_width.value
    if not count or heads % count:
        raise ctx.invalid(f"the number of heads of keys, {count}, must divide kv_num_heads, which is {heads}")
    return count


def _is_per_head(ctx: Context, decay: Expression | None, heads: int) -> bool:
    """True if the last dimension of ``decay`` has one element for each head."""
    if decay is None:
        return True
    shape = ctx.declared(decay.value).shape
    return shape.has_rank and shape[-1] == Dimension(heads, heads)


def _group(ctx: Context, query: Expression, queries: int, heads: int) -> Expression:
    """The queries ``[l, b, n, k]`` of each of the heads ``[l, b, h, g, k]``; several heads may share a query."""
    if queries % heads and heads % queries:
        raise ctx.invalid(f"of {queries} heads of queries and {heads} heads of values one must divide the other")
    steps, batches, _, width = query.sizes()
    if queries >= heads:
        return query.reshape(steps, batches, heads, queries // heads, width)
    return _repeat(query, heads // queries).unsqueeze(3)


def _repeat(x: Expression, times: int | Expression) -> Expression:
    """Repeat each head of ``[l, b, n, k]`` several times in a row."""
    if times == 1 or (isinstance(times, Expression) and times.elements() == [1]):
        return x
    *outer, heads, width = x.sizes()
    return x.unsqueeze(3).broadcast(*outer, heads, times, width).reshape(*outer, heads * times, width)


def _scale(scale: float, query: Expression) -> float | Expression:
    """The scale of outputs, by default the inverse square root of the numbers of a query."""
    return scale if scale else query.size(-1).as_type("f32").sqrt().of(1.0) / query.size(-1).as_type("f32").sqrt()


# --- the operators ---


@onnx_op("LinearAttention", versions=(27,), without=("state_window",))
@onnx_op("LinearAttention", versions=(1,), domain=MICROSOFT)
def linear_attention(
    ctx: Context,
    query: Expression,
    key: Expression,
    value: Expression,
    past_state: Expression | None = None,
    decay: Expression | None = None,
    beta: Expression | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    state_window: int = 0,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "gated_delta",
) -> list[Expression]:
    """The attention of heads packed into the last dimension ``[b, l, n k]``, and the last state ``[b, h, k, v]``."""
    if state_window:
        raise ctx.unsupported("the states of several steps (state_window) are not supported")
    element_type, heads = query.element_type, kv_num_heads
    for name, values, count in (("q_num_heads", query, q_num_heads), ("kv_num_heads", value, heads)):
        if count < 1 or (values.value.shape[2].is_static and values.value.shape[2].value % count):
            raise ctx.invalid(f"{name} must divide the last dimension of {values.value.shape}, but is {count}")
    decay, beta = _rule(ctx, update_rule, decay, beta)

    def heads_of(packed: Expression, count: int) -> Expression:
        batches, length, width = packed.sizes()
        return packed.as_type("f32").reshape(batches, length, count, width // count)

    key_heads = _heads_of_keys(ctx, query, key, q_num_heads, heads)
    query, value = heads_of(query, q_num_heads), heads_of(value, heads)
    if key_heads is None:
        number = key.size(2) // query.size(3)
        key = key.as_type("f32").reshape(*query.sizes()[:2], number, query.size(3))
        key = _repeat(key, number.of(heads) // number)
    else:
        key = _repeat(heads_of(key, key_heads), heads // key_heads)
    batches, length, _, width = key.sizes()
    if past_state is None:
        state, state_type = key.of(0.0).broadcast(batches, heads, width, value.size(3)), element_type
    else:
        state, state_type = past_state.as_type("f32"), past_state.element_type
    if beta is not None and heads % q_num_heads == 0 and _is_per_head(ctx, decay, heads):
        query = _repeat(query, heads // q_num_heads)
        query, key, value = (values.transpose(0, 2, 1, 3) for values in (query, key, value))
        decay = None if decay is None else decay.as_type("f32").transpose(0, 2, 1)
        beta = beta.as_type("f32").transpose(0, 2, 1).broadcast(batches, heads, length)
        outputs, last = _gated_delta_rule(query, key, value, decay, beta, state, scale)
        outputs = outputs.transpose(0, 2, 1, 3)
    else:
        query, key, value = (values.transpose(1, 0, 2, 3) for values in (query, key, value))
        steps = _Steps(
            query=_group(ctx, query, q_num_heads, heads),
            key=key,
            value=value,
            decay=None if decay is None else heads_of(decay, heads).transpose(1, 0, 2, 3).exp(),
            beta=None if beta is None else beta.as_type("f32").transpose(1, 0, 2).unsqueeze(3),
        )
        outputs, last = _recurrence(steps, state, _scale(scale, query))
        outputs = outputs.transpose(1, 0, 2, 3, 4)
    packed = outputs.reshape(batches, length, max(q_num_heads, heads) * value.size(3))
    return [packed.as_type(element_type), last.as_type(state_type)]


@onnx_op("GatedDeltaNet", versions=(1,), domain=MICROSOFT)
def gated_delta_net(
    ctx: Context,
    query: Expression,
    key: Expression | None = None,
    value: Expression | None = None,
    cu_seqlens: Expression | None = None,
    decay: Expression | None = None,
    beta: Expression | None = None,
    initial_state: Expression | None = None,
    a_log: Expression | None = None,
    dt_bias: Expression | None = None,
    capture_count: Expression | None = None,
    state_update_active: Expression | None = None,
    *,
    beta_activation: Literal["none", "sigmoid"] = "none",
    chunk_size: int = 64,
    gate_activation: Literal["none", "softplus", "qwen", "sigmoid", "kda"] = "none",
    gate_lower_bound: float = -5.0,
    qk_l2_norm: int = 0,
    scale: float = 0.0,
    state_update_capacity: int = 0,
    update_rule: Literal["linear", "gated", "delta", "gated_delta"] = "gated_delta",
) -> list[Expression]:
    """The attention of tokens ``[t, n, k]`` or ``[b, l, n, k]``, and the last states ``[b, h, v, k]``.

    ``cu_seqlens`` tells where the tokens of each sequence start; without it all sequences have the same length. With a
    ``state_update_capacity`` also what the first steps of each sequence did to the state: decays, keys and what they
    were multiplied with.
    """
    element_type = query.element_type
    if key is None or value is None:
        query, key, value = _unpack(ctx, query, initial_state)
    *outer, heads, value_size = value.sizes()
    decay, beta = _rule(ctx, update_rule, decay, beta)
    tokens = [value_.as_type("f32").reshape(-1, *value_.sizes()[-2:]) for value_ in (query, key, value)]
    if qk_l2_norm:
        tokens[:2] = [value_ / ((value_ * value_).sum(-1, keep_dims=True) + 1e-6).sqrt() for value_ in tokens[:2]]
    if beta is not None:
        rate = beta.as_type("f32").reshape(-1, heads, 1)
        beta = rate.sigmoid() if beta_activation == "sigmoid" else rate
    if decay is not None:
        logarithm = decay.as_type("f32").reshape(tokens[0].size(0), heads, -1)
        decay = _decay(ctx, logarithm, gate_activation, a_log, dt_bias, gate_lower_bound)
    rows = Rows.of(ctx, tokens[2], cu_seqlens, initial_state)
    query, key, value = map(rows.split, tokens)
    times, own_key = heads // key.size(2), key
    query, key = (_repeat(values, times) for values in (query, key))
    decay, beta = (None if values is None else rows.split(values) for values in (decay, beta))
    if initial_state is None:
        state = value.of(0.0).broadcast(value.size(1), heads, key.size(3), value.size(3))
    else:
        state = initial_state.transpose(0, 1, 3, 2)
    if beta is not None and _is_per_head(ctx, decay, 1) and rows.active is None and not state_update_capacity:
        query, key, value = (values.transpose(1, 2, 0, 3) for values in (query, key, value))
        decay, beta = (None if values is None else values.squeeze(3).transpose(1, 2, 0) for values in (decay, beta))
        assert beta is not None
        outputs, last = _gated_delta_rule(query, key, value, decay, beta, state, scale)
        outputs = outputs.transpose(2, 0, 1, 3)
    else:
        decay = None if decay is None else decay.exp()
        steps = _Steps(query=query.unsqueeze(3), key=key, value=value, decay=decay, beta=beta, active=rows.active)
        with_updates = state_update_capacity > 0
        outputs, last, *updates = _recurrence(steps, state, _scale(scale, key), with_updates)
        outputs = outputs.squeeze(3)
    joined = rows.join(outputs).reshape(*outer, heads, value_size)
    results = [joined.as_type(element_type), last.transpose(0, 1, 3, 2)]
    if not state_update_capacity:
        return results
    if capture_count is None:
        raise ctx.invalid("state_update_capacity requires the input capture_count, which is missing")
    parts = [
        decay if decay is not None else value.of(1.0).broadcast(*value.sizes()[:3], 1),
        own_key,
        *updates,
    ]
    captured = capture_count.as_type("i64") > capture_count.of(np.arange(state_update_capacity), "i64").unsqueeze(1)
    if state_update_active is not None:
        captured = captured & ~state_update_active.equal(0)
    return [*results, concat([_first_steps(part, captured, state_update_capacity) for part in parts], 1)]


def _first_steps(part: Expression, captured: Expression, count: int) -> Expression:
    """The first steps of ``[l, b, n, k]`` as rows ``[b, count n k]``, with zeros where they are not captured."""
    _, batches, *rest = part.sizes()
    first = concat([part, part.of(0.0).broadcast(count, batches, *rest)], 0).cut(0, 0, count)
    return where(captured.unsqueeze(2, 3), first, 0.0).transpose(1, 0, 2, 3).reshape(batches, -1)


def _unpack(ctx: Context, packed: Expression, state: Expression | None) -> tuple[Expression, Expression, Expression]:
    """Queries, keys and values of ``[t, 2 n k + h v]``; the state tells their numbers."""
    if state is None:
        raise ctx.invalid("packed queries, keys and values require the input initial_state, which is missing")
    _, heads, wide, width = state.sizes()
    values = heads * wide
    both = packed.size(-1) - values
    half = both // 2
    parts = packed.cut(-1, 0, half), packed.cut(-1, half, both), packed.cut(-1, both)
    outer = packed.sizes()[:-1]
    query, key, value = (part.reshape(*outer, -1, size) for part, size in zip(parts, (width, width, wide)))
    return query, key, value


def _decay(
    ctx: Context, raw: Expression, activation: str, a_log: Expression | None, bias: Expression | None, bound: float
) -> Expression:
    """The logarithms of the decay ``[t, h, 1]`` or ``[t, h, k]``."""
    if activation == "none":
        return raw
    if a_log is None or bias is None:
        raise ctx.invalid(f"the gate activation {activation!r} requires the inputs a_log and dt_bias")
    rate = a_log.exp().reshape(-1, 1)
    shifted = raw + bias.reshape(rate.size(0), -1)
    if activation in ("softplus", "qwen"):
        return -rate * shifted.emit(SoftPlus4())
    return (rate * shifted).sigmoid() * bound
