"""Products of float32 matrices."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node
from ir_runtime.operations.matmul import MatMul1

from .product_calls import Factor, is_matrix_for_blas, product_calls
from .registry import Call, Prepared, Scratch, Site, is_float32, kernel
from .threads import scratch


@kernel(MatMul1)
def product(node: Node, site: Site) -> Prepared | None:
    op: Any = node.op
    if not is_float32(*node.inputs, *node.outputs):
        return None
    weights = site.constants.get(node.inputs[1])
    if weights is None or weights.ndim != 2 or node.inputs[0] in site.constants:
        made = _Product(op)
        return Prepared(made, calls=made.calls)

    def turned(array: Array) -> Array:
        return array.T if op.transpose_b else array

    factor = Factor(node.inputs[1], "product", turned, site, turned)
    of_rows = _Rows(op.transpose_a, factor, turned(weights).shape)
    return Prepared(of_rows, calls=of_rows.calls, packed=(node.inputs[1],))


class _Rows:
    """All rows times one constant matrix."""

    def __init__(self, swap_a: bool, factor: Factor, shape: tuple[int, ...]) -> None:
        self._swap_a, self._factor, self._shape = swap_a, factor, shape

    def __call__(self, a: Array, _: Array) -> Array | None:
        depth, columns = self._shape
        shape = _turned(a, self._swap_a).shape
        if not shape or shape[-1] != depth:
            return None
        out = np.empty((*shape[:-1], columns), np.float32)
        for call in self.calls(a, out=out, reused=scratch):
            call()
        return out

    def calls(self, a: Array, *, out: Array, reused: Scratch) -> list[Call]:
        if not a.size:
            return [partial(out.fill, 0)]
        calls: list[Call] = []
        rows = _rows_of(_turned(a, self._swap_a), calls, reused)
        return calls + product_calls(rows, self._factor, out.reshape(-1, self._shape[1]), reused)


class _Product:
    def __init__(self, op: Any) -> None:
        self._swap_a, self._swap_b = op.transpose_a, op.transpose_b

    def __call__(self, a: Array, b: Array) -> Array | None:
        if a.ndim < 2 or b.ndim < 2:
            return None
        left, right = _turned(a, self._swap_a), _turned(b, self._swap_b)
        if left.shape[-1] != right.shape[-2]:
            return None
        lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        out = np.empty((*lead, left.shape[-2], right.shape[-1]), np.float32)
        for call in self.calls(a, b, out=out, reused=scratch):
            call()
        return out

    def calls(self, a: Array, b: Array, *, out: Array, reused: Scratch) -> list[Call]:
        if a.ndim < 2 or b.ndim < 2:
            return [partial(np.matmul, _turned(a, self._swap_a), _turned(b, self._swap_b), out=out)]
        calls: list[Call] = []
        a, b = _turned(a, self._swap_a), _for_library(_turned(b, self._swap_b), "right", calls, reused)
        if b.ndim == 2 and a.size:
            # One product of all rows instead of one for each item of the leading dimensions.
            a, out = _rows_of(a, calls, reused), out.reshape(-1, out.shape[-1])
        else:
            a = _for_library(a, "left", calls, reused)
        while out.ndim > 2 and a.ndim == b.ndim == out.ndim and out.shape[0] == 1:
            # Leading axes of one element would slow each call.
            a, b, out = a[0], b[0], out[0]
        return [*calls, partial(np.matmul, a, b, out=out)]


def _turned(array: Array, swap: bool) -> Array:
    return array.swapaxes(-1, -2) if swap and array.ndim > 1 else array


def _rows_of(array: Array, calls: list[Call], reused: Scratch) -> Array:
    """``[rows, columns]``: a view, or a copy that ``calls`` make."""
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if not array.flags.c_contiguous:
        array = _for_library(array, "left", calls, reused, is_flat=array.ndim > 2)
    return array.reshape(-1, array.shape[-1])


def _for_library(array: Array, purpose: str, calls: list[Call], reused: Scratch, *, is_flat: bool = False) -> Array:
    """The array, or a copy: for some strides NumPy uses its own loops, which take ten times as long."""
    if not is_flat and array.ndim > 1 and is_matrix_for_blas(array):
        return array
    copied = reused(purpose, *array.shape)
    calls.append(partial(np.copyto, copied, array))
    return copied
