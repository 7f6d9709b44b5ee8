"""Attention of float32: some rows of scores at a time, and keys of repeated heads as they are, without the repetition.

Where several heads of queries share a head of keys and values, models repeat the latter: a new dimension behind the
heads (Unsqueeze, Broadcast), which a Reshape merges with them. In NumPy the repetition is a view and the Reshape is
what copies. So a fused step takes the Reshapes with the attention, and views of repeated heads as groups of queries.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.movement import Reshape1
from ir_runtime.records import record

from .registry import Prepared, Site, Step, fusion, is_float32, kernel
from .softmax import exponentials, exponentials_of_rows
from .threads import Workers

_BLOCK_ELEMENTS = 1 << 20
"""Scores that are computed at a time; products of fewer rows are slower."""
_ALL_HEADS_ELEMENTS = 1 << 17
"""Up to this number of scores all heads are computed at once."""

_MAX_ROWS_FOR_TRANSPOSED_PRODUCT = 16
_MIN_KEYS_FOR_TRANSPOSED_PRODUCT = 512
"""For few queries and many keys the library computes the product of keys and queries in half the time."""


@kernel(ScaledDotProductAttention13)
def attention(node: Node, site: Site) -> Prepared | None:
    run = _attention(node, site.workers)
    return None if run is None else Prepared(run, fills=True)


@fusion
def attention_of_repeated_heads(site: Site) -> list[Step]:
    steps = [_repeated_heads(node, site) for node in site.nodes if isinstance(node.op, ScaledDotProductAttention13)]
    return [step for step in steps if step is not None]


def _repeated_heads(node: Node, site: Site) -> Step | None:
    """The step of an attention and of the Reshapes in front of its keys and values; None where there are none."""
    run = _attention(node, site.workers)
    shaping = [source.node for source in node.inputs[1:3]]
    if run is None or not all(isinstance(reshape.op, Reshape1) for reshape in shaping) or shaping[0] is shaping[1]:
        return None
    if any(
        site.only_user(reshape.outputs[0]) is not node or reshape not in site.users.get(reshape.inputs[0], ())
        for reshape in shaping
    ):
        return None
    reads: list[Output] = [node.inputs[0], *shaping[0].inputs, *shaping[1].inputs, *node.inputs[3:]]
    reshape_keys, reshape_values = (_reshaping(reshape) for reshape in shaping)

    def attend(
        query: Array, key: Array, key_shape: Array, value: Array, value_shape: Array, *more: Array
    ) -> Array | None:
        keys, values = _groups(key, key_shape, shaping[0]), _groups(value, value_shape, shaping[1])
        if keys is not None and values is not None and keys[1] == values[1]:
            return run(query, keys[0], values[0], *more, groups=keys[1])
        return run(query, reshape_keys(key, key_shape), reshape_values(value, value_shape), *more)

    return Step([*shaping, node], reads, list(node.outputs), Prepared(attend))


def _reshaping(node: Node) -> Callable[[Array, Array], Array]:
    evaluate: Callable[..., Array] = node.op.evaluate  # type: ignore[assignment]
    return evaluate


def _groups(repeated: Array, target: Array, node: Node) -> tuple[Array, int] | None:
    """Return the heads ``[..., heads, S, E]`` and how often each is repeated; None where they are not.

    They are where ``repeated`` ``[..., heads, repeats, S, E]`` is a view that repeats them, and the Reshape to
    ``target`` merges these two dimensions.
    """
    if repeated.ndim < 4 or repeated.strides[-3] != 0 or not repeated.size:
        return None
    *lead, heads, repeats, rows, columns = repeated.shape
    expected = [*lead, heads * repeats, rows, columns]
    target_shape = target.reshape(-1).tolist()
    if len(target_shape) != len(expected):
        return None
    keeps = bool(getattr(node.op, "special_zero", False))
    sizes = [repeated.shape[axis] if size == 0 and keeps else size for axis, size in enumerate(target_shape)]
    if any(target_size not in (size, -1) for target_size, size in zip(sizes, expected)):
        return None
    return repeated[..., 0, :, :], repeats


def _attention(node: Node, workers: Workers) -> _Attention | None:
    inputs = list(node.inputs)
    mask_is_boolean = len(inputs) > 3 and inputs[3].element_type is element_types.boolean
    floats = inputs[:3] + inputs[4:] + ([] if mask_is_boolean else inputs[3:4])
    return _Attention(bool(getattr(node.op, "causal", False)), workers) if is_float32(*floats) else None


@record
class _Part:
    """Some rows of some queries of a head of keys, or all of those of several heads."""

    head: tuple[int | slice, ...]
    groups: slice
    rows: slice


class _Attention:
    """Attention in which ``groups`` heads of queries share each head of keys and values."""

    def __init__(self, causal: bool, workers: Workers) -> None:
        self._causal = causal
        self._workers = workers

    def __call__(
        self,
        query: Array,
        key: Array,
        value: Array,
        mask: Array | None = None,
        scale: Array | None = None,
        sink: Array | None = None,
        *,
        groups: int = 1,
        out: Array | None = None,
    ) -> Array | None:
        if min(query.ndim, key.ndim, value.ndim) < 2 or not query.size or not key.size or not value.size:
            return None
        (rows, depth), (seen, width) = query.shape[-2:], value.shape[-2:]
        if key.shape[-2:] != (seen, depth):
            return None
        # Dimensions in front: [..., heads of keys], with groups of queries behind them.
        if groups > 1:
            if query.ndim < 3 or query.shape[-3] != key.shape[-3] * groups or key.shape[-3] != value.shape[-3]:
                return None
            own = (*query.shape[:-3], key.shape[-3])
        else:
            own = query.shape[:-2]
        lead = np.broadcast_shapes(own, key.shape[:-2], value.shape[:-2])
        if groups > 1 and lead != own:
            return None
        shape = (*lead, groups, rows, seen)
        hidden, added = None, None
        if self._causal:
            hidden = ~np.tri(rows, seen, dtype=np.bool_)
        elif mask is not None and mask.dtype == np.bool_:
            hidden = ~mask
        elif mask is not None and mask.ndim:
            added = mask
        try:
            hidden, added, sink = (
                None if scores_part is None else np.broadcast_to(_group(scores_part, groups), (*shape[:-1], last))
                for scores_part, last in ((hidden, seen), (added, seen), (sink, 1))
            )
        except ValueError:
            return None  # more batches or rows than the queries have
        # The query is scaled and not the scores: it is smaller.
        factor = np.float32(1 / math.sqrt(depth)) if scale is None else np.float32(scale.reshape(-1)[0])
        scaled = np.multiply(query, factor, out=np.empty(query.shape, np.float32))
        scaled = np.broadcast_to(scaled.reshape(*own, groups, rows, depth), (*lead, groups, rows, depth))
        keys = np.broadcast_to(key, (*lead, seen, depth))
        values = np.broadcast_to(value, (*lead, seen, width))
        heads = (*lead[:-1], lead[-1] * groups) if groups > 1 else lead
        if out is None:
            out = np.empty((*heads, rows, width), np.float32)
        target = out.reshape(*lead, groups, rows, width)

        def compute(place: tuple[int | slice, ...], head: tuple[int | slice, ...]) -> None:
            part = scaled[place]
            flat = (*part.shape[:-3], part.shape[-3] * part.shape[-2])
            scores = _products(part.reshape(*flat, depth), keys[head])
            weights = scores.reshape(*part.shape[:-1], seen)
            if hidden is not None:
                np.copyto(weights, np.float32(-np.inf), where=hidden[place])
            if added is not None:
                # NaN where a mask of minus infinity meets an infinite score, as without kernels.
                np.add(weights, added[place], out=weights)
            if sink is None:
                exponentials_of_rows(weights, weights)
                total = weights.sum(axis=-1, keepdims=True)
            else:
                greatest = np.maximum(weights.max(axis=-1, keepdims=True), sink[place])
                np.subtract(weights, greatest, out=weights)
                exponentials(scores)
                total = weights.sum(axis=-1, keepdims=True)
                total += np.exp(sink[place] - greatest)
            target_view = target[place]
            if target_view.flags.c_contiguous:
                np.matmul(scores, values[head], out=target_view.reshape(*flat, width))
            else:
                target_view[...] = np.matmul(scores, values[head]).reshape(target_view.shape)
            np.divide(target_view, total, out=target_view)

        if math.prod(shape) <= _ALL_HEADS_ELEMENTS:
            compute((), ())
            return out

        def work(parts: Sequence[_Part]) -> None:
            for part in parts:
                compute((*part.head, part.groups, part.rows), part.head)

        self._workers.each(work, _parts(lead, groups, rows, seen), out.size * seen // 4)
        return out


def _products(queries: Array, keys: Array) -> Array:
    """The product of each query with each key, [..., queries, keys]."""
    rows, seen = queries.shape[-2], keys.shape[-2]
    if 1 < rows <= _MAX_ROWS_FOR_TRANSPOSED_PRODUCT and seen >= _MIN_KEYS_FOR_TRANSPOSED_PRODUCT:
        return np.ascontiguousarray(np.matmul(keys, queries.swapaxes(-1, -2)).swapaxes(-1, -2))
    return np.matmul(queries, keys.swapaxes(-1, -2))


def _group(array: Array, groups: int) -> Array:
    """``array``, which is broadcast with [..., heads, L, S], for scores [..., heads of keys, groups, L, S]."""
    array = array.reshape((1,) * (2 - array.ndim) + array.shape)
    if array.ndim < 3 or array.shape[-3] == 1 or groups == 1:
        return np.expand_dims(array, -3)
    *lead, heads, rows, columns = array.shape
    return array.reshape(*lead, heads // groups, groups, rows, columns)


def _parts(lead: tuple[int, ...], groups: int, rows: int, seen: int) -> list[_Part]:
    """The queries in parts whose scores fit a block, where one row of them does."""
    row_step = max(1, min(rows, _BLOCK_ELEMENTS // seen))
    group_step = max(1, min(groups, _BLOCK_ELEMENTS // (rows * seen)))
    cut_groups = [slice(start, start + group_step) for start in range(0, groups, group_step)]
    cut_rows = [slice(start, start + row_step) for start in range(0, rows, row_step)]
    heads: list[tuple[int | slice, ...]] = list(np.ndindex(*lead))
    step = _ALL_HEADS_ELEMENTS // (groups * rows * seen)
    if lead and step > 1:
        # Small heads, several at a time.
        cut_heads = [slice(start, start + step) for start in range(0, lead[-1], step)]
        heads = [(*index, some) for index in np.ndindex(*lead[:-1]) for some in cut_heads]
    return [_Part(*cut) for cut in itertools.product(heads, cut_groups, cut_rows)]
