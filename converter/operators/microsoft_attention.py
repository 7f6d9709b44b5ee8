"""onnxruntime's attention: Attention, MultiHeadAttention, GroupQueryAttention and RotaryEmbedding.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
What may not be attended to is said by numbers that are added to the scores before Softmax.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from converter.context import Context
from converter.exact_integers import in_type
from converter.registry import onnx_op
from ir_runtime import element_types
from ir_runtime.graph import Output
from ir_runtime.operations import activation, elementwise, indexing, matmul, movement, padding, slicing

from .matmul import product_of
from .microsoft_fused import MICROSOFT, needed, simplified_layer_normalization
from .shapes import counted, extent, joined

FILTER = -10000.0
"""What is added where a mask forbids, unless the node says otherwise."""
_LOWEST = {element_types.f16: -65504.0}


# --- small pieces ---


def _add(ctx: Context, a: Output, b: Output | None) -> Output:
    return a if b is None else ctx.emit(elementwise.Add1(), a, b)


def _multiply(ctx: Context, a: Output, b: Output) -> Output:
    return ctx.emit(elementwise.Multiply1(), a, b)


def _subtract(ctx: Context, a: Output, b: Output) -> Output:
    return ctx.emit(elementwise.Subtract1(), a, b)


def _reshape(ctx: Context, x: Output, shape: Sequence[int]) -> Output:
    """0 keeps an extent."""
    return ctx.emit(movement.Reshape1(special_zero=True), x, ctx.constant(list(shape)))


def _unsqueeze(ctx: Context, x: Output, *axes: int) -> Output:
    return ctx.emit(movement.Unsqueeze1(), x, ctx.constant(list(axes)))


def _take(ctx: Context, x: Output, index: int, axis: int) -> Output:
    return ctx.emit(indexing.Gather8(), x, ctx.constant(index), ctx.constant(axis))


def _cut(ctx: Context, x: Output, start: int, stop: int | None, axis: int, step: int = 1) -> Output:
    end = np.iinfo(np.int64).max if stop is None else stop
    return ctx.emit(slicing.Slice8(), x, *(ctx.constant([value]) for value in (start, end, step, axis)))


def _concat(ctx: Context, axis: int, *parts: Output) -> Output:
    return ctx.emit(movement.Concat1(axis=axis), *parts)


def _swap(ctx: Context, x: Output) -> Output:
    """``[b, s, n, h]`` as ``[b, n, s, h]``, and back."""
    return ctx.emit(movement.Transpose1(), x, ctx.constant([0, 2, 1, 3]))


def _heads(ctx: Context, x: Output, count: int, name: str) -> Output:
    """``[b, s, n h]`` as ``[b, n, s, h]``."""
    if ctx.rank(x, name) != 3:
        raise ctx.invalid(f"{name} must have 3 dimensions, but has the shape {x.shape}")
    width = x.shape[2]
    if count < 1 or (width.is_static and width.value % count):
        raise ctx.invalid(f"{name} of the shape {x.shape} cannot be split into {count} heads")
    return _swap(ctx, _reshape(ctx, x, [0, 0, count, -1]))


def _merged(ctx: Context, x: Output) -> Output:
    """``[b, n, s, h]`` as ``[b, s, n h]``."""
    return _reshape(ctx, _swap(ctx, x), [0, 0, -1])


# --- what may be attended to ---


def _forbidden(ctx: Context, allowed: Output, like: Output, value: float) -> Output:
    return ctx.emit(elementwise.Select1(), allowed, ctx.like(0, like), ctx.like(value, like))


def _mask(ctx: Context, mask: Output | None, keys: Output, value: float) -> Output | None:
    """A mask or lengths as what is added to scores ``[b, n, s, t]``; ``keys`` are ``[b, n, t, h]``.

    ``[b, t]`` and ``[b, s, t]`` hold 0 for what is forbidden. ``[b]`` holds the number of keys, ``[2 b]``
    where each row's keys end, and then where they start.
    """
    if mask is None:
        return None
    rank = ctx.rank(mask, "the mask")
    if rank in (2, 3):
        allowed = ctx.emit(elementwise.Greater1(), mask, ctx.like(0, mask))
        return _forbidden(ctx, _unsqueeze(ctx, allowed, *([1, 2] if rank == 2 else [1])), keys, value)
    if rank != 1:
        raise ctx.unsupported(f"masks of the shape {mask.shape} are not supported")
    batches, entries = keys.shape[0], mask.shape[0]
    if not batches.is_static or not entries.is_static:
        raise ctx.unsupported("lengths as a mask need a known number of batches, to tell their two layouts apart")
    numbers = in_type(ctx, counted(ctx, extent(ctx, keys, 2)), mask.element_type)
    count = batches.value
    ends = _unsqueeze(ctx, _cut(ctx, mask, 0, count, 0), 1)
    allowed = ctx.emit(elementwise.Less1(), numbers, ends)
    if entries.value == 2 * count:
        starts = _unsqueeze(ctx, _cut(ctx, mask, count, None, 0), 1)
        allowed = ctx.emit(elementwise.LogicalAnd1(), allowed, ctx.emit(elementwise.GreaterEqual1(), numbers, starts))
    elif entries.value != count:
        raise ctx.unsupported(f"a mask of {entries.value} lengths for {count} batches is not supported")
    return _forbidden(ctx, _unsqueeze(ctx, allowed, 1, 2), keys, value)


def _causal(ctx: Context, queries: Output, keys: Output) -> Output:
    """For ``[s, t]`` what forbids keys behind the query, of which the last stands at the last key."""
    count, total = extent(ctx, queries, 2), extent(ctx, keys, 2)
    places = _add(ctx, counted(ctx, count), _subtract(ctx, total, count))
    allowed = ctx.emit(elementwise.LessEqual1(), counted(ctx, total), _unsqueeze(ctx, places, 1))
    return _forbidden(ctx, allowed, keys, _lowest(keys))


def _lowest(like: Output) -> float:
    return _LOWEST.get(like.element_type, -3.3e38)


# --- attention itself ---


@dataclass(frozen=True)
class Scores:
    """How scores are made: their scale, a limit that they approach, and what is added to them."""

    scale: float | None = None
    softcap: float = 0.0
    added: tuple[Output, ...] = ()
    sink: Output | None = None
    """``[n]``: a score that takes part in Softmax and stands for nothing."""


def attended(ctx: Context, q: Output, k: Output, v: Output, scores: Scores) -> Output:
    """``[b, n, s, h]`` of queries, ``[b, n, t, h]`` of keys and values to ``[b, s, n h]``."""
    scale = scores.scale
    if not scale:
        if not q.shape[3].is_static:
            raise ctx.unsupported("the size of a head must be known while converting, but is not")
        scale = 1 / math.sqrt(q.shape[3].value)
    made = ctx.emit(matmul.MatMul1(transpose_b=True), q, k)
    made = _multiply(ctx, made, ctx.like(scale, made))
    if scores.softcap:
        limit = ctx.like(scores.softcap, made)
        made = _multiply(ctx, ctx.emit(elementwise.Tanh1(), ctx.emit(elementwise.Divide1(), made, limit)), limit)
    for part in scores.added:
        made = _add(ctx, made, part)
    return _merged(ctx, ctx.emit(matmul.MatMul1(), _shares(ctx, made, scores.sink), v))


def _shares(ctx: Context, scores: Output, sink: Output | None) -> Output:
    softmax = activation.SoftMax8(axis=3)
    if sink is None:
        return ctx.emit(softmax, scores)
    column = ctx.emit(
        movement.Broadcast3(mode="numpy"),
        _reshape(ctx, sink, [1, -1, 1, 1]),
        joined(ctx, [*(extent(ctx, scores, axis) for axis in range(3)), ctx.constant(1)]),
    )
    return _cut(ctx, ctx.emit(softmax, _concat(ctx, 3, scores, column)), 0, -1, 3)


def self_attention(
    ctx: Context,
    projected: Sequence[Output],
    num_heads: int,
    mask: Output | None,
    past: Output | None,
    bias: Output | None,
    scale: float | None,
    filter_value: float | None,
    unidirectional: int,
) -> tuple[Output, Output]:
    """Attention of queries, keys and values ``[b, s, n h]`` with a past ``[2, b, n, p, h]``, and the new past."""
    q, k, v = (_heads(ctx, part, num_heads, name) for part, name in zip(projected, ("query", "key", "value")))
    if past is not None:
        k = _concat(ctx, 2, _take(ctx, past, 0, 0), k)
        v = _concat(ctx, 2, _take(ctx, past, 1, 0), v)
    added = [_mask(ctx, mask, k, FILTER if filter_value is None else filter_value), bias]
    if unidirectional:
        added.append(_causal(ctx, q, k))
    made = attended(ctx, q, k, v, Scores(scale, added=tuple(part for part in added if part is not None)))
    if k.shape[3].merge(v.shape[3]) is None:
        return made, k
    return made, _concat(ctx, 0, _unsqueeze(ctx, k, 0), _unsqueeze(ctx, v, 0))


def _only(ctx: Context, **given: object) -> None:
    """Refuses what only processors other than a CPU do."""
    for name, value in given.items():
        if value:
            raise ctx.unsupported(f"'{name}' is not supported")


@onnx_op("Attention", domain=MICROSOFT, versions=(1,))
def attention(
    ctx: Context,
    x: Output,
    weights: Output,
    bias: Output | None = None,
    mask_index: Output | None = None,
    past: Output | None = None,
    attention_bias: Output | None = None,
    past_sequence_length: Output | None = None,
    *,
    do_rotary: int | None = None,
    mask_filter_value: float | None = None,
    num_heads: int,
    past_present_share_buffer: int | None = None,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int | None = None,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Output, ...]:
    """Attention of ``x``, which is projected to queries, keys and values by ``[i, 3 n h]`` weights."""
    _only(ctx, do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    _only(ctx, past_sequence_length=past_sequence_length)
    whole = _add(ctx, product_of(ctx, x, weights), bias)
    if qkv_hidden_sizes:
        if len(qkv_hidden_sizes) != 3:
            raise ctx.invalid(f"qkv_hidden_sizes must be 3 numbers, but is {list(qkv_hidden_sizes)}")
        lengths = ctx.constant(list(qkv_hidden_sizes))
        parts = ctx.emit_all(slicing.VariadicSplit1(), whole, ctx.constant(2), lengths)
    else:
        parts = thirds(ctx, whole)
    return self_attention(
        ctx, parts, num_heads, mask_index, past, attention_bias, scale, mask_filter_value, unidirectional
    )


def thirds(ctx: Context, whole: Output) -> list[Output]:
    """Queries, keys and values of ``[b, s, 3 n h]``."""
    return ctx.emit_all(slicing.Split1(num_splits=3), whole, ctx.constant(2))


@onnx_op("MultiHeadAttention", domain=MICROSOFT, versions=(1,))
def multi_head_attention(
    ctx: Context,
    query: Output,
    key: Output | None = None,
    value: Output | None = None,
    bias: Output | None = None,
    key_padding_mask: Output | None = None,
    attention_bias: Output | None = None,
    past_key: Output | None = None,
    past_value: Output | None = None,
    past_sequence_length: Output | None = None,
    cache_indirection: Output | None = None,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Output, ...]:
    """Attention of projected queries, keys and values, to which a bias and a past may be added."""
    _only(ctx, past_sequence_length=past_sequence_length, cache_indirection=cache_indirection)
    q, k, v = _queries_keys_values(ctx, query, key, value, bias, num_heads)
    if (past_key is None) != (past_value is None):
        raise ctx.invalid("past_key and past_value must be given together")
    if past_key is not None and past_value is not None:
        k, v = _concat(ctx, 2, past_key, k), _concat(ctx, 2, past_value, v)
    added = [_mask(ctx, key_padding_mask, k, FILTER if mask_filter_value is None else mask_filter_value)]
    added.append(attention_bias)
    if unidirectional:
        added.append(_causal(ctx, q, k))
    made = attended(ctx, q, k, v, Scores(scale, added=tuple(part for part in added if part is not None)))
    return made, k, v


def _queries_keys_values(
    ctx: Context, query: Output, key: Output | None, value: Output | None, bias: Output | None, heads: int
) -> Sequence[Output]:
    """``[b, n, s, h]`` of each, whichever way they are packed."""
    rank = ctx.rank(query, "query")
    if rank == 5 or (key is not None and ctx.rank(key, "key") == 5):
        if bias is not None:
            raise ctx.unsupported("a bias of packed keys is not supported")
        if rank == 5:
            return [_swap(ctx, _take(ctx, query, index, 3)) for index in range(3)]
        packed = needed(ctx, key, "key")
        return [_heads(ctx, query, heads, "query"), *(_swap(ctx, _take(ctx, packed, i, 3)) for i in range(2))]
    key, value = needed(ctx, key, "key"), needed(ctx, value, "value")
    ready = ctx.rank(key, "key") == 4
    parts = [query, key, value]
    if bias is not None:
        widths = [query.shape[2], query.shape[2]]
        if not all(width.is_static for width in widths):
            raise ctx.unsupported("a bias needs a known extent of the queries, to be split")
        lengths = ctx.constant([widths[0].value, widths[0].value, -1])
        biases = ctx.emit_all(slicing.VariadicSplit1(), bias, ctx.constant(0), lengths)
        # Keys that are ready have their bias already.
        parts = [part if ready and i else _add(ctx, part, biases[i]) for i, part in enumerate(parts)]
    if ready:
        return [_heads(ctx, parts[0], heads, "query"), key, value]
    return [_heads(ctx, part, heads, name) for part, name in zip(parts, ("query", "key", "value"))]


# --- rotary embeddings ---


def _angles(ctx: Context, cache: Output, places: Output, heads_at: int) -> Output:
    """What the cache holds for places ``[b, s]`` or ``[s]``, with an extent of 1 for the heads."""
    found = ctx.emit(indexing.Gather8(), cache, places, ctx.constant(0))
    if places.shape.rank == 1:
        found = _unsqueeze(ctx, found, 0)
    return _unsqueeze(ctx, found, heads_at)


def _rotated(ctx: Context, x: Output, cos: Output, sin: Output, half: int, interleaved: bool) -> Output:
    """The first 2 ``half`` numbers of each head as points of a plane, turned; others stay.

    A point's two numbers are neighbours if ``interleaved``, else ``half`` apart.
    """
    if interleaved:
        first, second = (_cut(ctx, x, start, 2 * half, 3, 2) for start in (0, 1))
    else:
        first, second = _cut(ctx, x, 0, half, 3), _cut(ctx, x, half, 2 * half, 3)
    real = _subtract(ctx, _multiply(ctx, first, cos), _multiply(ctx, second, sin))
    imaginary = _add(ctx, _multiply(ctx, second, cos), _multiply(ctx, first, sin))
    if interleaved:
        pairs = _concat(ctx, 4, _unsqueeze(ctx, real, 4), _unsqueeze(ctx, imaginary, 4))
        made = _reshape(ctx, pairs, [0, 0, 0, -1])
    else:
        made = _concat(ctx, 3, real, imaginary)
    width = x.shape[3]
    if width.is_static and width.value == 2 * half:
        return made
    return _concat(ctx, 3, made, _cut(ctx, x, 2 * half, None, 3))


def _half(ctx: Context, cache: Output) -> int:
    if ctx.rank(cache, "cos_cache") != 2 or not cache.shape[1].is_static:
        raise ctx.unsupported(f"cos_cache must have two dimensions, the second known, but is {cache.shape}")
    return cache.shape[1].value


@onnx_op("RotaryEmbedding", domain=MICROSOFT, versions=(1,))
def rotary_embedding(
    ctx: Context,
    x: Output,
    position_ids: Output,
    cos_cache: Output,
    sin_cache: Output,
    *,
    interleaved: int | None = None,
    is_packed_batching: int | None = None,
    num_heads: int | None = None,
    rotary_embedding_dim: int | None = None,
    scale: float | None = None,
) -> Output:
    """``[b, s, n h]`` or ``[b, n, s, h]``, each head turned by the angles of its position.

    ``position_ids`` are ``[b, s]``, or one number that the first position has.
    """
    if scale not in (None, 1.0):
        raise ctx.unsupported("the attribute scale, which onnxruntime's CPU kernel leaves alone, is not supported")
    _only(ctx, is_packed_batching=is_packed_batching)
    half, rank = _half(ctx, cos_cache), ctx.rank(x, "the input")
    if rank not in (3, 4):
        raise ctx.invalid(f"the input must have 3 or 4 dimensions, but has the shape {x.shape}")
    if rotary_embedding_dim and not num_heads and rank == 3:
        raise ctx.invalid("rotary_embedding_dim needs num_heads")
    if rotary_embedding_dim and rotary_embedding_dim != 2 * half:
        raise ctx.invalid(f"rotary_embedding_dim is {rotary_embedding_dim}, but cos_cache has {half} angles")
    data, heads_at, sequence_at = x, 1, 2
    if rank == 3:
        shape = [0, 0, num_heads, -1] if rotary_embedding_dim and num_heads else [0, 0, -1, 2 * half]
        data, heads_at, sequence_at = _reshape(ctx, x, shape), 2, 1
    places = position_ids
    if ctx.rank(position_ids, "position_ids") == 1:
        numbers = in_type(ctx, counted(ctx, extent(ctx, x, sequence_at)), position_ids.element_type)
        places = _add(ctx, numbers, position_ids)
    cos, sin = (_angles(ctx, cache, places, heads_at) for cache in (cos_cache, sin_cache))
    made = _rotated(ctx, data, cos, sin, half, bool(interleaved))
    return made if rank == 4 else _reshape(ctx, made, [0, 0, -1])


# --- grouped queries with a cache ---


@onnx_op("GroupQueryAttention", domain=MICROSOFT, versions=(1,))
def group_query_attention(
    ctx: Context,
    query: Output,
    key: Output | None = None,
    value: Output | None = None,
    past_key: Output | None = None,
    past_value: Output | None = None,
    seqlens_k: Output | None = None,
    total_sequence_length: Output | None = None,
    cos_cache: Output | None = None,
    sin_cache: Output | None = None,
    position_ids: Output | None = None,
    attention_bias: Output | None = None,
    head_sink: Output | None = None,
    k_scale: Output | None = None,
    v_scale: Output | None = None,
    q_norm_weight: Output | None = None,
    k_norm_weight: Output | None = None,
    *,
    causal: int = 1,
    do_rotary: int | None = None,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int | None = None,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_norm_epsilon: float = 9.999999974752427e-07,
    qk_output: int = 0,
    rotary_interleaved: int | None = None,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float | None = None,
    v_quant_type: str = "NONE",
) -> tuple[Output, ...]:
    """Attention in which several heads of the queries share one of the keys, with a cache of the past.

    A row of the batch has ``seqlens_k + 1`` keys; the new ones are the last of those, or all in the first
    step, which is where ``total_sequence_length`` is the number of queries. They are written into the
    cache at their places, which is given back and grows where it has to.
    """
    _only(ctx, sliding_window_cache=sliding_window_cache, qk_output=qk_output, k_scale=k_scale, v_scale=v_scale)
    if (k_quant_type, v_quant_type) != ("NONE", "NONE"):
        raise ctx.unsupported("a quantised cache is not supported")
    if kv_num_heads < 1 or num_heads % kv_num_heads:
        raise ctx.invalid(f"num_heads must be a multiple of kv_num_heads, but they are {num_heads} and {kv_num_heads}")
    q, k, v = _grouped_parts(ctx, query, key, value, num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        q = simplified_layer_normalization(ctx, q, q_norm_weight, epsilon=qk_norm_epsilon)[0]
        k = simplified_layer_normalization(ctx, k, k_norm_weight, epsilon=qk_norm_epsilon)[0]
    steps = _Steps.of(ctx, q, needed(ctx, seqlens_k, "seqlens_k"), needed(ctx, total_sequence_length, "total"))
    if do_rotary:
        caches = needed(ctx, cos_cache, "cos_cache"), needed(ctx, sin_cache, "sin_cache")
        places = steps.places if position_ids is None else position_ids
        cos, sin = (_angles(ctx, cache, places, 1) for cache in caches)
        q, k = (_rotated(ctx, part, cos, sin, _half(ctx, caches[0]), bool(rotary_interleaved)) for part in (q, k))
    if past_key is not None and past_value is not None:
        index = steps.sources(ctx, past_key)
        k, v = (
            ctx.emit(indexing.Gather8(batch_dims=1), _concat(ctx, 2, past, new), index, ctx.constant(2))
            for past, new in ((past_key, k), (past_value, v))
        )
    added = [steps.forbidden(ctx, k, bool(causal), local_window_size)]
    if attention_bias is not None:
        added.append(_as_wide(ctx, attention_bias, k))
    sink = head_sink
    if sink is None and smooth_softmax == 1:
        sink = ctx.constant(np.zeros(num_heads), q.element_type)
    group = num_heads // kv_num_heads
    scores = Scores(scale, softcap or 0.0, tuple(added), sink)
    made = attended(ctx, q, _repeated(ctx, k, kv_num_heads, group), _repeated(ctx, v, kv_num_heads, group), scores)
    return made, k, v


def _repeated(ctx: Context, x: Output, heads: int, group: int) -> Output:
    """Each head of ``[b, n, t, h]`` as often as there are queries for it."""
    if group == 1:
        return x
    return ctx.emit(indexing.Gather8(), x, ctx.constant(np.repeat(np.arange(heads), group)), ctx.constant(1))


def _as_wide(ctx: Context, bias: Output, keys: Output) -> Output:
    """A bias for the present keys, for a cache that has room for more: 0 is added there."""
    if bias.shape.has_rank and bias.shape[3].is_static and bias.shape[3] == keys.shape[2]:
        return bias
    missing = _subtract(ctx, extent(ctx, keys, 2), extent(ctx, bias, 3))
    none = ctx.constant([0, 0, 0])
    op = padding.Pad12(pad_mode="constant")
    return ctx.emit(op, bias, ctx.constant([0] * 4), joined(ctx, [none, missing]), ctx.like(0, bias))


def _grouped_parts(
    ctx: Context, query: Output, key: Output | None, value: Output | None, heads: int, shared: int
) -> Sequence[Output]:
    """``[b, n, s, h]`` of queries, keys and values, which may be packed into one."""
    if key is not None:
        value = needed(ctx, value, "value")
        parts = ((query, heads, "query"), (key, shared, "key"), (value, shared, "value"))
        return [_heads(ctx, part, count, name) for part, count, name in parts]
    whole = _heads(ctx, query, heads + 2 * shared, "query")
    lengths = ctx.constant([heads, shared, shared])
    return ctx.emit_all(slicing.VariadicSplit1(), whole, ctx.constant(1), lengths)


@dataclass(frozen=True)
class _Steps:
    """Where this step's ``count`` queries stand: ``past`` ``[b, 1]`` keys are in front of them."""

    past: Output
    count: Output
    total: Output
    places: Output
    """``[b, s]``"""

    @classmethod
    def of(cls, ctx: Context, q: Output, lengths: Output, total: Output) -> _Steps:
        count = extent(ctx, q, 2)
        whole = _reshape(ctx, in_type(ctx, total, element_types.i64), [])
        ends = _reshape(ctx, in_type(ctx, lengths, element_types.i64), [-1, 1])
        before = _subtract(ctx, _add(ctx, ends, ctx.constant(1)), count)
        first = ctx.emit(elementwise.Equal1(), whole, count)
        past = ctx.emit(elementwise.Select1(), first, ctx.constant(0), before)
        return cls(past, count, whole, _add(ctx, past, counted(ctx, count)))

    def sources(self, ctx: Context, cache: Output) -> Output:
        """For each place of the new cache its place in the old one, followed by the new keys; ``[b, t]``."""
        room = extent(ctx, cache, 2)
        places = _unsqueeze(ctx, counted(ctx, ctx.emit(elementwise.Maximum1(), room, self.total)), 0)
        new = _subtract(ctx, places, self.past)
        is_old = ctx.emit(elementwise.Less1(), new, ctx.constant(0))
        is_new = ctx.emit(elementwise.Less1(), new, self.count)
        # What lies behind the new keys is nobody's: it is as it was, or anything.
        last = _subtract(ctx, _add(ctx, room, self.count), ctx.constant(1))
        behind = ctx.emit(elementwise.Minimum1(), places, last)
        chosen = ctx.emit(elementwise.Select1(), is_new, _add(ctx, room, new), behind)
        return ctx.emit(elementwise.Select1(), is_old, places, chosen)

    def forbidden(self, ctx: Context, keys: Output, causal: bool, window: int) -> Output:
        """What is added to the scores ``[b, n, s, t]``."""
        numbers = counted(ctx, extent(ctx, keys, 2))
        places = _unsqueeze(ctx, self.places, 2)
        last = (
            places if causal else _unsqueeze(ctx, _add(ctx, self.past, _subtract(ctx, self.count, ctx.constant(1))), 2)
        )
        allowed = ctx.emit(elementwise.LessEqual1(), numbers, last)
        if window > 0:
            start = _subtract(ctx, places, ctx.constant(window))
            allowed = ctx.emit(elementwise.LogicalAnd1(), allowed, ctx.emit(elementwise.Greater1(), numbers, start))
        return _forbidden(ctx, _unsqueeze(ctx, allowed, 1), keys, _lowest(keys))
