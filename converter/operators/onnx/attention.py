"""Attention: what each query sees, how the scores are made, and the one layer that says both.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
https://onnx.ai/onnx/operators/onnx__Attention.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from converter.lowering import layers
from converter.lowering.attention_heads import merge_heads, repeat_heads, split_heads
from converter.lowering.layers import add, concat, cut, in_type, multiply, reshape, subtract, unsqueeze
from converter.lowering.shapes import arange, as_i64, concat_lists, dim_of
from converter.onnx_file.types import element_type_of
from converter.translation.context import Context
from converter.translation.registry import onnx_op
from ir_runtime import element_types
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Output
from ir_runtime.operations import activation, elementwise, matmul, movement, padding, reduction
from ir_runtime.operations import attention as fused


@dataclass(frozen=True)
class Scores:
    """How scores ``[b, n, s, t]`` become shares of the values."""

    scale: float | None = None
    """1 / sqrt(h) where there is none."""
    softcap: float = 0.0
    """A limit that they approach; 0 for none."""
    mask: Output | None = None
    """What is added; or booleans, false where a key is not seen, true somewhere in each row."""
    causal: bool = False
    """Whether query i sees the keys up to i and no mask counts."""
    sink: Output | None = None
    """``[n]``: a score that takes part in Softmax and stands for nothing."""


def attended(ctx: Context, q: Output, k: Output, v: Output, scores: Scores) -> Output:
    """``[b, n, s, h]`` of queries, ``[b, n, t, h]`` of keys and values to ``[b, n, s, h]``."""
    if scores.softcap:
        made = _masked(ctx, _limited(ctx, _products(ctx, q, k, scores.scale), scores.softcap), scores.mask)
        return ctx.emit(matmul.MatMul1(), _shares(ctx, made, scores.sink), v)
    inputs = [q, k, v]
    if scores.mask is not None or scores.scale or scores.sink is not None:
        inputs.append(ctx.like(0, q) if scores.mask is None else scores.mask)
    if scores.scale or scores.sink is not None:
        inputs.append(_scale(ctx, scores.scale, q))
    if scores.sink is not None:
        inputs.append(reshape(ctx, scores.sink, [1, -1, 1, 1]))
    return ctx.emit(fused.ScaledDotProductAttention13(causal=scores.causal), *inputs)


# --- the steps one by one, for what the one layer cannot say ---


def _scale(ctx: Context, given: float | None, q: Output) -> Output:
    """What the products of queries and keys are multiplied with: as given, or 1 / sqrt(h)."""
    if given or q.shape[3].is_static:
        return ctx.like(given or 1 / math.sqrt(q.shape[3].value), q)
    wide = q.element_type if q.element_type is element_types.f64 else element_types.f32
    root = layers.square_root(ctx, in_type(ctx, dim_of(ctx, q, 3), wide))
    return in_type(ctx, layers.divide(ctx, ctx.constant(1, wide), root), q.element_type)


def _products(ctx: Context, q: Output, k: Output, scale: float | None) -> Output:
    made = ctx.emit(matmul.MatMul1(transpose_b=True), q, k)
    return multiply(ctx, made, _scale(ctx, scale, q))


def _limited(ctx: Context, scores: Output, softcap: float) -> Output:
    limit = ctx.like(softcap, scores)
    return multiply(ctx, ctx.emit(elementwise.Tanh1(), layers.divide(ctx, scores, limit)), limit)


def _masked(ctx: Context, scores: Output, mask: Output | None) -> Output:
    if mask is None:
        return scores
    if mask.element_type is element_types.boolean:
        return layers.select(ctx, mask, scores, ctx.like(-np.inf, scores))
    return add(ctx, scores, mask)


def _shares(ctx: Context, scores: Output, sink: Output | None) -> Output:
    softmax = activation.SoftMax8(axis=3)
    if sink is None:
        return ctx.emit(softmax, scores)
    column = ctx.emit(
        movement.Broadcast3(mode="numpy"),
        reshape(ctx, sink, [1, -1, 1, 1]),
        concat_lists(ctx, [*(dim_of(ctx, scores, axis) for axis in range(3)), ctx.constant(1)]),
    )
    return cut(ctx, ctx.emit(softmax, concat(ctx, 3, scores, column)), 0, -1, 3)


# --- what is seen ---


@dataclass(frozen=True)
class _Visibility:
    """What a query sees: booleans and numbers that are added, each broadcasting to ``[b, n, s, t]``."""

    allowed: Output | None = None
    bias: Output | None = None
    may_be_empty: bool = False
    """Whether a query might see nothing at all."""

    def also(self, ctx: Context, allowed: Output, may_be_empty: bool) -> _Visibility:
        both = allowed if self.allowed is None else layers.logical_and(ctx, self.allowed, allowed)
        return replace(self, allowed=both, may_be_empty=self.may_be_empty or may_be_empty)

    def seen(self, ctx: Context) -> Output | None:
        """Booleans, true where a score is more than minus infinity; None where all are."""
        if self.bias is None:
            return self.allowed
        # Told one by one: an engine may take the least finite number for the greatest of nothing but -inf.
        finite = layers.not_equal(ctx, self.bias, ctx.like(-np.inf, self.bias))
        return finite if self.allowed is None else layers.logical_and(ctx, self.allowed, finite)

    def mask(self, ctx: Context) -> Output | None:
        """Both in one: booleans where there is no bias, else numbers."""
        if self.bias is None or self.allowed is None:
            return self.allowed if self.bias is None else self.bias
        return layers.select(ctx, self.allowed, self.bias, ctx.like(-np.inf, self.bias))


def _given_mask(ctx: Context, mask: Output, keys: Output) -> _Visibility:
    """The node's mask. From version 24 on it may be narrower than the keys: behind its end nothing is seen."""
    rank = ctx.rank(mask, "attn_mask")
    if not 1 <= rank <= 4:
        raise ctx.invalid(f"attn_mask must have 1 to 4 dimensions, but has the shape {mask.shape}")
    is_boolean = mask.element_type is element_types.boolean
    if not is_boolean:
        mask = in_type(ctx, mask, keys.element_type)
    if rank == 1:
        mask = unsqueeze(ctx, mask, 0)
    width, total = ctx.stated(mask).shape[-1], ctx.stated(keys).shape[2]
    if width.is_static and total.is_static and width.value > total.value:
        raise ctx.invalid(f"attn_mask of the shape {ctx.stated(mask).shape} is wider than the {total} keys")
    # Where both are as wide for the stated shapes, another number of keys is refused; one would be stretched.
    always = mask.shape[-1].is_static and keys.shape[2].is_static
    is_wide = width.is_static and width == total and (width.value > 1 or always)
    if ctx.version >= 24 and not is_wide:
        mask = _widened(ctx, mask, keys)
    return _Visibility(mask, None, True) if is_boolean else _Visibility(None, mask, True)


