"""MVN of float32 and GroupNormalization, block by block in the cache."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, normalize_axes
from ir_runtime.operations.normalization import MVN6, GroupNormalization12

from .registry import Prepared, Site, is_float32, kernel
from .threads import Workers

_BLOCK_ELEMENTS = 1 << 15
_SUMMED = 1 << 10
"""Elements that are added one after the other."""
_SUMMED_ROWS = 1 << 8
_MAX_ROW = 1 << 12
"""Positions of few channels are seen as rows of up to this many elements."""


@kernel(MVN6)
def mvn(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    axes = site.constants.get(node.inputs[1])
    if axes is None or not is_float32(node.inputs[0]):
        return None
    numbers = np.atleast_1d(axes).tolist()
    if not numbers:
        return None

    @functools.cache
    def order_of_rank(rank: int) -> list[int]:
        """The axes with the normalized ones behind the others."""
        over = sorted(normalize_axes(numbers, rank))
        return [*(axis for axis in range(rank) if axis not in over), *over]

    def run(x: Array, _: Array, out: Array | None = None) -> Array | None:
        order = order_of_rank(x.ndim)
        is_moved = order != list(range(x.ndim))
        if not x.size:
            return None
        if not is_moved and len(numbers) == x.ndim - 2 and channels_last(x):
            return _normalize_channels(x, out, x.shape[1], op)
        rows = x.transpose(order)
        result = np.empty(rows.shape, np.float32) if out is None or is_moved or not out.flags.c_contiguous else out
        columns = math.prod(rows.shape[-len(numbers) :])
        normalize_rows(rows.reshape(-1, columns), result.reshape(-1, columns), op, site.workers)
        return result.transpose(np.argsort(order)) if is_moved else result

    return Prepared(run, fills=True, order=channels_last)


@kernel(GroupNormalization12)
def group_normalization(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    if not is_float32(*node.inputs):
        return None
    mvn = MVN6(eps=op.epsilon, normalize_variance=True)

    def run(x: Array, scale: Array, bias: Array, out: Array | None = None) -> Array | None:
        if not x.size:
            return None
        if channels_last(x):
            out = _normalize_channels(x, out, op.num_groups, mvn)
        else:
            out = np.empty(x.shape, np.float32) if out is None or not out.flags.c_contiguous else out
            groups = x.shape[0] * op.num_groups
            normalize_rows(x.reshape(groups, -1), out.reshape(groups, -1), mvn, site.workers)
        shape = (-1, *[1] * (x.ndim - 2))
        out *= scale.reshape(shape)
        out += bias.reshape(shape)
        return out

    return Prepared(run, fills=True, order=channels_last)


def channels_last(x: Array) -> tuple[int, ...] | None:
    """The order of the axes in memory where channels lie side by side, and not in the usual order, too."""
    order = (0, *range(2, x.ndim), 1)
    return order if x.ndim > 2 and x.transpose(order).flags.c_contiguous and not x.flags.c_contiguous else None


def _normalize_channels(x: Array, out: Array | None, groups: int, op: Any) -> Array:
    """Normalize groups of channels that lie side by side: sums of columns need no other order."""
    order = channels_last(x)
    if out is None or channels_last(out) != order:
        out = np.empty_like(x)
    channels, positions = x.shape[1], math.prod(x.shape[2:])
    count = max(n for n in range(1, max(2, _MAX_ROW // channels + 1)) if positions % n == 0)
    size = np.float32(channels // groups * positions)

    def mean(sums: Array) -> Array:
        """The mean of each group, for each element of a row."""
        means = np.add.reduce(sums.reshape(count, groups, -1), axis=(0, 2)) / size
        return np.tile(np.repeat(means, channels // groups), count)

    for seen, target in zip(x.transpose(order), out.transpose(order)):
        seen, target = (array.reshape(-1, count * channels) for array in (seen, target))
        np.subtract(seen, mean(np.add.reduce(seen, axis=0)), out=target)
        if op.normalize_variance:
            strips = (target[start : start + _SUMMED_ROWS] for start in range(0, len(target), _SUMMED_ROWS))
            squares = [np.einsum("ij,ij->j", strip, strip) for strip in strips]
            np.divide(target, _deviation(mean(np.add.reduce(squares, axis=0)), op), out=target)
    return out


def _deviation(variance: Array, op: Any) -> Array:
    small = np.float32(op.eps)
    deviation: Array = np.sqrt(variance) + small if op.eps_mode == "OUTSIDE_SQRT" else np.sqrt(variance + small)
    return deviation


def sums_of_squares(rows: Array) -> Array:
    """Return the sum of the squares of each row, of blocks: one long sum of float32 rounds what it adds at its end."""
    if rows.shape[1] <= _SUMMED:
        return np.einsum("ij,ij->i", rows, rows)
    whole = rows.shape[1] // _SUMMED * _SUMMED
    blocks, remainder = rows[:, :whole].reshape(len(rows), -1, _SUMMED), rows[:, whole:]
    of_blocks = np.einsum("ibj,ibj->ib", blocks, blocks)
    return np.add.reduce(of_blocks, axis=1) + np.einsum("ij,ij->i", remainder, remainder)


def normalize_rows(rows: Array, out: Array, op: Any, workers: Workers) -> None:
    """Normalize each row of a matrix by the attributes of an MVN."""
    count = np.float32(rows.shape[1])
    step = max(1, _BLOCK_ELEMENTS // rows.shape[1])

    def work(starts: Sequence[int]) -> None:
        for start in starts:
            seen, target = rows[start : start + step], out[start : start + step]
            mean = np.add.reduce(seen, axis=1, keepdims=True)
            np.divide(mean, count, out=mean)
            np.subtract(seen, mean, out=target)
            if not op.normalize_variance:
                continue
            squares = sums_of_squares(target)[:, None]
            np.divide(squares, count, out=squares)
            # A quotient, not a product with the reciprocal: that may overflow where the quotient does not.
            np.divide(target, _deviation(squares, op), out=target)

    workers.each(work, range(0, len(rows), step), 5 * rows.size)
