"""onnxruntime's attention: Attention, MultiHeadAttention, GroupQueryAttention and RotaryEmbedding.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
A mask becomes large negative numbers, which are added to the scores before Softmax.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from converter.from_onnx.lowering.attention import mask_of, merge_heads, repeat_heads, split_heads, swap
from converter.from_onnx.operators.microsoft.attention_caches import Cache, Window, mask_of_input, positions_of_input
from converter.from_onnx.operators.microsoft.fused import simplified_layer_normalization
from converter.from_onnx.operators.onnx.attention import Scores, attended
from converter.from_onnx.operators.onnx.rotary import angles, half_of, rotated
from converter.from_onnx.translation import Context, attributes_of, onnx_op
from converter.onnx_file.domains import MICROSOFT
from ir_runtime.graph import Output, element_types
from ir_runtime.operations import indexing, matmul, movement, padding, scatter, slicing
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, concat, in_type, reshape, subtract, take, unsqueeze
from ir_runtime.rewriting.shape_layers import arange, concat_lists, dim_of, of_rank, shape_of

_FILTER = -10000.0
"""The number that is added to masked scores, unless ``mask_filter_value`` is given."""


# --- masks ---


def _mask(ctx: Context, mask: Output | None, keys: Output, value: float | None) -> Output | None:
    """The numbers that a mask or lengths add to scores ``[b, n, s, t]``; ``keys`` are ``[b, n, t, h]``.

    ``[b, t]`` and ``[b, s, t]`` hold 0 for masked keys. ``[b]`` holds the number of keys, ``[2 b]`` where each
    row's keys end, and then where they start, and ``[3 b + 2]`` the number of keys, and then the offsets of
    queries and keys in a batch without padding, which are not needed.
    """
    if mask is None:
        return None
    value = _FILTER if value is None else value
    rank = ctx.rank(mask, "the mask")
    if rank in (2, 3):
        allowed = layers.greater(ctx, mask, ctx.like(0, mask))
        return mask_of(ctx, unsqueeze(ctx, allowed, *([1, 2] if rank == 2 else [1])), keys, value)
    if rank != 1:
        raise ctx.unsupported(f"masks of the shape {mask.shape} are not supported")
    numbers = in_type(ctx, arange(ctx, dim_of(ctx, keys, 2)), mask.element_type)
    ends, starts = _lengths(ctx, mask, keys)
    allowed = layers.less(ctx, numbers, unsqueeze(ctx, ends, 1))
    if starts is not None:
        after_start = layers.greater_equal(ctx, numbers, unsqueeze(ctx, starts, 1))
        allowed = layers.logical_and(ctx, allowed, after_start)
    return mask_of(ctx, unsqueeze(ctx, allowed, 1, 2), keys, value)


def _lengths(ctx: Context, mask: Output, keys: Output) -> tuple[Output, Output | None]:
    """Return the ends and starts of each row's keys; None for starts that are all 0."""
    zero, count = ctx.constant([0]), concat_lists(ctx, [dim_of(ctx, keys, 0)])
    batches, entries = ctx.declared(keys).shape[0], ctx.declared(mask).shape[0]
    if batches.is_static and entries.is_static:
        if entries.value == batches.value:
            # The Reshape refuses a list that is longer than the batch, which would have another meaning.
            return ctx.emit(movement.Reshape1(special_zero=False), mask, count), None
        if entries.value == 2 * batches.value:
            both = ctx.emit(movement.Reshape1(special_zero=False), mask, concat(ctx, 0, ctx.constant([2]), count))
            return take(ctx, both, 0, 0), take(ctx, both, 1, 0)
        if entries.value != 3 * batches.value + 2:
            raise ctx.invalid(f"a mask of {entries.value} lengths does not fit {batches.value} batches")
    twice = add(ctx, count, count)
    ends = ctx.emit(slicing.Slice8(), mask, zero, count, ctx.constant([1]), zero)
    # Room for the case that there are no starts: all rows begin at 0 then.
    longer = concat(ctx, 0, mask, ctx.emit(movement.Broadcast3(mode="numpy"), ctx.like(0, mask), count))
    starts = ctx.emit(slicing.Slice8(), longer, count, twice, ctx.constant([1]), ctx.constant([0]))
    is_pair = layers.equal(ctx, shape_of(ctx, mask), twice)
    return ends, layers.select(ctx, is_pair, starts, ctx.like(0, mask))


