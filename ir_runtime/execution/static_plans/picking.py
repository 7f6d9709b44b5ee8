"""Gather: of one known place a view, else a copy of what is picked."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, normalize_axis
from ir_runtime.graph.indices import take
from ir_runtime.operations.indexing import Gather1, Gather7, Gather8

from .binding import Binding, Call, binder


@binder(Gather1, Gather7, Gather8)
def gather(node: Node, b: Binding) -> list[Call] | None:
    """Rows of a table that the file does not align are picked as bytes: NumPy would copy the table in every call."""
    op: Any = node.op
    x, axis = b.as_stored(node.inputs[0]), b.constant(node.inputs[2])
    if x is None or axis is None or not x.size or not b.is_bindable(node.outputs[0]):
        return None
    at = normalize_axis(int(axis.reshape(-1)[0]), x.ndim)
    constant_indices, computed = b.constant(node.inputs[1]), b.arrays.get(node.inputs[1])
    indices = constant_indices if constant_indices is not None else computed
    if indices is None or not indices.size or op.batch(indices.ndim):
        return None
    if constant_indices is None:
        return _looked_up(node, x, at, indices, b)
    chosen = constant_indices.astype(np.int64)
    if chosen.min() < -x.shape[at] or chosen.max() >= x.shape[at]:
        return None
    chosen = np.where(chosen < 0, chosen + x.shape[at], chosen)
    if chosen.size == 1:
        place = int(chosen.reshape(-1)[0])
        view = x[(slice(None),) * at + (slice(place, place + 1),)]
        shape = node.outputs[0].shape.static()
        view_of_shape = view.reshape(shape)
        if view_of_shape.flags.aligned and np.may_share_memory(view_of_shape, x):
            b.alias(node.outputs[0], view_of_shape, node.inputs[0])
            return []
    table, out = _table(node, x, at, b), b.new(node.outputs[0])
    if not out.flags.c_contiguous:
        return [partial(copy_taken, table, chosen, at, out)]
    # Nothing is out of bounds: with another mode than this the result would go through a buffer.
    return [partial(take, table, chosen, at, _like(table, out, x.dtype), "clip")]


def _looked_up(node: Node, x: Array, at: int, indices: Array, b: Binding) -> list[Call] | None:
    if b.homes.get(node.outputs[0]) is not None or not np.can_cast(indices.dtype, np.intp):
        return None
    table, out = _table(node, x, at, b), b.new(node.outputs[0])
    return [partial(_look_up, table, indices, at, _like(table, out, x.dtype))]


def _look_up(table: Array, indices: Array, at: int, out: Array) -> None:
    count = table.shape[at]
    if indices.min() < -count or indices.max() >= count:
        raise IndexError(f"an index is out of bounds for axis {at} with {count} elements")
    # Negative ones count from the end.
    take(table, indices, at, out, "wrap")


def _table(node: Node, x: Array, at: int, b: Binding) -> Array:
    """``x``, or the bytes of its rows, where those are picked and it is not aligned."""
    if x.flags.aligned:
        return x
    if at == 0 and x.ndim > 1 and x.flags.c_contiguous:
        return x.view(np.uint8)
    table = b.array(node.inputs[0])
    assert table is not None
    return table


def _like(table: Array, out: Array, dtype: np.dtype[Any]) -> Array:
    """``out`` as the table is seen."""
    return out if table.dtype == dtype else out.view(np.uint8)


def copy_taken(x: Array, positions: Array, axis: int, out: Array) -> None:
    np.copyto(out, take(x, positions, axis))
