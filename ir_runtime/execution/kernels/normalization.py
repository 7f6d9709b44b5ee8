"""MVN of float32 over the last dimensions, and GroupNormalization, block by block in the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, normalize_axes
from ir_runtime.operations.normalization import MVN6, GroupNormalization12

from .registry import Prepared, Site, is_float32, kernel

_BLOCK_ELEMENTS = 1 << 15


@kernel(MVN6)
def mvn(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    axes = site.constants.get(node.inputs[1])
    if axes is None or not is_float32(node.inputs[0]):
        return None
    wanted = np.atleast_1d(axes).tolist()

    def run(x: Array, _: Array) -> Array | None:
        over = normalize_axes(wanted, x.ndim)
        first = x.ndim - len(over)
        if not over or tuple(sorted(over)) != tuple(range(first, x.ndim)) or not x.size:
            return None
        return _normalized(x.reshape(-1, math.prod(x.shape[first:])), op, site).reshape(x.shape)

    return Prepared(run, fresh=True)


@kernel(GroupNormalization12)
def group_normalization(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    if not is_float32(*node.inputs):
        return None
    mvn = MVN6(eps=op.epsilon, normalize_variance=True)

    def run(x: Array, scale: Array, bias: Array) -> Array | None:
        if not x.size:
            return None
        made = _normalized(x.reshape(x.shape[0] * op.num_groups, -1), mvn, site).reshape(*x.shape[:2], -1)
        made *= scale[:, None]
        made += bias[:, None]
        return made.reshape(x.shape)

    return Prepared(run, fresh=True)


def _normalized(flat: Array, op: Any, site: Site) -> Array:
    """Each row of a matrix by the attributes of an MVN."""
    small, columns = np.float32(op.eps), flat.shape[1]
    target = np.empty(flat.shape, np.float32)
    share = np.float32(1 / columns)
    step = max(1, _BLOCK_ELEMENTS // columns)

    def work(starts: Sequence[int]) -> None:
        for start in starts:
            made = target[start : start + step]
            seen = flat[start : start + step]
            mean = seen.sum(axis=1, keepdims=True)
            np.multiply(mean, share, out=mean)
            np.subtract(seen, mean, out=made)
            if not op.normalize_variance:
                continue
            squares = np.einsum("ij,ij->i", made, made)[:, None]
            np.multiply(squares, share, out=squares)
            factor = np.sqrt(squares) + small if op.eps_mode == "OUTSIDE_SQRT" else np.sqrt(squares + small)
            # A quotient, not a product with the reciprocal: that may overflow where the quotient does not.
            np.divide(made, factor, out=made)

    site.workers.each(work, range(0, len(flat), step), 5 * flat.size)
    return target
