"""Fuse attention into operators of ONNX and of onnxruntime, whose masks and caches are other values than the IR's.

A row that sees no key is NaN in the IR, and zeros in ONNX's operator. Besides, onnxruntime (opsets 23 and 24) takes the
lowest finite number for minus infinity: a row of nothing else is zeros there, and the mean of all values in the IR. Its
sums of scores and masks of float16 are float16, in which a row of large numbers loses its scores. Such rows are changed
in the mask, which all layers of a model share, rather than in the output of each layer.

Letters in shapes: b batches, s and t positions, h heads, d elements of a head.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from converter.onnx_file.domains import MICROSOFT
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import Array, Dimension, ElementType, Node, Output, element_types
from ir_runtime.operations import elementwise as ir
from ir_runtime.operations.attention import ScaledDotProductAttention13, is_no_mask
from ir_runtime.operations.elementwise import Add1, Convert1
from ir_runtime.operations.movement import Broadcast3, Concat1, Reshape1, Transpose1, Unsqueeze1
from ir_runtime.operations.reduction import ReduceLogicalOr1, ReduceMax1
from ir_runtime.rewriting import (
    Builder,
    Match,
    NotMatched,
    Pattern,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
)
from ir_runtime.rewriting.layers import (
    add,
    equal,
    in_type,
    maximum,
    multiply,
    reshape,
    select,
    subtract,
    transpose,
    unsqueeze,
)
from ir_runtime.rewriting.shape_layers import concat_lists, dimension_list

from .operators import emit_operator, may_use, may_use_contrib
from .registry import before_export

_LOWEST = float(np.finfo(np.float32).min)
"""The number that hides a key in onnxruntime as minus infinity does."""
_LARGE = 64.0
"""From here on float16 keeps less than four binary digits behind the point of what is added."""


def _is_over_keys(seen: Output) -> str | None:
    """Return the reason why a layer does not tell for each row if any key is visible."""
    node = seen.node
    rank, axes = node.inputs[0].shape.rank if node.inputs[0].shape.has_rank else 0, node.inputs[1].type.constant
    is_last = axes is not None and axes.reshape(-1).tolist() in ([-1], [rank - 1])
    return None if is_last and node.op.keep_dims else "is not over the keys of a row"  # type: ignore[attr-defined]


def _all(test: Callable[[Array], Array], expected: str) -> Pattern:
    """A constant whose elements all pass a test."""
    return constant(check=lambda value: None if test(value.type.constant).all() else f"is not {expected}")  # type: ignore[arg-type]


_NUMBERS = anything("numbers")
_GREATEST = layer(ReduceMax1, _NUMBERS)
_EXACT = either(
    layer(ir.Subtract1, _NUMBERS, either(_GREATEST, layer(ir.Maximum1, _GREATEST))),
    layer(ir.Add1, _NUMBERS, layer(ir.Select1, layer(ir.Equal1, _GREATEST))),
)
_WITHOUT_HIDDEN_ROWS = layer(ir.Add1, _NUMBERS, layer(ir.Subtract1, _GREATEST))

_MASK = anything("mask")
_HIDDEN = _all(np.isneginf, "minus infinity")
_ANY = layer(ReduceLogicalOr1, _MASK, name="seen", check=_is_over_keys)
_ANY_FINITE = layer(ReduceLogicalOr1, layer(ir.NotEqual1, _MASK, _HIDDEN), name="seen", check=_is_over_keys)
_GUARDED = either(
    layer(ir.LogicalOr1, _MASK, layer(ir.LogicalNot1, _ANY)),
    layer(ir.Select1, _ANY, _MASK, _all(np.asarray, "true")),
    layer(ir.Select1, _ANY_FINITE, _MASK, _all(np.logical_not, "zero")),
)
"""A mask that shows all keys to the rows that have none."""


def is_broadcast_to_scores(mask: Output, query: Output, key: Output) -> bool:
    """True if the scores of ``query`` and ``key`` keep their shape when the mask is added to them.

    The mask has two or four dimensions, the others have four. A dimension that is unknown on both sides counts as
    equal: onnxruntime refuses another one.
    """
    if not mask.shape.has_rank or mask.shape.rank not in (2, 4):
        return False
    indices = range(4 - mask.shape.rank, 4)
    scores = [query.shape[0], query.shape[1], query.shape[2], key.shape[2]]
    symbols = [symbolic_shapes().dims(source) for source in (mask, query, key)]
    if None in symbols:
        return all(_fits(mask.shape[index - 4], scores[index]) for index in indices)
    sizes, (batch, heads, rows, _), (_, _, columns, _) = (dims for dims in symbols if dims is not None)
    equal = (batch, heads, rows, columns)
    return all(sizes[index - 4] == equal[index] or _fits(mask.shape[index - 4], scores[index]) for index in indices)


def _fits(size: Dimension, scores: Dimension) -> bool:
    """True if a dimension of the mask is 1 or equal to that of the scores, as far as both are known."""
    if size.is_static and size.value == 1:
        return True
    if size.is_static and scores.is_static:
        return size.value == scores.value
    # A single row of scores would be repeated for each row of the mask.
    return not scores.contains(1) or (not size.is_static and not scores.is_static)


def exact_mask(
    builder: Builder, mask: Output, element_type: ElementType, *, hidden_rows_are_zero: bool = False
) -> Output:
    """Return the mask of scores of this type, with other numbers in the rows that Attention computes differently.

    ``hidden_rows_are_zero`` is for layers of the IR that make rows without keys zero, as ONNX's operator does.
    """
    may_hide_rows = not hidden_rows_are_zero and not _sees_some_key(mask)
    if mask.element_type is element_types.boolean:
        if not may_hide_rows:
            return mask
        return _with_other_rows(builder, additive(builder, mask, element_type), False, True)
    least = value_range(mask).low
    if element_type is element_types.f16:
        if least >= -_LARGE or _is_constant_above(mask, -_LARGE) or _is_exact(mask):
            return mask
        return _relative(builder, mask, may_hide_rows)
    # Numbers of bfloat16 are computed as float32; none of them is the lowest one there.
    has_lowest = element_type is element_types.f32 and least <= _LOWEST and _may_be_lowest(mask)
    if not has_lowest and (least > -math.inf or not may_hide_rows):
        return mask
    if _is_constant_above(mask, _LOWEST) or _is_exact(mask):
        return mask
    if least > -math.inf:  # the last number but one in place of the lowest number
        return maximum(builder, mask, builder.like(np.nextafter(np.float32(_LOWEST), np.float32(0)), mask))
    return _with_other_rows(builder, mask, has_lowest, may_hide_rows)


def additive(builder: Builder, mask: Output, element_type: ElementType) -> Output:
    """Return the zeros and minus infinities that a boolean mask stands for; any other mask as it is."""
    if mask.element_type is not element_types.boolean:
        return mask
    return select(builder, mask, builder.constant(0.0, element_type), builder.constant(-math.inf, element_type))


def _greatest(builder: Builder, mask: Output) -> Output:
    return builder.emit(ReduceMax1(keep_dims=True), mask, builder.constant([-1]))


def _relative(builder: Builder, mask: Output, may_hide_rows: bool) -> Output:
    """Return the mask less the greatest number of each row, which Softmax does not see; NaN in rows of -inf."""
    greatest = _greatest(builder, mask)
    if not may_hide_rows:
        greatest = maximum(builder, greatest, builder.like(np.finfo(np.float16).min, mask))
    return subtract(builder, mask, greatest)


def _with_other_rows(builder: Builder, mask: Output, has_lowest: bool, may_hide_rows: bool) -> Output:
    """Return the mask; NaN in rows of minus infinity, and the last number but one in rows of the lowest number."""
    greatest = _greatest(builder, mask)
    # The difference of infinities is NaN.
    change = subtract(builder, greatest, greatest) if may_hide_rows else builder.like(0, mask)
    if has_lowest:
        lowest = np.float32(_LOWEST)
        step = builder.like(np.nextafter(lowest, np.float32(0)) - lowest, mask)
        change = select(builder, equal(builder, greatest, builder.like(_LOWEST, mask)), step, change)
    return add(builder, mask, change)


def _is_exact(mask: Output) -> bool:
    """True for what :func:`_relative` and :func:`_with_other_rows` write, in an IR that was made from such a model."""
    return isinstance(_EXACT.match(mask), Match)


def _may_be_lowest(mask: Output) -> bool:
    """False if no number of the mask is the lowest one, as far as its last layers tell."""
    constant = mask.type.constant
    if constant is not None:
        return bool((constant == _LOWEST).any())
    node = mask.node
    if isinstance(node.op, ir.Select1):
        return any(_may_be_lowest(choice) for choice in node.inputs[1:])
    # What is added otherwise is 0 or NaN.
    return isinstance(_WITHOUT_HIDDEN_ROWS.match(mask), NotMatched) or _may_be_lowest(node.inputs[0])


def _is_constant_above(mask: Output, limit: float) -> bool:
    """True for a constant whose rows all have a number above the limit, or NaN."""
    constant = mask.type.constant
    return constant is not None and not (constant.max(axis=-1, initial=-math.inf) <= limit).any()


def _sees_some_key(mask: Output) -> bool:
    """True if each row of a mask is known to see a key."""
    constant = mask.type.constant
    if constant is not None:
        is_seen = constant if constant.dtype == np.bool_ else constant > -math.inf
        return bool(is_seen.any(axis=-1).all())
    return guarded_mask(mask) is not None


def guarded_mask(guarded: Output, is_seen: Output | None = None) -> Output | None:
    """The mask that a layer shows all keys of to rows without any; ``is_seen`` tells which rows have one."""
    match = _GUARDED.match(guarded)
    return None if isinstance(match, NotMatched) or is_seen not in (None, match["seen"]) else match["mask"]


def is_zero(output: Output) -> bool:
    values = output.type.constant
    return values is not None and not values.any()


_COPIED = layer(Broadcast3, layer(Unsqueeze1, anything("heads"), constant("axis")), constant("counts"), name="copied")
_MERGED = layer(Reshape1, _COPIED, constant("sizes"), name="merged")


def without_repetition(repeated: Output) -> Output | None:
    """The heads ``[b, n, t, h]`` of which each stands as often in a row in ``repeated`` ``[b, n r, t, h]``.

    None where the layers in front are not Unsqueeze, Broadcast by constant counts, and a Reshape that merges the new
    dimension with the heads.
    """
    match = _MERGED.match(repeated)
    if isinstance(match, NotMatched):
        return None
    heads, copied, merged = match["heads"], match.node("copied").op, match.node("merged").op
    axis, counts, sizes = (match.array(name).reshape(-1).tolist() for name in ("axis", "counts", "sizes"))
    assert isinstance(copied, Broadcast3)
    assert isinstance(merged, Reshape1)
    if axis not in ([2], [-3]) or copied.mode != "bidirectional" or not merged.special_zero or not heads.shape.has_rank:
        return None
    if heads.shape.rank != 4 or not heads.shape[1].is_static or not heads.shape[3].is_static:
        return None
    _, count, _, width = heads.shape.dims
    is_repeated = counts == [1, 1, counts[2], 1, 1] and sizes == [0, count.value * counts[2], -1, width.value]
    return heads if is_repeated else None


_TYPES = (element_types.f32, element_types.f16, element_types.bf16)
"""The types that onnxruntime's Attention computes without a loss."""


