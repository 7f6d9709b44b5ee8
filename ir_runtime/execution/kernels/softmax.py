"""SoftMax of float32 along the last dimension, and attention with an in-place SoftMax: some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import element_types
from ir_runtime.graph.element_types import Array
from ir_runtime.graph.model import Node
from ir_runtime.operations.activation import SoftMax1, SoftMax8
from ir_runtime.operations.attention import ScaledDotProductAttention13

from .registry import (
    Prepared,
    Site,
    is_float32,
    kernel,
)
from .threads import Workers

_BLOCK_ELEMENTS = 1 << 15
_FLUSHING_TERM = np.float32(1e-30)


def softmax_rows(scores: Array, out: Array, workers: Workers) -> None:
    """The SoftMax of each row of a matrix; ``out`` may be ``scores``."""
    rows, columns = scores.shape
    step = max(1, _BLOCK_ELEMENTS // max(1, columns))
    starts = range(0, rows, step)

    def work(parts: Sequence[int]) -> None:
        for start in parts:
            seen, made = scores[start : start + step], out[start : start + step]
            np.subtract(seen, seen.max(axis=1, keepdims=True, initial=-np.inf), out=made)
            exponentials(made)
            total = made.sum(axis=1, keepdims=True)
            np.divide(made, total, out=made)

    workers.each(work, starts, 4 * scores.size)


def exponentials(shifted: Array) -> None:
    """e^x in place, for x up to zero. Results below 1e-37 become zero: products with denormal numbers, which masks of
    -100 lead to, take a hundred times as long."""
    denormal = shifted.size > 0 and not shifted.min() > -80
    np.exp(shifted, out=shifted)
    if denormal:
        np.add(shifted, _FLUSHING_TERM, out=shifted)
        np.subtract(shifted, _FLUSHING_TERM, out=shifted)


@kernel(SoftMax1, SoftMax8)
def softmax(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    if not is_float32(*node.inputs):
        return None

    def run(x: Array) -> Array | None:
        if op.axis not in (-1, x.ndim - 1) or not x.ndim or not x.flags.c_contiguous:
            return None
        private = site.is_private(node.inputs[0], [node]) and x.flags.writeable
        out = x if private else np.empty(x.shape, np.float32)
        columns = x.shape[-1]
        if x.size:
            softmax_rows(x.reshape(-1, columns), out.reshape(-1, columns), site.workers)
        return out

    return Prepared(run)


@kernel(ScaledDotProductAttention13)
def attention(node: Node, site: Site) -> Prepared | None:
    inputs = list(node.inputs)
    mask_is_boolean = len(inputs) > 3 and inputs[3].element_type is element_types.boolean
    floats = inputs[:3] + inputs[4:] + ([] if mask_is_boolean else inputs[3:4])
    if len(inputs) > 5 or not is_float32(*floats):
        return None
    return Prepared(_Attention(node.op, site.workers), fresh=True)


class _Attention:
    """Some heads at a time, so that their scores stay in the cache."""

    def __init__(self, op: Any, workers: Workers) -> None:
        self._causal: bool = op.causal
        self._workers = workers

    def __call__(
        self, query: Array, key: Array, value: Array, mask: Array | None = None, scale: Array | None = None
    ) -> Array | None:
        if query.ndim < 3 or not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
            return None
        lead, rows, seen = query.shape[:-2], query.shape[-2], key.shape[-2]
        if not query.size or not seen or query.shape[-1] != key.shape[-1] or value.shape[-2] != seen:
            return None
        factor = np.float32(1 / math.sqrt(query.shape[-1])) if scale is None else np.float32(scale.reshape(-1)[0])
        if self._causal or mask is None or (mask.ndim == 0 and mask.dtype != np.bool_):
            mask = None
        else:
            if mask.dtype == np.bool_:
                mask = np.where(mask, np.float32(0), np.float32(-np.inf))
            shape = (*lead, rows, seen)
            if np.broadcast_shapes(mask.shape, shape) != shape:
                return None
            mask = np.broadcast_to(mask, shape)
        # The query is scaled and not the scores: it is smaller.
        scaled = query * factor
        turned = key.swapaxes(-1, -2)
        out = np.empty((*lead, rows, value.shape[-1]), np.float32)
        allowed = np.tri(rows, seen, dtype=np.bool_) if self._causal else None
        hidden = None if allowed is None else ~allowed
        heads = list(np.ndindex(*lead))
        effort = out.size * seen

        def work(parts: Sequence[tuple[int, ...]]) -> None:
            scores = np.empty((rows, seen), np.float32)
            for head in parts:
                np.matmul(scaled[head], turned[head], out=scores)
                if hidden is not None:
                    np.copyto(scores, np.float32(-np.inf), where=hidden)
                elif mask is not None:
                    # NaN where a mask of minus infinity meets an infinite score, as without kernels.
                    np.add(scores, mask[head], out=scores)
                np.subtract(scores, scores.max(axis=1, keepdims=True), out=scores)
                exponentials(scores)
                total = scores.sum(axis=1, keepdims=True)
                np.matmul(scores, value[head], out=out[head])
                np.divide(out[head], total, out=out[head])

        if len(heads) == 1 and rows * seen > _BLOCK_ELEMENTS:
            return None
        self._workers.each(work, heads, effort // 4)
        return out
