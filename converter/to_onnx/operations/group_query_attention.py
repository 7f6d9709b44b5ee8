"""Attention over a cache as onnxruntime's GroupQueryAttention, which joins the cache and the new keys itself."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import NamedTuple

from converter.onnx_file.domains import MICROSOFT
from converter.to_onnx import Context, Value, ir_idiom, ir_op
from converter.to_onnx.attention_masks import is_broadcast_to_scores
from converter.to_onnx.heads import without_repetition
from converter.to_onnx.layers import concat, known_number, reshape, transpose, unsqueeze
from ir_runtime.graph import ElementType, Node, Output, element_types
from ir_runtime.operations.attention import GroupQueryAttention, ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.movement import Concat1

_TYPES = (element_types.f32, element_types.f16)


class _Cache(NamedTuple):
    """Keys or values: those before, the new ones, and both ``[b, n, t, d]``."""

    past: Output
    new: Output
    present: Output

    @classmethod
    def of(cls, source: Output) -> _Cache | None:
        """The cache that keys or values come from; None where there is none."""
        joined = without_repetition(source) or source
        node = joined.node
        if not isinstance(node.op, Concat1) or len(node.inputs) != 2 or not joined.shape.has_rank:
            return None
        past, new = node.inputs
        # In a model of float16 between inputs of float32 the cache is converted.
        cache = past.node.inputs[0] if isinstance(past.node.op, Convert1) else past
        is_cache = cache.node.op.role == "parameter" and node.op.axis in (2, -2) and joined.shape.rank == 4
        return cls(past, new, joined) if is_cache else None

    @property
    def sizes(self) -> tuple[int, int] | None:
        """The number of heads and their size, where both are known."""
        _, heads, _, size = self.present.shape.dims
        return (heads.value, size.value) if heads.is_static and size.is_static else None


@ir_idiom(ScaledDotProductAttention13)
def group_query_attention(ctx: Context, op: ScaledDotProductAttention13) -> Value | None:
    """GroupQueryAttention with the mask as its bias, where contrib operators may be used"""
    node = ctx.node
    caches = [_Cache.of(source) for source in node.inputs[1:3]]
    if not ctx.contrib or op.causal or len(node.inputs) not in (4, 5) or None in caches:
        return None
    keys, values = (cache for cache in caches if cache is not None)
    sizes, query = keys.sizes, node.inputs[0]
    heads = query.shape[1] if query.shape.has_rank and query.shape.rank == 4 else None
    if sizes is None or sizes != values.sizes or heads is None or not heads.is_static or heads.value % sizes[0]:
        return None
    mask, scale = ctx.value(node.inputs[3]), None
    if len(node.inputs) == 5:
        scale = known_number(ctx, ctx.value(node.inputs[4]))
        if scale is None or scale == 0:  # a factor of 0 means the default one
            return None
    is_fitting = is_broadcast_to_scores(ctx, node.inputs[3], query, keys.present) and query.element_type in _TYPES
    presents = [ctx.value(cache.present) for cache in (keys, values)]
    inputs = [ctx.value(source) for source in (query, keys.new, values.new)]
    if not is_fitting or any(_depends_on(value, presents) for value in (*inputs, mask)):
        return None
    attended = _emit(ctx, node, inputs, (keys, values), mask, scale, sizes)
    for index, present in enumerate(presents, 1):
        _take_over(ctx, attended.node, present, index)
    spread = reshape(ctx, attended, [0, 0, heads.value, sizes[1]])
    return transpose(ctx, spread, [0, 2, 1, 3])


def _emit(
    ctx: Context,
    node: Node,
    inputs: list[Value],
    caches: tuple[_Cache, _Cache],
    mask: Value,
    scale: float | None,
    sizes: tuple[int, int],
) -> Value:
    count, size = sizes
    heads = node.inputs[0].shape[1].value
    element_type = inputs[0].element_type
    flat = [
        reshape(ctx, transpose(ctx, value, [0, 2, 1, 3]), [0, 0, number * size])
        for value, number in zip(inputs, (heads, count, count))
    ]
    lengths = _lengths(ctx, caches[0])
    return ctx.emit_many(
        "GroupQueryAttention",
        *flat,
        *(ctx.value(cache.past) for cache in caches),
        lengths.last,
        lengths.total,
        *(None, None, None),
        _bias(ctx, mask, element_type, lengths),
        count=3,
        domain=MICROSOFT,
        types=[element_type, element_type, element_type],
        num_heads=heads,
        kv_num_heads=count,
        causal=0,
        scale=scale,
    )[0]


class _Lengths(NamedTuple):
    """Lengths as GroupQueryAttention takes them, computed once for all layers of a model."""

    last: Value
    """The last position of each batch."""
    total: Value
    """The number of positions."""
    shape: Value
    """The shape of a mask: 1, 1, the new positions and all positions."""
    dims: tuple[Hashable, ...]


def _lengths(ctx: Context, keys: _Cache) -> _Lengths:
    new, past = ctx.dims(keys.new), ctx.dims(keys.past)
    dims = (keys.new, keys.past) if new is None or past is None else (new[0], new[2], past[2])

    def make() -> _Lengths:
        shape, before = (ctx.emit("Shape", ctx.value(keys_part)) for keys_part in (keys.new, keys.past))
        batch, steps, cached = (
            ctx.emit("Gather", sizes, ctx.constant([place]), axis=0)
            for sizes, place in ((shape, 0), (shape, 2), (before, 2))
        )
        total = ctx.emit("Add", steps, cached)
        last = ctx.cast(ctx.emit("Sub", total, ctx.constant([1])), element_types.i32)
        return _Lengths(
            ctx.emit("Expand", last, batch),
            ctx.cast(reshape(ctx, total, []), element_types.i32),
            concat(ctx, [ctx.constant([1, 1]), steps, total], 0),
            dims,
        )

    return ctx.once(("lengths of a cache", *dims), make)


def _bias(ctx: Context, mask: Value, element_type: ElementType, lengths: _Lengths) -> Value:
    """Return the additive mask of the scores: 0 and -inf for a boolean one, for every new position."""

    def make() -> Value:
        added = mask
        if mask.element_type is element_types.boolean:
            added = ctx.emit("Where", mask, ctx.constant(0.0, element_type), ctx.constant(-math.inf, element_type))
        if mask.shape.has_rank and mask.shape.rank == 2:
            added = unsqueeze(ctx, added, [0, 1])
        return ctx.emit("Expand", added, lengths.shape)

    return ctx.once(("bias of a cache", mask, element_type, *lengths.dims), make)


def _take_over(ctx: Context, attention: Node, present: Value, index: int) -> None:
    """Let the attention make the keys or values that a Concat has made."""
    ctx.graph.nodes.remove(present.node)
    attention.outputs[index], present.node, present.index = present, attention, index


def _depends_on(value: Value, others: list[Value]) -> bool:
    """True if a value is computed from one of the others."""
    pending, seen = [value], set[Value]()
    while pending:
        dependency = pending.pop()
        if dependency in others:
            return True
        if dependency not in seen:
            seen.add(dependency)
            pending += dependency.node.inputs
    return False


@ir_op(GroupQueryAttention)
def group_query_attention_of_the_importer(ctx: Context, op: GroupQueryAttention, *inputs: Value) -> list[Value]:
    """GroupQueryAttention, where contrib operators may be used"""
    if not ctx.contrib:
        ctx.fail("only the operator of com.microsoft computes it, which needs --contrib")
    flat = [
        reshape(ctx, transpose(ctx, value, [0, 2, 1, 3]), [0, 0, -1]) if place < 3 else value
        for place, value in enumerate(inputs)
    ]
    return ctx.emit_many(
        "GroupQueryAttention",
        *(None if source.element_type.is_dynamic else value for source, value in zip(ctx.node.inputs, flat)),
        count=3,
        domain=MICROSOFT,
        types=[inputs[0].element_type] * 3,
        causal=None if op.causal else 0,
        do_rotary=int(op.do_rotary) or None,
        kv_num_heads=op.kv_num_heads,
        local_window_size=op.local_window_size,
        num_heads=op.num_heads,
        rotary_interleaved=int(op.rotary_interleaved) or None,
        scale=op.scale or None,
        smooth_softmax=int(op.smooth_softmax) or None,
    )
