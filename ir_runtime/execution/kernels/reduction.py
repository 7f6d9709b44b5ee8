"""ReduceMean and ReduceSum of float32 over the last dimensions: as products with ones, which read memory once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, normalize_axes
from ir_runtime.operations.reduction import ReduceMean1, ReduceSum1

from .registry import Prepared, Site, is_float32, kernel

_MAX_ROW_LENGTH = 1 << 14
"""Longer rows are left to ``evaluate``, whose pairwise sums round less."""


@kernel(ReduceMean1, ReduceSum1)
def reduction(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    axes = site.constants.get(node.inputs[1])
    if axes is None or not is_float32(node.inputs[0]):
        return None
    requested = np.atleast_1d(axes).tolist()
    is_mean = isinstance(op, ReduceMean1)

    def run(x: Array, _: Array) -> Array | None:
        over = normalize_axes(requested, x.ndim)
        first = x.ndim - len(over)
        if not over or tuple(sorted(over)) != tuple(range(first, x.ndim)) or not x.size or not x.flags.c_contiguous:
            return None
        columns = math.prod(x.shape[first:])
        if columns > _MAX_ROW_LENGTH:
            return None
        sums = x.reshape(-1, columns) @ np.ones(columns, np.float32)
        if is_mean:
            np.divide(sums, np.float32(columns), out=sums)
        return sums.reshape(x.shape[:first] + ((1,) * len(over) if op.keep_dims else ()))

    return Prepared(run, fresh=True)