def _causal(ctx: Context, queries: Output, keys: Output, new: Output) -> Output:
    """Return the mask ``[s, t]`` of keys after the query. The first query is at the position of the first ``new`` key.

    onnxruntime masks nothing for the last query, however many keys there are.
    """
    count, total, added = (dim_of(ctx, part, 2) for part in (queries, keys, new))
    positions = add(ctx, arange(ctx, count), subtract(ctx, total, added))
    if added is not count:
        is_last = layers.equal(ctx, arange(ctx, count), subtract(ctx, count, ctx.constant(1)))
        positions = layers.select(ctx, is_last, total, positions)
    allowed = layers.less_equal(ctx, arange(ctx, total), unsqueeze(ctx, positions, 1))
    return mask_of(ctx, allowed, keys)


# --- attention itself ---


def _attend(
    ctx: Context,
    q: Output,
    k: Output,
    v: Output,
    scale: float | None,
    added: Sequence[Output | None] = (),
    softcap: float = 0.0,
    sink: Output | None = None,
    *,
    causal: bool = False,
) -> Output:
    """The attention of queries ``[b, n, s, h]`` to keys and values ``[b, n, t, h]``: ``[b, s, n h]``."""
    mask: Output | None = None
    for part in added:
        if part is not None:
            mask = add(ctx, part, mask)
    return merge_heads(ctx, attended(ctx, q, k, v, Scores(scale, softcap, mask, causal, sink)))


def self_attention(
    ctx: Context,
    projected: Sequence[Output],
    mask: Output | None,
    past: Output | None,
    bias: Output | None = None,
    *,
    do_rotary: int | None = None,
    mask_filter_value: float | None = None,
    num_heads: int,
    past_present_share_buffer: int | None = None,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Output, Output]:
    """Attention of queries, keys and values ``[b, s, n h]`` with a past ``[2, b, n, p, h]``, and the new past."""
    _refuse(ctx, do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    q, k, v = (split_heads(ctx, part, num_heads, name) for part, name in zip(projected, ("query", "key", "value")))
    if past is not None:
        k = concat(ctx, 2, take(ctx, past, 0, 0), k)
        v = concat(ctx, 2, take(ctx, past, 1, 0), v)
    added = [_mask(ctx, mask, k, mask_filter_value), bias]
    if unidirectional and (past is not None or mask is not None or bias is not None):
        # With ``causal`` the layer counts from the first key, and takes no other mask.
        added.append(_causal(ctx, q, k, q))
        unidirectional = 0
    output = _attend(ctx, q, k, v, scale, added, causal=bool(unidirectional))
    if k.shape[3].merge(v.shape[3]) is None:
        return output, k
    return output, concat(ctx, 0, unsqueeze(ctx, k, 0), unsqueeze(ctx, v, 0))


def _refuse(ctx: Context, **attributes: object) -> None:
    """Refuse attributes and inputs that onnxruntime supports on GPUs and the like, but not on a CPU."""
    for name, value in attributes.items():
        if value:
            raise ctx.unsupported(f"'{name}' is not supported")


@onnx_op("Attention", domain=MICROSOFT, versions=(1,))
@attributes_of(self_attention)
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
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int | None = None,
    **attributes: Any,
) -> tuple[Output, ...]:
    """Attention of ``x``, which is projected to queries, keys and values by ``[i, 3 n h]`` weights."""
    _refuse(ctx, past_sequence_length=past_sequence_length)
    x, weights = of_rank(ctx, x, 3), of_rank(ctx, weights, 2)
    bias, past = (None if v is None else of_rank(ctx, v, rank) for v, rank in ((bias, 1), (past, 5)))
    whole = add(ctx, ctx.emit(matmul.MatMul1(), x, weights), bias)
    if qkv_hidden_sizes:
        if len(qkv_hidden_sizes) != 3:
            raise ctx.invalid(f"qkv_hidden_sizes must be 3 numbers, but is {list(qkv_hidden_sizes)}")
        lengths = ctx.constant(list(qkv_hidden_sizes))
        parts = ctx.emit_all(slicing.VariadicSplit1(), whole, ctx.constant(2), lengths)
    else:
        parts = thirds(ctx, whole)
    return self_attention(ctx, parts, mask_index, past, attention_bias, **attributes)


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
    _refuse(ctx, past_sequence_length=past_sequence_length, cache_indirection=cache_indirection)
    q, k, v = _queries_keys_values(ctx, query, key, value, bias, num_heads)
    new = k
    if (past_key is None) != (past_value is None):
        raise ctx.invalid("past_key and past_value must be given together")
    if past_key is not None and past_value is not None:
        k, v = concat(ctx, 2, past_key, new), concat(ctx, 2, past_value, v)
    added = [_mask(ctx, key_padding_mask, k, mask_filter_value), attention_bias]
    if unidirectional:
        added.append(_causal(ctx, q, k, new))
    output = _attend(ctx, q, k, v, scale, added)
    return output, k, v