@before_export.replaces("attentions_of_rows_without_keys")
def of_rows_without_keys(builder: Builder, node: Node) -> Replacement:
    """Replace the Select, which makes rows without keys zero, by Attention.

    query, key, value, mask -> ScaledDotProductAttention -> Select(is seen, ..., 0)      becomes      Attention
    """
    is_seen, attended, zero = node.inputs
    attention = attended.node
    op = attention.op
    if not isinstance(op, ScaledDotProductAttention13) or len(attention.inputs) not in (4, 5) or op.causal:
        return fail("it selects between no attention with a mask and zero")
    mask = guarded_mask(attention.inputs[3], is_seen)
    if mask is None or not is_zero(zero):
        return fail("the mask does not show all keys to the rows that become zero")
    _check(attention, mask)
    mask = exact_mask(builder, mask, attended.element_type, hidden_rows_are_zero=True)
    return _fuse(builder, node, attention, mask)


@before_export.replaces("attentions")
def attention(builder: Builder, node: Node) -> Replacement:
    """Replace attention of four dimensions without a sink by Attention."""
    assert isinstance(node.op, ScaledDotProductAttention13)
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    if mask is not None and (node.op.causal or is_no_mask(mask.type)):
        mask = None
    if len(node.inputs) > 5:
        return fail("Attention has no sink")
    _check(node, mask)
    exact = None if mask is None else exact_mask(builder, mask, node.outputs[0].element_type)
    return _fuse(builder, node, node, exact)


