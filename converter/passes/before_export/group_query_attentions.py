"""Fuse attention over a cache into onnxruntime's GroupQueryAttention, which joins the cache and the new keys itself.

past, new -> Concat -> [repeated heads ->] ScaledDotProductAttention(mask)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from converter.onnx_file.domains import MICROSOFT
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Node, Output, element_types
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import Convert1
from ir_runtime.operations.movement import Broadcast3, Concat1
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import add, in_type, reshape, subtract, transpose, unsqueeze
from ir_runtime.rewriting.shape_layers import concat_lists, dimension_list

from .attention_masks import additive, is_broadcast_to_scores
from .attentions import known_number
from .heads import without_repetition
from .operators import emit_operator, may_use_contrib
from .registry import before_export

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


@before_export.replaces("group_query_attentions")
def group_query_attention(builder: Builder, node: Node) -> Replacement:
    """Replace attention over a cache by GroupQueryAttention with the mask as its bias, and the Concats by its outputs.

    The operator gives the keys and values of all positions, which take the place of what the Concats gave.
    """
    assert isinstance(node.op, ScaledDotProductAttention13)
    caches = [_Cache.of(source) for source in node.inputs[1:3]]
    if not may_use_contrib() or node.op.causal or len(node.inputs) not in (4, 5) or None in caches:
        return fail("operators of com.microsoft may not be used, or it has no cache and mask")
    keys, values = (cache for cache in caches if cache is not None)
    sizes, query = keys.sizes, node.inputs[0]
    heads = query.shape[1] if query.shape.has_rank and query.shape.rank == 4 else None
    if sizes is None or sizes != values.sizes or heads is None or not heads.is_static or heads.value % sizes[0]:
        return fail("the heads are not known, or not shared in groups")
    mask, scale = node.inputs[3], None
    if len(node.inputs) == 5:
        scale = known_number(node.inputs[4])
        if not scale:  # a factor of 0 means the default one
            return fail("the scale is computed, or 0")
    if not is_broadcast_to_scores(mask, query, keys.present) or query.element_type not in _TYPES:
        return fail("the mask does not have the dimensions of the scores, or the type is another one")
    presents = [keys.present, values.present]
    if any(_depends_on(value, presents) for value in (query, keys.new, values.new, mask)):
        return fail("an input is computed from the keys and values of all positions")
    count, size = sizes
    merged = [
        reshape(builder, transpose(builder, value, builder.constant([0, 2, 1, 3])), [0, 0, number * size])
        for value, number in zip((query, keys.new, values.new), (heads.value, count, count))
    ]
    lengths = _lengths(builder, keys)
    attended, *all_positions = emit_operator(
        builder,
        "GroupQueryAttention",
        [
            *merged,
            keys.past,
            values.past,
            lengths.last,
            lengths.total,
            None,
            None,
            None,
            _bias(builder, mask, query, lengths),
        ],
        [merged[0], *presents],
        domain=MICROSOFT,
        num_heads=heads.value,
        kv_num_heads=count,
        causal=0,
        scale=scale,
    )
    for old, new in zip(presents, all_positions):
        old.replace_by(new)
    return transpose(builder, reshape(builder, attended, [0, 0, heads.value, size]), builder.constant([0, 2, 1, 3]))


class _Lengths(NamedTuple):
    """Lengths as GroupQueryAttention takes them, computed once for all layers of a model."""

    last: Output
    """The last position of each batch."""
    total: Output
    """The number of positions."""
    mask: Output
    """The shape of a mask: 1, 1, the new positions and all positions."""


def _lengths(builder: Builder, keys: _Cache) -> _Lengths:
    new, past = (symbolic_shapes().dims(value) for value in (keys.new, keys.past))
    dims = (keys.new, keys.past) if new is None or past is None else (new[0], new[2], past[2])

    def emit() -> _Lengths:
        batch, steps = (dimension_list(builder, keys.new, axis) for axis in (0, 2))
        total = add(builder, steps, dimension_list(builder, keys.past, 2))
        last = in_type(builder, subtract(builder, total, builder.constant([1])), element_types.i32)
        return _Lengths(
            builder.emit(Broadcast3(mode="bidirectional"), last, batch),
            in_type(builder, reshape(builder, total, []), element_types.i32),
            concat_lists(builder, [builder.constant([1, 1]), steps, total]),
        )

    return builder.once(("lengths of a cache", *dims), emit)


def _bias(builder: Builder, mask: Output, query: Output, lengths: _Lengths) -> Output:
    """Return the additive mask of the scores for every new position."""
    added = additive(builder, mask, query.element_type)
    if mask.shape.rank == 2:
        added = unsqueeze(builder, added, 0, 1)
    return builder.emit(Broadcast3(mode="bidirectional"), added, lengths.mask)


def _depends_on(value: Output, others: Sequence[Output]) -> bool:
    """Return whether a value is computed from one of the others."""
    pending, seen = [value], set[Output]()
    while pending:
        dependency = pending.pop()
        if dependency in others:
            return True
        if dependency not in seen:
            seen.add(dependency)
            pending += dependency.node.inputs
    return False
