"""SoftMax of float32 along the last dimension, some rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.operations.activation import SoftMax1, SoftMax8

from .registry import Prepared, Site, is_float32, kernel
from .threads import Workers

_BLOCK_ELEMENTS = 1 << 15
_FLUSHING_TERM = np.float32(1e-30)
_MAX_RANGE = 16
"""Up to this range all rows are shifted by one maximum: the differences then are exact to 1e-6."""
_MAX_COLUMNS_FOR_ONE_MAXIMUM = 512
"""With fewer columns the maxima of rows take a quarter of the time of an attention; with more they take little."""


def softmax_rows(scores: Array, out: Array, workers: Workers) -> None:
    """The SoftMax of each row of a matrix; ``out`` may be ``scores``."""
    rows, columns = scores.shape
    step = max(1, _BLOCK_ELEMENTS // max(1, columns))
    starts = range(0, rows, step)

    def work(parts: Sequence[int]) -> None:
        for start in parts:
            seen, target = scores[start : start + step], out[start : start + step]
            exponentials_of_rows(seen, target)
            np.divide(target, target.sum(axis=1, keepdims=True), out=target)

    workers.each(work, starts, 4 * scores.size)


def exponentials_of_rows(scores: Array, out: Array) -> None:
    """e^(x - c) for each row, the last dimension, where c is at least its maximum, and the same in all the row."""
    if scores.shape[-1] < _MAX_COLUMNS_FOR_ONE_MAXIMUM:
        greatest = scores.max()
        # Neither NaN nor infinities pass.
        if greatest - scores.min() <= _MAX_RANGE:
            np.subtract(scores, greatest, out=out)
            np.exp(out, out=out)
            return
        # Masks of what follows, or of the padding behind, leave the first element of each row.
        if greatest - scores[..., 0].min() <= _MAX_RANGE:
            np.subtract(scores, greatest, out=out)
            exponentials(out)
            return
    np.subtract(scores, scores.max(axis=-1, keepdims=True), out=out)
    exponentials(out)


def exponentials(shifted: Array) -> None:
    """Compute e^x in place, for x up to zero.

    Results below 1e-37 become zero: products with denormal numbers, which masks of -100 lead to, take a hundred times
    as long.
    """
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

    def run(x: Array, out: Array | None = None) -> Array | None:
        if op.axis not in (-1, x.ndim - 1) or not x.ndim:
            return None
        if out is None:
            out = np.empty(x.shape, np.float32)
        columns = x.shape[-1]
        if x.size:
            softmax_rows(x.reshape(-1, columns), out.reshape(-1, columns), site.workers)
        return out

    return Prepared(run, fills=True)
