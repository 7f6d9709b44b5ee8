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
    def order_of_rank(rank: int) -> list[int] | None:
        """The axes with the normalized ones behind the others; None where they are in this order."""
        over = sorted(normalize_axes(numbers, rank))
        order = [*(axis for axis in range(rank) if axis not in over), *over]
        return None if order == list(range(rank)) else order

    def run(x: Array, _: Array, out: Array | None = None) -> Array | None:
        order = order_of_rank(x.ndim)
        if not x.size:
            return None
        rows = x if order is None else x.transpose(order)
        result = np.empty(rows.shape, np.float32) if out is None or order is not None else out
        columns = math.prod(rows.shape[-len(numbers) :])
        normalize_rows(rows.reshape(-1, columns), result.reshape(-1, columns), op, site.workers)
        return result if order is None else result.transpose(np.argsort(order))

    return Prepared(run, fresh=True, fills=True)


@kernel(GroupNormalization12)
def group_normalization(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    if not is_float32(*node.inputs):
        return None
    mvn = MVN6(eps=op.epsilon, normalize_variance=True)

    def run(x: Array, scale: Array, bias: Array) -> Array | None:
        if not x.size:
            return None
        out = np.empty((*x.shape[:2], math.prod(x.shape[2:])), np.float32)
        groups = x.shape[0] * op.num_groups
        normalize_rows(x.reshape(groups, -1), out.reshape(groups, -1), mvn, site.workers)
        out *= scale[:, None]
        out += bias[:, None]
        return out.reshape(x.shape)

    return Prepared(run, fresh=True)


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
    count, small = np.float32(rows.shape[1]), np.float32(op.eps)
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
            factor = np.sqrt(squares) + small if op.eps_mode == "OUTSIDE_SQRT" else np.sqrt(squares + small)
            # A quotient, not a product with the reciprocal: that may overflow where the quotient does not.
            np.divide(target, factor, out=target)

    workers.each(work, range(0, len(rows), step), 5 * rows.size)