@onnx_op("DecoderMaskedMultiHeadAttention", domain=MICROSOFT, versions=(1,))
def decoder_masked_attention(
    ctx: Context,
    query: Output,
    key: Output | None = None,
    value: Output | None = None,
    mask_index: Output | None = None,
    attention_bias: Output | None = None,
    past_key: Output | None = None,
    past_value: Output | None = None,
    past_sequence_length: Output | None = None,
    beam_width: Output | None = None,
    cache_indirection: Output | None = None,
    bias: Output | None = None,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
    output_qk: int | None = None,
    past_present_share_buffer: int | None = None,
    scale: float | None = None,
) -> tuple[Output, ...]:
    """MultiHeadAttention of one token ``[b, 1, n h]``, whose keys and values may be packed behind it.

    Where past and present share memory, a cache has room for more keys, of which ``past_sequence_length`` are taken.
    """
    _refuse(ctx, beam_width=beam_width, cache_indirection=cache_indirection, output_qk=output_qk)
    if key is None:
        query, key, value = thirds(ctx, query)
    if past_present_share_buffer and past_key is not None and past_value is not None:
        q, k, v = _queries_keys_values(ctx, query, key, value, bias, num_heads)
        place = reshape(ctx, ctx.required(past_sequence_length, "past_sequence_length"), [1])
        axis = ctx.constant([2])
        caches = [
            ctx.emit(scatter.ScatterUpdate3(), past, place, new, axis) for past, new in ((past_key, k), (past_value, v))
        ]
        end = add(ctx, place, ctx.like(1, place))
        keys, values = (
            ctx.emit(slicing.Slice8(), cache, ctx.like([0], place), end, ctx.like([1], place), axis) for cache in caches
        )
        hidden = _mask(ctx, mask_index, keys, mask_filter_value)
        return _attend(ctx, q, keys, values, scale, [hidden, attention_bias]), *caches
    inputs = query, key, value, bias, mask_index, attention_bias, past_key, past_value
    attributes: dict[str, Any] = {"mask_filter_value": mask_filter_value, "num_heads": num_heads, "scale": scale}
    return multi_head_attention(ctx, *inputs, **attributes)