def _widened(ctx: Context, mask: Output, keys: Output) -> Output:
    rank = mask.shape.rank
    missing = subtract(ctx, dim_of(ctx, keys, 2), dim_of(ctx, mask, rank - 1))
    before, after = ctx.constant([0] * rank), concat_lists(ctx, [ctx.constant([0] * (rank - 1)), missing])
    pad = padding.Pad12(pad_mode="constant")
    if mask.element_type is not element_types.boolean:
        return ctx.emit(pad, mask, before, after, ctx.like(-np.inf, mask))
    numbers = in_type(ctx, mask, element_types.u8)
    return in_type(ctx, ctx.emit(pad, numbers, before, after, ctx.like(0, numbers)), element_types.boolean)


@dataclass(frozen=True)
class _Places:
    """Where queries and keys stand, so that a query sees what is around its own place."""

    queries: Output
    """``[s, 1]``, or ``[b, 1, s, 1]`` where that depends on the batch."""
    keys: Output
    """``[t]``"""

    @classmethod
    def of(cls, ctx: Context, q: Output, k: Output, past: Output | None, valid: Output | None) -> _Places:
        count = dim_of(ctx, q, 2)
        queries = unsqueeze(ctx, arange(ctx, count), 1)
        if past is not None:
            queries = add(ctx, queries, dim_of(ctx, past, 2))
        elif valid is not None:
            queries = add(ctx, queries, subtract(ctx, valid, count))
        return cls(queries, arange(ctx, dim_of(ctx, k, 2)))

    def from_left(self, ctx: Context, window: int) -> Output:
        return layers.greater_equal(ctx, self.keys, subtract(ctx, self.queries, ctx.constant(window)))

    def to_right(self, ctx: Context, window: int) -> Output:
        last = add(ctx, self.queries, ctx.constant(window)) if window else self.queries
        return layers.less_equal(ctx, self.keys, last)


# --- the operator ---


@onnx_op("Attention", versions=(23,))
def attention_23(
    ctx: Context,
    query: Output,
    key: Output,
    value: Output,
    attn_mask: Output | None = None,
    past_key: Output | None = None,
    past_value: Output | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Output, ...]:
    """Attention with a mask and a past."""
    return attention_25(
        ctx,
        query,
        key,
        value,
        attn_mask,
        past_key,
        past_value,
        is_causal=is_causal,
        kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads,
        qk_matmul_output_mode=qk_matmul_output_mode,
        scale=scale,
        softcap=softcap,
        softmax_precision=softmax_precision,
    )