def _fuse(builder: Builder, node: Node, attention: Node, mask: Output | None) -> Replacement:
    assert isinstance(attention.op, ScaledDotProductAttention13)
    query, (key, value) = attention.inputs[0], _grouped_sources(attention)
    scale = attention.inputs[4] if len(attention.inputs) > 4 else None
    factor = None if scale is None else known_number(scale)
    if scale is not None and (factor is None or not 0 < factor < math.inf):  # others are refused
        query, factor = multiply(builder, query, reshape(builder, scale, [])), 1.0
    if mask is not None:
        mask = _for_each_row(builder, mask, query, key)
    return emit_operator(
        builder,
        "Attention",
        [query, key, value, mask],
        node.outputs,
        is_causal=int(attention.op.causal) or None,
        scale=factor,
    )


def known_number(value: Output) -> float | None:
    """Return the number that a constant of one element holds."""
    constant = value.type.constant
    return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _for_each_row(builder: Builder, mask: Output, query: Output, key: Output) -> Output:
    """Return a mask with the last two dimensions of the scores: onnxruntime broadcasts the ones before them alone."""
    sizes = [builder.constant([1])] * mask.shape.rank
    repeated = [axis for axis in (-2, -1) if mask.shape[axis] == Dimension(1, 1)]
    for axis in repeated:
        sizes[axis] = dimension_list(builder, query if axis == -2 else key, 2)
    constants = [size.type.constant for size in sizes]
    if all(constant is not None and np.all(constant == 1) for constant in constants):
        return mask
    return builder.emit(Broadcast3(mode="bidirectional"), mask, concat_lists(builder, sizes))


