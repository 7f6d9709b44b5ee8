"""Reductions of rows that lie together in memory, some rows at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, normalize_axes
from ir_runtime.operations.reduction import ReduceMax1, ReduceMean1, ReduceMin1, ReduceSum1

from .binding import Binding, Call, as_matrix, binder, is_float32, is_matrix_for_blas
from .elementwise import order_of

_BLOCK_ELEMENTS = 1 << 15
_MAX_ELEMENTS_ON_ONE_THREAD = 9216
"""Elements up to which the library multiplies a matrix with a vector on one thread."""
_MAX_REPEATED_ROW = 1 << 12
_MAX_ROW_LENGTH = 1 << 14
"""Longer rows are left to the plan for any shapes, whose pairwise sums round less."""


def _data_and_axes(node: Node, b: Binding) -> tuple[Array, list[int]] | None:
    """The data of float32 and the axes that are reduced, in ascending order; None where there is nothing to do."""
    x, axes = b.array(node.inputs[0]), b.constant(node.inputs[1])
    if x is None or axes is None or not x.size or not is_float32(x):
        return None
    found_axes = sorted(normalize_axes(np.atleast_1d(axes).tolist(), x.ndim))
    return (x, found_axes) if found_axes else None


def _rows_of(array: Array, order: Sequence[int], count: int) -> Array | None:
    """``[rows, columns]`` where the last ``count`` axes in memory are the columns, which must be one run."""
    turned = array.transpose(order)
    lead, tail = turned.shape[: turned.ndim - count], turned.shape[turned.ndim - count :]
    expected = array.itemsize
    for dimension, stride in zip(reversed(tail), reversed(turned.strides[len(lead) :])):
        if dimension != 1 and stride != expected:
            return None
        expected *= dimension
    joined = np.lib.stride_tricks.as_strided(
        turned, (*lead, math.prod(tail)), (*turned.strides[: len(lead)], array.itemsize)
    )
    return as_matrix(joined)


@binder(ReduceMax1, ReduceMin1)
def extreme(node: Node, b: Binding) -> list[Call] | None:
    op: Any = node.op
    x, axes = b.array(node.inputs[0]), b.constant(node.inputs[1])
    if x is None or axes is None or not x.size:
        return None
    function = np.maximum if isinstance(op, ReduceMax1) else np.minimum
    over = tuple(normalize_axes(np.atleast_1d(axes).tolist(), x.ndim))
    return [partial(function.reduce, x, axis=over, out=b.new(node.outputs[0]), keepdims=op.keep_dims)]


@binder(ReduceMean1, ReduceSum1)
def reduction(node: Node, b: Binding) -> list[Call] | None:
    """Over the last axes in memory, or over all but the last one and the first: products with ones."""
    op: Any = node.op
    data_and_axes = _data_and_axes(node, b)
    if data_and_axes is None:
        return None
    x, axes = data_and_axes
    kept_axes = [axis for axis in range(x.ndim) if axis not in axes]
    count = math.prod(x.shape[axis] for axis in axes)
    if count > _MAX_ROW_LENGTH:
        return None
    calls: list[Call] = []
    order = order_of(x)
    if sorted(order[len(kept_axes) :]) == axes and (rows := _rows_of(x, order, len(axes))) is not None:
        lead = [axis for axis in order if axis in kept_axes]
        if lead != kept_axes:
            return None
        sums, copies = _vector_of_result(node, b)
        if rows.size <= _MAX_ELEMENTS_ON_ONE_THREAD:
            calls.append(partial(np.matmul, rows, _ones(count, b), out=sums))
        else:
            calls.append(partial(np.add.reduce, rows, axis=1, out=sums))
    elif kept_axes == [0, 1] and order[-1] == 1 and order[0] == 0:
        images = x.transpose(order)
        sums, copies = _vector_of_result(node, b)
        for image, total in zip(images, sums.reshape(x.shape[0], -1)):
            flat = as_matrix(image)
            if flat is None or not is_matrix_for_blas(flat):
                flat = b.scratch((count, x.shape[1]))
                calls.append(partial(np.copyto, flat.reshape(image.shape), image))
            calls += _sums_of_columns(flat, total, b)
    else:
        return None
    if isinstance(op, ReduceMean1):
        calls.append(partial(np.divide, sums, np.float32(count), sums))
    return calls + copies


def _sums_of_columns(flat: Array, total: Array, b: Binding) -> list[Call]:
    """Of a matrix: short products with ones alone, else sums of sums, which round less than one after the other."""
    rows, columns = flat.shape
    if flat.size <= _MAX_ELEMENTS_ON_ONE_THREAD:
        return [partial(np.matmul, _ones(rows, b), flat, out=total)]
    count = max(n for n in range(1, max(2, _MAX_REPEATED_ROW // columns + 1)) if rows % n == 0)
    if count == 1 or not flat.flags.c_contiguous:
        return [partial(np.matmul, _ones(rows, b), flat, out=total)]
    held = b.reused("sums", (count * columns,))
    first = partial(np.add.reduce, flat.reshape(rows // count, -1), axis=0, out=held)
    return [first, partial(np.add.reduce, held.reshape(count, columns), axis=0, out=total)]


def _vector_of_result(node: Node, b: Binding) -> tuple[Array, list[Call]]:
    """Return a vector to compute the output in, and the calls that copy it where the output is no vector in memory.

    The latter is a part of a Concat's output.
    """
    out = b.new(node.outputs[0])
    if out.flags.c_contiguous:
        return out.reshape(-1), []
    vector = b.scratch((out.size,))
    return vector, [partial(np.copyto, out, vector.reshape(out.shape))]


def _ones(count: int, b: Binding) -> Array:
    unit = _ONE
    return b.packed(unit, ("ones", count), lambda: np.ones(count, np.float32))


_ONE = np.ones(1, np.float32)