def _queries_keys_values(
    ctx: Context, query: Output, key: Output | None, value: Output | None, bias: Output | None, heads: int
) -> Sequence[Output]:
    """Queries, keys and values as ``[b, n, s, h]``, however they are packed."""
    rank = ctx.rank(query, "query")
    if rank == 5 or (key is not None and ctx.rank(key, "key") == 5):
        if bias is not None:
            raise ctx.unsupported("a bias of packed keys is not supported")
        if rank == 5:
            return [swap(ctx, take(ctx, query, index, 3)) for index in range(3)]
        packed = ctx.required(key, "key")
        return [split_heads(ctx, query, heads, "query"), *(swap(ctx, take(ctx, packed, i, 3)) for i in range(2))]
    key, value = ctx.required(key, "key"), ctx.required(value, "value")
    ready = ctx.rank(key, "key") == 4
    parts = [query, key, value]
    if bias is not None:
        width = dim_of(ctx, query, 2)
        declared = ctx.declared(query).shape[2]
        if declared.is_static and bias.type.constant is not None:
            # The file's bias does not fit queries of another width: Add refuses those.
            width = ctx.constant(declared.value)
        lengths = concat_lists(ctx, [width, width, ctx.constant(-1)])
        biases = ctx.emit_all(slicing.VariadicSplit1(), bias, ctx.constant(0), lengths)
        # Keys of four dimensions have their bias already.
        parts = [part if ready and i else add(ctx, part, biases[i]) for i, part in enumerate(parts)]
    if ready:
        return [split_heads(ctx, parts[0], heads, "query"), key, value]
    return [split_heads(ctx, part, heads, name) for part, name in zip(parts, ("query", "key", "value"))]


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
    query_seqlens: Output | None = None,
    *,
    causal: int = 1,
    do_rotary: int | None = None,
    k_norm_epsilon: float | None = None,
    k_quant_type: Literal["NONE", "PER_TENSOR", "PER_CHANNEL"] = "NONE",
    kv_cache_bit_width: int | None = None,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    q_norm_epsilon: float | None = None,
    qk_norm_epsilon: float = 9.999999974752427e-07,
    qk_output: int = 0,
    rotary_interleaved: int | None = None,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float | None = None,
    v_quant_type: Literal["NONE", "PER_TENSOR", "PER_CHANNEL"] = "NONE",
) -> tuple[Output, ...]:
    """Attention in which several heads of the queries share one of the keys, with a cache of the past.

    A row of the batch has ``seqlens_k + 1`` keys; the new ones are the last of those, or all in the first
    step, which is where ``total_sequence_length`` is the number of queries. They are written into the
    cache at their positions; the cache is returned, and grows where it has to. Of a row's new keys only the first
    ``query_seqlens`` count, where that is given: the outputs for the others are not defined.
    """
    _refuse(ctx, qk_output=qk_output)
    if sliding_window_cache and (attention_bias is not None or past_key is None or past_value is None):
        raise ctx.unsupported("a cache of a window needs its past, and goes without a bias")
    if kv_num_heads < 1 or num_heads % kv_num_heads:
        raise ctx.invalid(f"num_heads must be a multiple of kv_num_heads, but they are {num_heads} and {kv_num_heads}")
    q, k, v = _grouped_parts(ctx, query, key, value, num_heads, kv_num_heads)
    if q_norm_weight is not None and k_norm_weight is not None:
        q_epsilon, k_epsilon = (qk_norm_epsilon if own is None else own for own in (q_norm_epsilon, k_norm_epsilon))
        q = simplified_layer_normalization(ctx, q, q_norm_weight, epsilon=q_epsilon)[0]
        k = simplified_layer_normalization(ctx, k, k_norm_weight, epsilon=k_epsilon)[0]
    if query_seqlens is not None and (not causal or past_key is None or past_value is None):
        raise ctx.invalid("query_seqlens goes with causal attention and the past of keys and values")
    lengths, total = ctx.required(seqlens_k, "seqlens_k"), ctx.required(total_sequence_length, "total")
    pasts = None if past_key is None or past_value is None else (past_key, past_value)
    steps = None
    if pasts is None or not ctx.graphs.is_stateful:
        steps = _Steps.of(ctx, q, lengths, total, query_seqlens)
    if do_rotary:
        waves = ctx.required(cos_cache, "cos_cache"), ctx.required(sin_cache, "sin_cache")
        if position_ids is None:
            position_ids = positions_of_input(ctx, q) if steps is None else steps.positions
        cos, sin = (angles(ctx, cache, position_ids, 1) for cache in waves)
        q, k = (rotated(ctx, part, cos, sin, half_of(ctx, waves[0]), bool(rotary_interleaved)) for part in (q, k))
    caches = [
        Cache.of(ctx, past, by, mode, kv_cache_bit_width, kv_num_heads, name)
        for past, by, mode, name in ((past_key, k_scale, k_quant_type, "k"), (past_value, v_scale, v_quant_type, "v"))
    ]
    new = [cache.stored(ctx, part) for cache, part in zip(caches, (k, v))]
    if steps is not None:
        present, held, window = _update_cache(
            ctx, steps, pasts, new, local_window_size if sliding_window_cache else None
        )
        k, v = (cache.real(ctx, part, q) for cache, part in zip(caches, held))
        added = [steps.mask(ctx, k, bool(causal), local_window_size, window)]
    else:
        assert pasts is not None
        if any(cache.scale is not None for cache in caches):
            raise ctx.unsupported("a cache of quantised keys and values cannot become a variable of the model")
        present = k, v = [concat(ctx, 2, past, part) for past, part in zip(pasts, new)]
        added = [mask_of_input(ctx, q, position_ids, lengths, bool(causal), local_window_size)]
    if attention_bias is not None:
        added.append(_as_wide(ctx, attention_bias, k))
    sink = head_sink
    if sink is None and smooth_softmax == 1:
        sink = ctx.constant(np.zeros(num_heads), q.element_type)
    group = num_heads // kv_num_heads
    keys, values = (repeat_heads(ctx, part, kv_num_heads, group) for part in (k, v))
    output = _attend(ctx, q, keys, values, scale, added, softcap or 0.0, sink)
    return output, *present