def _grouped_sources(node: Node) -> tuple[Output, Output]:
    """Return keys and values without what repeats their heads for those of the query."""
    key, value = (without_repetition(source) for source in node.inputs[1:3])
    if key is None or value is None or key.shape[1] != value.shape[1]:
        return node.inputs[1], node.inputs[2]
    return key, value


def _check(node: Node, mask: Output | None) -> None:
    """Raise why onnxruntime's Attention does not take these types and shapes.

    Where it does, there is one batch, the heads of the query share those of the key in groups, and nothing is empty.
    """
    if not may_use(23):
        raise fail("Attention needs opset 23")
    query, sources = node.inputs[0], _grouped_sources(node)
    shapes = [source.shape for source in (query, *sources)]
    if query.element_type not in _TYPES or not all(shape.has_rank and shape.rank == 4 for shape in shapes):
        raise fail("its data is not of four dimensions, or of another type")
    if any(size.is_static and size.value == 0 for shape in shapes for size in shape.dims):
        raise fail("a dimension is 0")
    if not all(shape[1].is_static for shape in shapes):
        raise fail("the number of heads is not known")
    heads, groups, of_values = (shape[1].value for shape in shapes)
    if groups != of_values or heads % groups:
        raise fail("the heads of the query do not share those of the keys in groups")
    if len({shape[0].value if shape[0].is_static else -1 for shape in shapes}) > 1:
        raise fail("the batches differ, or are not known")
    if mask is not None and not is_broadcast_to_scores(mask, query, sources[0]):
        raise fail("the mask does not have the dimensions of the scores")


_CACHED_TYPES = (element_types.f32, element_types.f16)


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

    past, new -> Concat -> [repeated heads ->] ScaledDotProductAttention(mask)

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
    if not is_broadcast_to_scores(mask, query, keys.present) or query.element_type not in _CACHED_TYPES:
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


_HEADS_FIRST = [0, 2, 1, 3]


class _Projection(NamedTuple):
    """A query, keys or values ``[b, s, h * d]``, without the bias that is added before heads are divided."""

    source: Output
    unbiased: Output
    bias: Array | None