@onnx_op("Attention", versions=(24,))
def attention_24(
    ctx: Context,
    query: Output,
    key: Output,
    value: Output,
    attn_mask: Output | None = None,
    past_key: Output | None = None,
    past_value: Output | None = None,
    nonpad_kv_seqlen: Output | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Output, ...]:
    """Attention whose keys may be a cache of which each batch uses a part."""
    return attention_25(
        ctx,
        query,
        key,
        value,
        attn_mask,
        past_key,
        past_value,
        nonpad_kv_seqlen,
        is_causal=is_causal,
        kv_num_heads=kv_num_heads,
        q_num_heads=q_num_heads,
        qk_matmul_output_mode=qk_matmul_output_mode,
        scale=scale,
        softcap=softcap,
        softmax_precision=softmax_precision,
    )


@onnx_op("Attention", versions=(25,))
def attention_25(
    ctx: Context,
    query: Output,
    key: Output,
    value: Output,
    attn_mask: Output | None = None,
    past_key: Output | None = None,
    past_value: Output | None = None,
    nonpad_kv_seqlen: Output | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Output, ...]:
    """SoftMax(scale * query key^T, limited, masked) value, with heads that may share keys.

    Inputs are ``[b, n, s, h]`` or ``[b, s, n h]``; a query that sees no key is answered with zeros. The
    outputs are the answers in the shape of the queries, the keys and values with their past, and the
    scores ``[b, n, s, t]`` as they are after the step that ``qk_matmul_output_mode`` names.
    """
    if (past_key is None) != (past_value is None):
        raise ctx.invalid("past_key and past_value must be given together")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise ctx.invalid("nonpad_kv_seqlen cannot be given together with past_key and past_value")
    if min(left_window_size, right_window_size) < -1:
        raise ctx.invalid(
            f"window sizes must be -1 or more, but are {left_window_size} (left) and {right_window_size} (right)"
        )
    if qk_matmul_output_mode not in range(4):
        raise ctx.invalid(f"qk_matmul_output_mode must be 0 to 3, but is {qk_matmul_output_mode}")
    q, k, v = _separate(ctx, (query, key, value), q_num_heads, kv_num_heads)
    if past_key is not None and past_value is not None:
        k, v = concat(ctx, 2, past_key, k), concat(ctx, 2, past_value, v)
    kind = q.element_type
    keys, values = _for_each_query_head(ctx, q, k, v)
    values = in_type(ctx, values, kind)
    sight = _Visibility() if attn_mask is None else _given_mask(ctx, attn_mask, keys)
    valid = None if nonpad_kv_seqlen is None else reshape(ctx, nonpad_kv_seqlen, [-1, 1, 1, 1])
    # The layer's own causality begins at the first key and goes with no other mask.
    plain = attn_mask is None and past_key is None and valid is None and max(left_window_size, right_window_size) < 0
    right = _smaller(0 if is_causal and not plain else -1, right_window_size)
    if right >= 0 or left_window_size >= 0:
        places = _Places.of(ctx, q, keys, past_key, valid)
        if left_window_size >= 0:
            sight = sight.also(ctx, places.from_left(ctx, left_window_size), True)
        if right >= 0:
            sight = sight.also(ctx, places.to_right(ctx, right), valid is not None)
    if valid is not None:
        numbers = as_i64(ctx, arange(ctx, dim_of(ctx, keys, 2)))
        sight = sight.also(ctx, layers.less(ctx, numbers, valid), True)
    precision = kind if softmax_precision is None else element_type_of(softmax_precision)
    scores = Scores(scale, softcap, causal=bool(is_causal) and plain)
    if ctx.wants(3) or _is_coarser(precision, kind):
        sight = _with_causality(ctx, sight, q, keys) if scores.causal else sight
        made, detail = _step_by_step(ctx, (q, keys, values), scores, sight, qk_matmul_output_mode, precision)
    else:
        made, detail = _answers(ctx, (q, keys, values), scores, sight), None
    if query.shape.rank == 3:
        made = merge_heads(ctx, made)
    return (made, k, v) if detail is None else (made, k, v, detail)


def _separate(
    ctx: Context, inputs: Sequence[Output], q_heads: int | None, kv_heads: int | None
) -> tuple[Output, Output, Output]:
    """Queries, keys and values as ``[b, n, s, h]``."""
    parts = []
    ranks = [ctx.rank(part, name) for part, name in zip(inputs, ("Q", "K", "V"))]
    if len(set(ranks)) != 1 or ranks[0] not in (3, 4):
        shapes = ", ".join(str(part.shape) for part in inputs)
        raise ctx.invalid(f"Q, K and V must all have 3 or all 4 dimensions, but are {shapes}")
    for part, count, name in zip(inputs, (q_heads, kv_heads, kv_heads), ("Q", "K", "V")):
        if ranks[0] == 4:
            parts.append(part)
            continue
        if count is None:
            raise ctx.invalid("q_num_heads and kv_num_heads are required where Q, K and V have 3 dimensions")
        parts.append(split_heads(ctx, part, count, name))
    return parts[0], parts[1], parts[2]


