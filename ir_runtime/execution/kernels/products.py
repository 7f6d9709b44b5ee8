"""Products of float32 matrices, shared among threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.graph.mapped_file import aligned
from ir_runtime.operations.matmul import MatMul1

from .registry import Prepared, Site, is_float32, kernel
from .threads import Workers

ENOUGH = 1 << 22
"""A second thread is used from this number of multiplications on."""

_ROWS_FOR_TRANSPOSED_PRODUCT = (16, 64)
_MIN_WEIGHTS_FOR_TRANSPOSED_PRODUCT = 1 << 19


def multiply(workers: Workers, a: Array, b: Array, out: Array) -> None:
    """``a @ b`` into ``out``, whose leading dimensions are those of both."""
    rows, columns = out.shape[-2:]
    effort = out.size * a.shape[-1]
    if workers.count < 2 or effort < ENOUGH:
        np.matmul(a, b, out=out)
        return
    # The longer side is cut, in multiples of 16: the processor computes several elements at once.
    by_rows = rows >= columns
    dimension = rows if by_rows else columns
    lead = out.shape[0] if out.ndim > 2 else 1
    if lead >= workers.count and a.shape[0] == b.shape[0] == lead and a.ndim == b.ndim == out.ndim:

        def by_item(parts: Sequence[int]) -> None:
            if len(parts):
                chosen = slice(parts[0], parts[-1] + 1)
                np.matmul(a[chosen], b[chosen], out=out[chosen])

        workers.each(by_item, range(lead), effort)
        return
    step = max(32, -(-dimension // (2 * workers.count) // 16) * 16)

    def work(starts: Sequence[int]) -> None:
        for start in starts:
            part = slice(start, min(start + step, dimension))
            if by_rows:
                np.matmul(a[..., part, :], b, out=out[..., part, :])
            else:
                np.matmul(a, b[..., part], out=out[..., part])

    workers.each(work, range(0, dimension, step), effort)


@kernel(MatMul1)
def product(node: Node, site: Site) -> Prepared | None:
    if not is_float32(*node.inputs, *node.outputs):
        return None
    weights = site.constants.get(node.inputs[1])
    if weights is not None and weights.ndim == 2 and node.inputs[0] not in site.constants:
        kernel_with_weights = _WithWeights(node.op, weights, site.workers)
        return Prepared(kernel_with_weights, fresh=True, packed=(node.inputs[1],))
    return Prepared(_Product(node.op, site.workers), fresh=True)


class _WithWeights:
    """A product with a constant matrix.

    For few rows the transposed product is computed, with a transposed copy of the matrix: the library's packing of the
    matrix would take most of the time.
    """

    def __init__(self, op: Any, weights: Array, workers: Workers) -> None:
        self._swap_a = op.transpose_a
        self._weights = weights.T if op.transpose_b else weights
        self._workers = workers
        self._aligned: Array | None = None
        self._turned: Array | None = None

    def __call__(self, a: Array, _: Array) -> Array | None:
        depth, columns = self._weights.shape
        if a.ndim < 2:
            return None
        if self._swap_a:
            a = a.swapaxes(-1, -2)
        if a.shape[-1] != depth or not depth:
            return None
        rows = math.prod(a.shape[:-1])
        flat = a.reshape(rows, depth)
        out = np.empty((rows, columns), np.float32)
        if (
            _ROWS_FOR_TRANSPOSED_PRODUCT[0] <= rows <= _ROWS_FOR_TRANSPOSED_PRODUCT[1]
            and self._weights.size >= _MIN_WEIGHTS_FOR_TRANSPOSED_PRODUCT
        ):
            if self._turned is None:
                self._turned = np.require(self._weights.T, requirements=["C", "A"])
            turned = np.empty((columns, rows), np.float32)
            multiply(self._workers, self._turned, flat.T, turned)
            np.copyto(out, turned.T)
        else:
            if self._aligned is None:
                self._aligned = aligned(self._weights)
            multiply(self._workers, flat, self._aligned, out)
        return out.reshape(*a.shape[:-1], columns)


class _Product:
    def __init__(self, op: Any, workers: Workers) -> None:
        self._swap_a, self._swap_b = op.transpose_a, op.transpose_b
        self._workers = workers

    def __call__(self, a: Array, b: Array) -> Array | None:
        if a.ndim < 2 or b.ndim < 2:
            return None
        if self._swap_a:
            a = a.swapaxes(-1, -2)
        if self._swap_b:
            b = b.swapaxes(-1, -2)
        if a.shape[-1] != b.shape[-2]:
            return None
        rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
        if b.ndim == 2:
            # One product of all rows instead of one for each item of the leading dimensions.
            lead = a.shape[:-2]
            out = np.empty((math.prod(lead) * rows, columns), np.float32)
            multiply(self._workers, a.reshape(-1, depth) if depth else a.reshape(len(out), 0), b, out)
            return out.reshape(*lead, rows, columns)
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = np.empty((*shape, rows, columns), np.float32)
        flat = out
        if len(shape) > 1:
            # Several leading dimensions become one where that needs no copies.
            first = next((axis for axis, dimension in enumerate(shape) if dimension != 1), len(shape) - 1)
            if math.prod(shape[:first]) == 1 and a.ndim == b.ndim:
                index = (0,) * first
                a, b, flat = a[index], b[index], out[index]
        multiply(self._workers, a, b, flat)
        return out