def _update_cache(
    ctx: Context,
    steps: _Steps,
    pasts: tuple[Output, Output] | None,
    new: Sequence[Output],
    window_size: int | None,
) -> tuple[Sequence[Output], Sequence[Output], Window | None]:
    """The present caches, the keys and values that the queries look at, and how a cache of a window is laid out.

    ``window_size`` is that of a cache which holds a window alone.
    """
    if pasts is None:
        return new, new, None
    both = [concat(ctx, 2, past, part) for past, part in zip(pasts, new)]
    if window_size is not None:
        window = Window.of(ctx, pasts[0], steps.past, steps.length, window_size)
        index = window.kept(ctx, both[0])
        return [ctx.emit(indexing.Gather8(batch_dims=1), part, index, ctx.constant(2)) for part in both], both, window
    if ctx.declared(new[0]).shape[2].high == 0:
        # Another layer has written this step's keys already; none are added, whatever the inputs' shapes.
        ctx.graphs.keep_dimensions()
        return both, both, None
    index = steps.sources(ctx, pasts[0])
    present = [ctx.emit(indexing.Gather8(batch_dims=1), part, index, ctx.constant(2)) for part in both]
    return present, present, None


def _as_wide(ctx: Context, bias: Output, keys: Output) -> Output:
    """A bias for the present keys, padded with 0 to the width of a cache that has room for more."""
    if bias.shape.has_rank and bias.shape[3].is_static and bias.shape[3] == keys.shape[2]:
        return bias
    missing = subtract(ctx, dim_of(ctx, keys, 2), dim_of(ctx, bias, 3))
    none = ctx.constant([0, 0, 0])
    op = padding.Pad12(pad_mode="constant")
    return ctx.emit(op, bias, ctx.constant([0] * 4), concat_lists(ctx, [none, missing]), ctx.like(0, bias))