def _for_each_query_head(ctx: Context, q: Output, k: Output, v: Output) -> tuple[Output, Output]:
    """Keys and values once for each head of the queries, of which neighbours share one.

    As many heads as the queries have, or a single one, are what the products broadcast by themselves; they
    refuse every other number that a reshape might bring.
    """
    heads, own = ctx.stated(q).shape[1], ctx.stated(k).shape[1]
    if heads.is_static and own.is_static:
        if own.value < 1 or heads.value % own.value:
            raise ctx.invalid(f"{heads} heads of queries cannot share {own} heads of keys and values")
        if own.merge(ctx.stated(v).shape[1]) is None:
            raise ctx.invalid(f"{own} heads of keys do not fit {ctx.stated(v).shape[1]} heads of values")
        if own.value in (1, heads.value):
            return k, v
        group = heads.value // own.value
        if k.shape[1].is_static and v.shape[1].is_static:
            return repeat_heads(ctx, k, own.value, group), repeat_heads(ctx, v, own.value, group)
        places, each = arange(ctx, multiply(ctx, dim_of(ctx, k, 1), ctx.constant(group))), ctx.constant(group)
    else:
        each = dim_of(ctx, q, 1)
        places = multiply(ctx, arange(ctx, each), dim_of(ctx, k, 1))
    index = layers.divide(ctx, places, each)
    keys, values = (layers.gather(ctx, part, index, ctx.constant(1)) for part in (k, v))
    return keys, values


def _smaller(a: int, b: int) -> int:
    """The smaller of two bounds, of which -1 is none."""
    return max(a, b) if min(a, b) < 0 else min(a, b)


def _is_coarser(precision: ElementType, kind: ElementType) -> bool:
    return precision is not kind and precision.bits <= kind.bits


def _with_causality(ctx: Context, sight: _Visibility, q: Output, keys: Output) -> _Visibility:
    return sight.also(ctx, _Places.of(ctx, q, keys, None, None).to_right(ctx, 0), False)


def _answers(ctx: Context, parts: Sequence[Output], scores: Scores, sight: _Visibility) -> Output:
    q, k, v = parts
    if not sight.may_be_empty:
        return attended(ctx, q, k, v, replace(scores, mask=_of_rank_two(ctx, sight.mask(ctx))))
    mask, sees = _never_empty(ctx, sight)
    made = attended(ctx, q, k, v, replace(scores, mask=mask))
    return made if sees is None else layers.select(ctx, sees, made, ctx.like(0, made))


def _of_rank_two(ctx: Context, mask: Output | None) -> Output | None:
    return unsqueeze(ctx, mask, 0) if mask is not None and mask.shape.rank == 1 else mask


def _never_empty(ctx: Context, sight: _Visibility) -> tuple[Output, Output | None]:
    """A mask in which each row sees something, and ``[..., s, 1]`` which rows did by themselves.

    The latter is None where all are known to.
    """
    seen, mask = sight.seen(ctx), sight.mask(ctx)
    assert seen is not None
    assert mask is not None
    any_of = reduction.ReduceLogicalOr1(keep_dims=True)
    sees = ctx.emit(any_of, seen, ctx.constant([seen.shape.rank - 1]))
    known = sees.type.constant
    if known is not None and known.all():
        return mask, None
    if mask.element_type is element_types.boolean:
        return layers.logical_or(ctx, mask, layers.logical_not(ctx, sees)), sees
    return layers.select(ctx, sees, mask, ctx.like(0, mask)), sees


def _step_by_step(
    ctx: Context, parts: Sequence[Output], scores: Scores, sight: _Visibility, mode: int, precision: ElementType
) -> tuple[Output, Output]:
    """The answers, and the scores after one of the steps."""
    q, k, v = parts
    details = [_products(ctx, q, k, scores.scale)]
    details.append(_limited(ctx, details[0], scores.softcap) if scores.softcap else details[0])
    details.append(_masked(ctx, details[1], sight.mask(ctx)))
    whole, sees = details[2], None
    if sight.may_be_empty:
        mask, sees = _never_empty(ctx, sight)
        whole = _masked(ctx, details[1], mask)
    shares = in_type(ctx, _shares(ctx, in_type(ctx, whole, precision), None), q.element_type)
    if sees is not None:
        shares = layers.select(ctx, sees, shares, ctx.like(0, shares))
    details.append(shares)
    return ctx.emit(matmul.MatMul1(), shares, v), details[mode]