@before_export.replaces("multi_head_attentions")
def multi_head_attention(builder: Builder, node: Node) -> Replacement:
    """Replace the Reshape that merges the heads by MultiHeadAttention without a mask.

    [-> Add(bias)] -> Reshape -> Transpose -> ScaledDotProductAttention -> Transpose -> Reshape
    """
    joined = node.outputs[0]
    attended = _transposed(node.inputs[0])
    if not may_use_contrib():
        return fail("operators of com.microsoft may not be used")
    if attended is None or joined.element_type is not element_types.f32:
        return fail("it merges no heads of float32")
    attention = attended.node
    is_attention = isinstance(attention.op, ScaledDotProductAttention13) and attended.only_user is not None
    if not is_attention or _has_mask(attention):
        return fail("the heads are not those of an attention without a mask")
    projections = [_projection(source) for source in attention.inputs[:3]]
    query_dims, joined_dims = (symbolic_shapes().dims(value) for value in (attention.inputs[0], joined))
    sizes = attention.inputs[0].shape
    if query_dims is None or joined_dims is None or not (sizes[1].is_static and sizes[3].is_static):
        return fail("the number of heads or their size is not known")
    heads, size = sizes[1].value, sizes[3].value
    if [dimension.value for dimension in joined_dims[2:]] != [heads * size]:
        return fail("the last dimension is not that of all heads")
    if joined_dims[:2] != [query_dims[0], query_dims[2]] or not _are_alike(attention, heads, size):
        return fail("batches, positions or heads differ")
    query, key, value = projections
    if query is None or key is None or value is None:
        return fail("a query, keys or values are not split into heads")
    scale = known_number(attention.inputs[4]) if len(attention.inputs) > 4 else None
    if len(attention.inputs) > 4 and not scale:  # 0 means the default one
        return fail("the scale is computed, or 0")
    chosen, bias = (query, key, value), None
    sources = [projection.source for projection in chosen]
    biases = [projection.bias for projection in chosen if projection.bias is not None]
    if len(biases) == len(chosen):
        bias = builder.constant(np.concatenate(biases), element_types.f32)
        sources = [projection.unbiased for projection in chosen]
    inputs = [*sources, bias]
    return emit_operator(
        builder, "MultiHeadAttention", inputs, node.outputs, domain=MICROSOFT, num_heads=heads, scale=scale
    )


def _has_mask(node: Node) -> bool:
    """True if an attention reads a mask or a sink, or is causal; a number that is no boolean is no mask."""
    assert isinstance(node.op, ScaledDotProductAttention13)
    if len(node.inputs) < 4 or node.op.causal:
        return node.op.causal
    mask = node.inputs[3]
    return not is_no_mask(mask.type) or len(node.inputs) > 5


def _transposed(source: Output) -> Output | None:
    """What a Transpose that exchanges heads and positions reads, if nothing else reads the result."""
    node = source.node
    if not isinstance(node.op, Transpose1) or source.only_user is None:
        return None
    order = node.inputs[1].type.constant
    return node.inputs[0] if order is not None and order.reshape(-1).tolist() == _HEADS_FIRST else None


def _projection(heads: Output) -> _Projection | None:
    """What ``[b, h, s, d]`` is divided from; None where it is made in another way."""
    divided = _transposed(heads)
    if divided is None or not isinstance(divided.node.op, Reshape1) or divided.only_user is None:
        return None
    source = divided.node.inputs[0]
    dims, before = symbolic_shapes().dims(divided), symbolic_shapes().dims(source)
    if dims is None or before is None or len(before) != 3 or before[:2] != dims[:2]:
        return None
    node = source.node
    if isinstance(node.op, Add1) and source.only_user is not None:
        for product, bias in node.orders:
            numbers = bias.type.constant
            if numbers is not None and numbers.size == before[2].value and numbers.shape[-1:] == (numbers.size,):
                return _Projection(source, product, numbers.reshape(-1))
    return _Projection(source, source, None)


def _are_alike(node: Node, heads: int, size: int) -> bool:
    """True if keys and values have the heads of the query, of its size, and the same positions."""
    query, key, value = (symbolic_shapes().dims(source) for source in node.inputs[:3])
    if query is None or key is None or value is None or not all(len(dims) == 4 for dims in (query, key, value)):
        return False
    own = [[dims[axis].value for axis in (1, 3)] for dims in (query, key, value)]
    if own != [[heads, size]] * 3 or key[2] != value[2] or not query[0] == key[0] == value[0]:
        return False
    return key[2] == query[2] or symbolic_shapes().is_never(key[2], 0)