def _grouped_parts(
    ctx: Context, query: Output, key: Output | None, value: Output | None, heads: int, shared: int
) -> Sequence[Output]:
    """``[b, n, s, h]`` of queries, keys and values, which may be packed into one."""
    if key is not None:
        value = ctx.required(value, "value")
        parts = ((query, heads, "query"), (key, shared, "key"), (value, shared, "value"))
        return [split_heads(ctx, part, count, name) for part, count, name in parts]
    whole = split_heads(ctx, query, heads + 2 * shared, "query")
    lengths = ctx.constant([heads, shared, shared])
    return ctx.emit_all(slicing.VariadicSplit1(), whole, ctx.constant(1), lengths)


@record
class _Steps:
    """The positions of this step's ``count`` queries: ``past`` ``[b, 1]`` keys come before them."""

    past: Output
    count: Output
    total: Output
    length: Output
    """The number of keys after this step, ``[b, 1]``."""
    positions: Output
    """``[b, s]``"""

    @classmethod
    def of(cls, ctx: Context, q: Output, lengths: Output, total: Output, valid: Output | None) -> _Steps:
        """``valid`` is how many queries each row has before its padding, ``[b]``."""
        count = dim_of(ctx, q, 2)
        whole = reshape(ctx, in_type(ctx, total, element_types.i64), [])
        ends = reshape(ctx, in_type(ctx, lengths, element_types.i64), [-1, 1])
        length = add(ctx, ends, ctx.constant(1))
        if valid is not None:
            # The total is only an upper bound then, and cannot show the first step.
            past = subtract(ctx, length, reshape(ctx, in_type(ctx, valid, element_types.i64), [-1, 1]))
        else:
            first = layers.equal(ctx, whole, count)
            past = layers.select(ctx, first, ctx.constant(0), subtract(ctx, length, count))
        return cls(past, count, whole, length, add(ctx, past, arange(ctx, count)))

    def sources(self, ctx: Context, cache: Output) -> Output:
        """For each position of the new cache its index in the old cache followed by the new keys; ``[b, t]``."""
        room = dim_of(ctx, cache, 2)
        positions = unsqueeze(ctx, arange(ctx, layers.maximum(ctx, room, self.total)), 0)
        new = subtract(ctx, positions, self.past)
        is_old = layers.less(ctx, new, ctx.constant(0))
        is_new = layers.less(ctx, new, self.count)
        # Behind the new keys the cache may hold any values.
        last = subtract(ctx, add(ctx, room, self.count), ctx.constant(1))
        behind = layers.minimum(ctx, positions, last)
        chosen = layers.select(ctx, is_new, add(ctx, room, new), behind)
        return layers.select(ctx, is_old, positions, chosen)

    def mask(self, ctx: Context, keys: Output, causal: bool, window: int, cache: Window | None = None) -> Output:
        """The mask that is added to the scores ``[b, n, s, t]``."""
        numbers, held = arange(ctx, dim_of(ctx, keys, 2)), None
        if cache is not None:
            numbers, held = (unsqueeze(ctx, part, 1) for part in cache.positions(ctx, keys))
        positions = unsqueeze(ctx, self.positions, 2)
        last = (
            positions if causal else unsqueeze(ctx, add(ctx, self.past, subtract(ctx, self.count, ctx.constant(1))), 2)
        )
        allowed = layers.less_equal(ctx, numbers, last)
        if window > 0:
            start = subtract(ctx, positions, ctx.constant(window))
            allowed = layers.logical_and(ctx, allowed, layers.greater(ctx, numbers, start))
        if held is not None:
            allowed = layers.logical_and(ctx, allowed, held)
        return mask_of(ctx, unsqueeze(ctx, allowed, 1), keys)
