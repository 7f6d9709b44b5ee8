"""Pooling by ``evaluate`` of some channels at a time, on several threads, so that its temporaries stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.operations.pooling import AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14

from .registry import Prepared, Site, is_float32, kernel

_BLOCK_ELEMENTS = 1 << 16


@kernel(AvgPool1, AvgPool14, AvgPool16, MaxPool1, MaxPool8, MaxPool14)
def pooling(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    # The indices of maxima count through all channels.
    indexed = len(node.outputs) > 1
    if not is_float32(node.inputs[0]) or (indexed and not _only_maxima(node, site)):
        return None
    compute = op.maximum if hasattr(op, "maximum") else op.evaluate

    def run(x: Array) -> Any:
        if x.ndim < 3 or not x.size:
            return None
        shape = (*x.shape[:2], *[window.count(dimension) for window, dimension in zip(op.windows(), x.shape[2:])])
        out = np.empty(shape, np.float32)
        step = max(1, _BLOCK_ELEMENTS // math.prod(x.shape[2:]))
        starts = [(item, start) for item in range(x.shape[0]) for start in range(0, x.shape[1], step)]

        def work(parts: Sequence[tuple[int, int]]) -> None:
            for item, start in parts:
                part = (slice(item, item + 1), slice(start, start + step))
                out[part] = compute(x[part])

        site.workers.each(work, starts, 6 * x.size)
        if not indexed:
            return out
        # The maximum of a window with NaN depends on the order in which its elements are compared.
        return None if np.isnan(out.max(initial=-np.inf)) else (out, None)

    return Prepared(run, fresh=not indexed)


def _only_maxima(node: Node, site: Site) -> bool:
    """True if nothing reads the indices."""
    indices = node.outputs[1]
    return not site.users.get(indices) and indices not in site.results
