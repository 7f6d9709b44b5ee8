"""Attention: which keys each query sees, and how scores become an output, in one layer where the IR has it.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
https://onnx.ai/onnx/operators/onnx__Attention.html
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from converter.from_onnx.lowering.attention import lowest, mask_of, merge_heads, repeat_heads, split_heads
from converter.from_onnx.translation import Context, onnx_op
from converter.onnx_file.types import element_type_of
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import ElementType, Output, element_types
from ir_runtime.operations import activation, elementwise, matmul, movement, padding, reduction
from ir_runtime.operations import attention as fused
from ir_runtime.records import record
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, concat, cut, in_type, multiply, reshape, subtract, unsqueeze
from ir_runtime.rewriting.shape_layers import arange, as_i64, concat_lists, dim_of


@record
class Scores:
    """How the scores ``[b, n, s, t]`` are scaled, limited and masked before Softmax."""

    scale: float | None = None
    """1 / sqrt(h) where there is none."""
    softcap: float = 0.0
    """The scores become ``softcap * tanh(scores / softcap)``; 0 for no limit."""
    mask: Output | None = None
    """Numbers that are added to the scores, or booleans: false where a key is not seen. Each row sees some key."""
    causal: bool = False
    """True if query i sees the keys 0 to i. The layer takes no mask besides."""
    sink: Output | None = None
    """``[n]``: one more score for each head, which takes part in Softmax and has no value."""


def attended(ctx: Context, q: Output, k: Output, v: Output, scores: Scores) -> Output:
    """The attention of queries ``[b, n, s, h]`` to keys and values ``[b, n, t, h]``: ``[b, n, s, h]``."""
    if scores.softcap:
        masked = _mask(ctx, _limit(ctx, _products(ctx, q, k, scores.scale), scores.softcap), scores.mask)
        return ctx.emit(matmul.MatMul1(), _probabilities(ctx, masked, scores.sink), v)
    inputs = [q, k, v]
    if scores.mask is not None or scores.scale or scores.sink is not None:
        inputs.append(ctx.like(0, q) if scores.mask is None else scores.mask)
    if scores.scale or scores.sink is not None:
        inputs.append(_scale(ctx, scores.scale, q))
    if scores.sink is not None:
        inputs.append(reshape(ctx, scores.sink, [1, -1, 1, 1]))
    return ctx.emit(fused.ScaledDotProductAttention13(causal=scores.causal), *inputs)


# --- single steps, for what ScaledDotProductAttention does not have ---


def _scale(ctx: Context, scale: float | None, q: Output) -> Output:
    """The factor of the products of queries and keys: as given, or 1 / sqrt(h)."""
    if scale or q.shape[3].is_static:
        return ctx.like(scale or 1 / math.sqrt(q.shape[3].value), q)
    wide = q.element_type if q.element_type is element_types.f64 else element_types.f32
    root = layers.square_root(ctx, in_type(ctx, dim_of(ctx, q, 3), wide))
    return in_type(ctx, layers.divide(ctx, ctx.constant(1, wide), root), q.element_type)


def _products(ctx: Context, q: Output, k: Output, scale: float | None) -> Output:
    products = ctx.emit(matmul.MatMul1(transpose_b=True), q, k)
    return multiply(ctx, products, _scale(ctx, scale, q))


def _limit(ctx: Context, scores: Output, softcap: float) -> Output:
    limit = ctx.like(softcap, scores)
    return multiply(ctx, ctx.emit(elementwise.Tanh1(), layers.divide(ctx, scores, limit)), limit)


def _mask(ctx: Context, scores: Output, mask: Output | None) -> Output:
    if mask is None:
        return scores
    if mask.element_type is element_types.boolean:
        return layers.select(ctx, mask, scores, ctx.like(-np.inf, scores))
    return add(ctx, scores, mask)


def _probabilities(ctx: Context, scores: Output, sink: Output | None) -> Output:
    softmax = activation.SoftMax8(axis=3)
    if sink is None:
        return ctx.emit(softmax, scores)
    column = ctx.emit(
        movement.Broadcast3(mode="numpy"),
        reshape(ctx, sink, [1, -1, 1, 1]),
        concat_lists(ctx, [*(dim_of(ctx, scores, axis) for axis in range(3)), ctx.constant(1)]),
    )
    return cut(ctx, ctx.emit(softmax, concat(ctx, 3, scores, column)), 0, -1, 3)


# --- the keys that a query sees ---


@record
class _Visibility:
    """Masks of attention: booleans and additive values, each broadcasting to ``[b, n, s, t]``."""

    allowed: Output | None = None
    bias: Output | None = None
    may_be_empty: bool = False
    """True if a query might see nothing at all."""

    def also(self, ctx: Context, allowed: Output, may_be_empty: bool) -> _Visibility:
        both = allowed if self.allowed is None else layers.logical_and(ctx, self.allowed, allowed)
        return replace(self, allowed=both, may_be_empty=self.may_be_empty or may_be_empty)

    def seen(self, ctx: Context) -> Output | None:
        """Booleans, true where a score is more than minus infinity; None where all are."""
        if self.bias is None:
            return self.allowed
        # Compared element by element: of nothing but -inf an engine may find the least finite number as the maximum.
        finite = layers.not_equal(ctx, self.bias, ctx.like(-np.inf, self.bias))
        return finite if self.allowed is None else layers.logical_and(ctx, self.allowed, finite)

    def finite_mask(self, ctx: Context, like: Output) -> Output | None:
        """Return one additive mask, in which the lowest finite value stands for minus infinity."""
        bias = None if self.bias is None else layers.maximum(ctx, self.bias, ctx.like(lowest(like), self.bias))
        if self.allowed is None or bias is None:
            return bias if self.allowed is None else mask_of(ctx, self.allowed, like)
        return layers.select(ctx, self.allowed, bias, ctx.like(lowest(like), bias))

    def mask(self, ctx: Context) -> Output | None:
        """Merge both masks: booleans where there is no bias, else additive values."""
        if self.bias is None or self.allowed is None:
            return self.allowed if self.bias is None else self.bias
        return layers.select(ctx, self.allowed, self.bias, ctx.like(-np.inf, self.bias))


def _given_mask(ctx: Context, mask: Output, keys: Output) -> _Visibility:
    """The node's mask. From version 24 on it may be narrower than the keys: those behind its end are not seen."""
    rank = ctx.rank(mask, "attn_mask", 1, 2, 3, 4)
    is_boolean = mask.element_type is element_types.boolean
    if not is_boolean:
        mask = in_type(ctx, mask, keys.element_type)
    if rank == 1:
        mask = unsqueeze(ctx, mask, 0)
    width, total = ctx.declared(mask).shape[-1], ctx.declared(keys).shape[2]
    if width.is_static and total.is_static and width.value > total.value:
        raise ctx.invalid(f"attn_mask of the shape {ctx.declared(mask).shape} is wider than the {total} keys")
    # Where both have the same declared width, Add refuses another number of keys; a width of 1 would broadcast.
    always = mask.shape[-1].is_static and keys.shape[2].is_static
    is_wide = width.is_static and width == total and (width.value > 1 or always)
    if ctx.version >= 24 and not is_wide:
        mask = _widen(ctx, mask, keys)
    if is_boolean:
        return _Visibility(mask, None, True)
    return _Visibility(None, mask, value_range(mask).low == -math.inf)


