"""Sums, means and extremes over constant axes, in the memory of the output; small ones of float32 as products."""

from __future__ import annotations

import functools
import math
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, normalize_axes
from ir_runtime.operations.reduction import ReduceMax1, ReduceMean1, ReduceMin1, ReduceSum1

from .normalization import channels_last
from .registry import Call, Prepared, Scratch, Site, is_float32, kernel
from .threads import scratch

_MAX_ELEMENTS_OF_PRODUCT = 9216
"""Elements up to which the library multiplies a matrix with a vector on one thread."""
_FUNCTIONS = {ReduceMax1: np.maximum, ReduceMin1: np.minimum, ReduceMean1: np.add, ReduceSum1: np.add}


@kernel(ReduceMax1, ReduceMin1, ReduceMean1, ReduceSum1)
def reduction(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    axes = site.constants.get(node.inputs[1])
    function = _FUNCTIONS[type(op)]
    if axes is None or (function is np.add and not is_float32(node.inputs[0])):
        return None
    requested, is_mean = np.atleast_1d(axes).tolist(), isinstance(op, ReduceMean1)

    @functools.cache
    def axes_of_rank(rank: int) -> tuple[int, ...]:
        return tuple(sorted(normalize_axes(requested, rank)))

    def calls(x: Array, _: Array, *, out: Array, reused: Scratch) -> list[Call]:
        over = axes_of_rank(x.ndim)
        made = _product(x, over, out) if function is np.add else None
        if made is None:
            made = partial(function.reduce, x, axis=over, out=out, keepdims=op.keep_dims)
        if not is_mean:
            return [made]
        return [made, partial(np.divide, out, np.float32(math.prod([x.shape[axis] for axis in over])), out)]

    def run(x: Array, _: Array) -> Array | None:
        if not x.size:
            return None
        over = axes_of_rank(x.ndim)
        kept = [1 if axis in over else n for axis, n in enumerate(x.shape) if axis not in over or op.keep_dims]
        out = np.empty(kept, x.dtype)
        for call in calls(x, _, out=out, reused=scratch):
            call()
        return out

    return Prepared(run, calls=calls)


def _product(x: Array, over: tuple[int, ...], out: Array) -> Call | None:
    """A product with ones, where this is faster than sums and ``x`` is a matrix, or one for each item."""
    first = x.ndim - len(over)
    if x.size > _MAX_ELEMENTS_OF_PRODUCT or over != tuple(range(first, x.ndim)):
        return None
    ones = np.ones(math.prod(x.shape[first:]), np.float32)
    if x.flags.c_contiguous:
        return partial(np.matmul, x.reshape(-1, len(ones)), ones, out=out.reshape(-1))
    order = channels_last(x) if first == 2 else None
    if order is None:
        return None
    return partial(np.matmul, ones, x.transpose(order).reshape(len(x), len(ones), -1), out=out.reshape(x.shape[:2]))
