"""Caches that grow: a variable to which a Concat adds at each step, as the keys and values of language models.

The pattern is ReadValue -> [Gather of beams along axis 0] -> Concat(past, new) -> Assign. A session keeps such a
variable in memory that is longer than the cache. The Concat writes what is new behind the rest and returns a view, the
Gather returns its input where it selects all batches in their order. Both do so only in a call of a session, and only
for the very arrays that the session has put into it: these it has shown to nobody else.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ir_runtime.graph import Array, Node, Output, normalize_axis
from ir_runtime.operations.indexing import Gather1, Gather7
from ir_runtime.operations.movement import Concat1

from .registry import Prepared, Site, Step, fusion

_MIN_ROOM = 16
"""The least number of elements along the axis that a cache can grow by when it gets new memory."""


class Room:
    """Memory of a cache that is longer than the cache along ``axis``.

    Nobody writes to the first ``used`` elements along the axis: they belong to values of variables.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any], axis: int) -> None:
        """Memory for a cache of this shape, and for as much again along the axis."""
        capacity = max(2 * shape[axis], shape[axis] + _MIN_ROOM)
        self.axis = axis
        self.used = 0
        self.memory = np.empty((*shape[:axis], capacity, *shape[axis + 1 :]), dtype)

    def part(self, start: int, stop: int) -> Array:
        """A view of the elements from ``start`` to ``stop`` along the axis."""
        return self.memory[(slice(None),) * self.axis + (slice(start, stop),)]

    def fits(self, past: Array, size: int) -> bool:
        """True if there is room behind ``past``, a view of this memory, until ``size``."""
        return self.used == past.shape[self.axis] and size <= self.memory.shape[self.axis]

    def keep(self, value: Array) -> None:
        """``value``, a view of this memory from its start, is the value of a variable now."""
        self.used = max(self.used, value.shape[self.axis])


class Caches:
    """The values of variables that one call of a session reads, and those that kernels have made of them.

    As a context it makes them known to the kernels that run in this thread.
    """

    def __init__(self, values: Iterable[tuple[Array, Room | None]]) -> None:
        # The arrays are referenced here, so that no other array can get their identity.
        self._values = {id(value): (value, room) for value, room in values}
        self._extended: set[Room] = set()

    def __enter__(self) -> Caches:
        self._before = _CURRENT.caches
        _CURRENT.caches = self
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.caches = self._before

    def room_of(self, value: Array) -> Room | None:
        """The memory of which ``value`` is a view."""
        return self._values.get(id(value), (value, None))[1]

    def extended(self, past: Array, new: Sequence[Array], axis: int) -> Array | None:
        """``past`` with ``new`` behind it; None where ``past`` is no cache, or other shapes or types meet."""
        if id(past) not in self._values or past.dtype.hasobject:
            return None
        at = normalize_axis(axis, past.ndim)
        rest = (*past.shape[:at], *past.shape[at + 1 :])
        if any(part.dtype != past.dtype or (*part.shape[:at], *part.shape[at + 1 :]) != rest for part in new):
            return None
        start = past.shape[at]
        size = start + sum(part.shape[at] for part in new)
        room = self.room_of(past)
        # A second Concat in this call may not overwrite what the first one has written.
        if room is None or room.axis != at or room in self._extended or not room.fits(past, size):
            room = Room((*past.shape[:at], size, *past.shape[at + 1 :]), past.dtype, at)
            np.copyto(room.part(0, start), past)
        self._extended.add(room)
        for array in new:
            np.copyto(room.part(start, start + array.shape[at]), array)
            start += array.shape[at]
        return self._add(room.part(0, size), room)

    def selected(self, past: Array, indices: Array, axis: int) -> Array | None:
        """``past[indices]`` with room along ``axis``; None where ``past`` is no cache, or an index is out of range."""
        if id(past) not in self._values or indices.ndim != 1 or past.dtype.hasobject:
            return None
        chosen, batch = indices.tolist(), len(past)
        if chosen == list(range(batch)):
            return past
        at = normalize_axis(axis, past.ndim)
        if at == 0 or not all(-batch <= position < batch for position in chosen):
            return None
        room = Room((len(chosen), *past.shape[1:]), past.dtype, at)
        selection = room.part(0, past.shape[at])
        for target, index in zip(selection, chosen):
            np.copyto(target, past[index])
        room.keep(selection)
        return self._add(selection, room)

    def _add(self, value: Array, room: Room) -> Array:
        self._values[id(value)] = (value, room)
        return value


class _Current(threading.local):
    caches: Caches | None = None


_CURRENT = _Current()


def grown_caches(nodes: Iterable[Node], variables: Collection[Output], results: Collection[Output]) -> list[Node]:
    """The Concats that add to a variable, and whose output is returned."""
    return [
        node
        for node in nodes
        if isinstance(node.op, Concat1)
        and len(node.inputs) > 1
        and node.outputs[0] in results
        and _past(node, variables) is not None
    ]


def _past(node: Node, variables: Collection[Output]) -> Output | None:
    """The variable that the Concat adds to: its first input, or that of a Gather of beams in front of it."""
    source = node.inputs[0]
    if isinstance(source.node.op, (Gather1, Gather7)):
        axis = source.node.inputs[2].type.constant
        if axis is None or axis.reshape(-1).tolist() != [0]:
            return None
        source = source.node.inputs[0]
    return source if source in variables else None


@fusion
def caches(site: Site) -> list[Step]:
    """A step for each Concat that adds to a variable, and one for the Gather of beams in front of it."""
    steps: dict[Node, Step] = {}
    for node in grown_caches(site.nodes, site.variables, site.results):
        source = node.inputs[0]
        op: Any = node.op
        steps[node] = Step([node], list(node.inputs), list(node.outputs), Prepared(_Concat(op)))
        if source not in site.variables:
            gather = source.node
            steps[gather] = Step(
                [gather], list(gather.inputs), list(gather.outputs), Prepared(_Gather(gather.op, op.axis))
            )
    return list(steps.values())


class _Concat:
    def __init__(self, op: Any) -> None:
        self._op = op

    def __call__(self, past: Array, *new: Array) -> Array | None:
        extended = None if _CURRENT.caches is None else _CURRENT.caches.extended(past, new, self._op.axis)
        return self._op.evaluate(past, *new) if extended is None else extended


class _Gather:
    def __init__(self, op: Any, axis: int) -> None:
        self._op = op
        self._axis = axis

    def __call__(self, past: Array, indices: Array, axis: Array) -> Array | None:
        extended = None
        if _CURRENT.caches is not None and self._op.batch(indices.ndim) == 0:
            extended = _CURRENT.caches.selected(past, indices, self._axis)
        return self._op.evaluate(past, indices, axis) if extended is None else extended