def _widen(ctx: Context, mask: Output, keys: Output) -> Output:
    rank = mask.shape.rank
    missing = subtract(ctx, dim_of(ctx, keys, 2), dim_of(ctx, mask, rank - 1))
    before, after = ctx.constant([0] * rank), concat_lists(ctx, [ctx.constant([0] * (rank - 1)), missing])
    pad = padding.Pad12(pad_mode="constant")
    if mask.element_type is not element_types.boolean:
        return ctx.emit(pad, mask, before, after, ctx.like(-np.inf, mask))
    numbers = in_type(ctx, mask, element_types.u8)
    return in_type(ctx, ctx.emit(pad, numbers, before, after, ctx.like(0, numbers)), element_types.boolean)


@record
class _Positions:
    """The positions of queries and keys, for windows around each query."""

    queries: Output
    """``[s, 1]``, or ``[b, 1, s, 1]`` where that depends on the batch."""
    keys: Output
    """``[t]``"""

    @classmethod
    def of(cls, ctx: Context, q: Output, k: Output, past: Output | None, valid: Output | None) -> _Positions:
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


_WINDOWS = ("left_window_size", "right_window_size")


@onnx_op("Attention", versions=(23,), without=("nonpad_kv_seqlen", *_WINDOWS))
@onnx_op("Attention", versions=(24,), without=_WINDOWS)
@onnx_op("Attention", versions=(25,))
def attention(
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
    qk_matmul_output_mode: Literal[0, 1, 2, 3] = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Output, ...]:
    """SoftMax(scale * query key^T, limited, masked) value, with heads that may share keys.

    Inputs are ``[b, n, s, h]`` or ``[b, s, n h]``; the output of a query that sees no key is zeros. The
    outputs are the attention in the shape of the queries, the keys and values with their past, and the
    scores ``[b, n, s, t]`` after the step that ``qk_matmul_output_mode`` names.
    """
    if (past_key is None) != (past_value is None):
        raise ctx.invalid("past_key and past_value must be given together")
    if past_key is not None and nonpad_kv_seqlen is not None:
        raise ctx.invalid("nonpad_kv_seqlen cannot be given together with past_key and past_value")
    if min(left_window_size, right_window_size) < -1:
        raise ctx.invalid(
            f"window sizes must be -1 or more, but are {left_window_size} (left) and {right_window_size} (right)"
        )
    q, k, v = _separate(ctx, (query, key, value), q_num_heads, kv_num_heads)
    if past_key is not None and past_value is not None:
        k, v = concat(ctx, 2, past_key, k), concat(ctx, 2, past_value, v)
    element_type = q.element_type
    keys, values = _for_each_query_head(ctx, q, k, v)
    values = in_type(ctx, values, element_type)
    visible = _Visibility() if attn_mask is None else _given_mask(ctx, attn_mask, keys)
    valid = None if nonpad_kv_seqlen is None else reshape(ctx, nonpad_kv_seqlen, [-1, 1, 1, 1])
    # With ``causal`` the layer counts from the first key, and takes no other mask.
    plain = attn_mask is None and past_key is None and valid is None and max(left_window_size, right_window_size) < 0
    right = _smaller(0 if is_causal and not plain else -1, right_window_size)
    if right >= 0 or left_window_size >= 0:
        positions = _Positions.of(ctx, q, keys, past_key, valid)
        if left_window_size >= 0:
            visible = visible.also(ctx, positions.from_left(ctx, left_window_size), True)
        if right >= 0:
            visible = visible.also(ctx, positions.to_right(ctx, right), valid is not None)
    if valid is not None:
        numbers = as_i64(ctx, arange(ctx, dim_of(ctx, keys, 2)))
        visible = visible.also(ctx, layers.less(ctx, numbers, valid), True)
    precision = element_type if softmax_precision is None else element_type_of(softmax_precision)
    scores = Scores(scale, softcap, causal=bool(is_causal) and plain)
    if ctx.wants(3) or (precision is not element_type and precision.bits <= element_type.bits):
        visible = _with_causality(ctx, visible, q, keys) if scores.causal else visible
        output, detail = _step_by_step(ctx, (q, keys, values), scores, visible, qk_matmul_output_mode, precision)
    else:
        output, detail = _in_one_layer(ctx, (q, keys, values), scores, visible), None
    if query.shape.rank == 3:
        output = merge_heads(ctx, output)
    return (output, k, v) if detail is None else (output, k, v, detail)


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
    """Keys and values repeated for each head of the queries, of which neighbours share one.

    As many heads as the queries have, or a single one, stay: the products broadcast those, and refuse every
    other number that a reshape might bring.
    """
    heads, own = ctx.declared(q).shape[1], ctx.declared(k).shape[1]
    if heads.is_static and own.is_static:
        if own.value < 1 or heads.value % own.value:
            raise ctx.invalid(f"{heads} heads of queries cannot share {own} heads of keys and values")
        if own.merge(ctx.declared(v).shape[1]) is None:
            raise ctx.invalid(f"{own} heads of keys do not fit {ctx.declared(v).shape[1]} heads of values")
        if own.value in (1, heads.value):
            return k, v
        group = heads.value // own.value
        if k.shape[1].is_static and v.shape[1].is_static:
            return repeat_heads(ctx, k, own.value, group), repeat_heads(ctx, v, own.value, group)
        positions, each = arange(ctx, multiply(ctx, dim_of(ctx, k, 1), ctx.constant(group))), ctx.constant(group)
    else:
        each = dim_of(ctx, q, 1)
        positions = multiply(ctx, arange(ctx, each), dim_of(ctx, k, 1))
    index = layers.truncated_quotient(ctx, positions, each)
    keys, values = (layers.gather(ctx, part, index, ctx.constant(1)) for part in (k, v))
    return keys, values


def _smaller(a: int, b: int) -> int:
    """The smaller of two bounds, of which -1 is none."""
    return max(a, b) if min(a, b) < 0 else min(a, b)


def _with_causality(ctx: Context, visible: _Visibility, q: Output, keys: Output) -> _Visibility:
    return visible.also(ctx, _Positions.of(ctx, q, keys, None, None).to_right(ctx, 0), False)


def _in_one_layer(ctx: Context, parts: Sequence[Output], scores: Scores, visible: _Visibility) -> Output:
    q, k, v = parts
    if visible.may_be_empty and ctx.graphs.is_stateful:
        # Rows without keys are padding, which nobody reads, but whose NaN would spread.
        return attended(ctx, q, k, v, replace(scores, mask=_of_rank_two(ctx, visible.finite_mask(ctx, q))))
    if not visible.may_be_empty:
        return attended(ctx, q, k, v, replace(scores, mask=_of_rank_two(ctx, visible.mask(ctx))))
    mask, sees = _never_empty(ctx, visible)
    output = attended(ctx, q, k, v, replace(scores, mask=mask))
    return output if sees is None else layers.select(ctx, sees, output, ctx.like(0, output))


def _of_rank_two(ctx: Context, mask: Output | None) -> Output | None:
    return unsqueeze(ctx, mask, 0) if mask is not None and mask.shape.rank == 1 else mask


def _never_empty(ctx: Context, visible: _Visibility) -> tuple[Output, Output | None]:
    """A mask in which each row sees a key, and ``[..., s, 1]``: which rows see one in the original mask.

    The latter is None where all are known to.
    """
    seen, mask = visible.seen(ctx), visible.mask(ctx)
    assert seen is not None
    assert mask is not None
    any_of = reduction.ReduceLogicalOr1(keep_dims=True)
    sees = ctx.emit(any_of, seen, ctx.constant([seen.shape.rank - 1]))
    constant = sees.type.constant
    if constant is not None and constant.all():
        return mask, None
    if mask.element_type is element_types.boolean:
        return layers.logical_or(ctx, mask, layers.logical_not(ctx, sees)), sees
    return layers.select(ctx, sees, mask, ctx.like(0, mask)), sees


def _step_by_step(
    ctx: Context, parts: Sequence[Output], scores: Scores, visible: _Visibility, mode: int, precision: ElementType
) -> tuple[Output, Output]:
    """The attention, and the scores after the step ``mode``."""
    q, k, v = parts
    details = [_products(ctx, q, k, scores.scale)]
    details.append(_limit(ctx, details[0], scores.softcap) if scores.softcap else details[0])
    details.append(_mask(ctx, details[1], visible.mask(ctx)))
    whole, sees = details[2], None
    if visible.may_be_empty:
        mask, sees = _never_empty(ctx, visible)
        whole = _mask(ctx, details[1], mask)
    probabilities = in_type(ctx, _probabilities(ctx, in_type(ctx, whole, precision), None), q.element_type)
    if sees is not None:
        probabilities = layers.select(ctx, sees, probabilities, ctx.like(0, probabilities))
    details.append(probabilities)
    return ctx.emit(matmul.MatMul1(), probabilities, v), details[mode]
