"""Who reads a value, kept up to date while values are replaced."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from ir_runtime.errors import InternalError
from ir_runtime.graph.model import Model, Node, Output, uses_in

from .shared_shapes import symbolic_shapes

if TYPE_CHECKING:
    from .symbolic_shapes import SymbolicShapes

_ROOTS = ("parameter", "result", "sink")
"""The roles of layers that a model keeps although nothing reads them."""


class Uses:
    """For every value of a graph (bodies apart) the layers that read it, in the graph's order.

    A layer that nothing reads any more, after :meth:`replace`, counts no longer as a reader.
    """

    def __init__(self, readers: dict[Output, list[Node]]) -> None:
        self._readers = readers
        self._unused: set[Node] = set()

    @functools.cached_property
    def shapes(self) -> SymbolicShapes:
        """Which dimensions are equal, for whatever shapes of the inputs."""
        return symbolic_shapes()

    def __getitem__(self, value: Output) -> list[Node]:
        """The layers that read ``value``; each once."""
        return self._readers.get(value, [])

    def __contains__(self, value: object) -> bool:
        """Whether any layer reads ``value``."""
        return isinstance(value, Output) and bool(self[value])

    __iter__ = None
    """Uses are looked up, not walked: without this Python would ask for layers 0, 1, 2 and never end."""

    def only_reader(self, value: Output) -> Node | None:
        """The layer that reads ``value``, where there is exactly one."""
        readers = self[value]
        return readers[0] if len(readers) == 1 else None

    def is_unused(self, node: Node) -> bool:
        """Whether nothing reads the layer any more since a value was replaced."""
        return node in self._unused

    def add(self, nodes: Iterable[Node]) -> None:
        """Note what new layers read."""
        for node in nodes:
            self._unused.discard(node)
            for source in dict.fromkeys(node.inputs):
                self._readers.setdefault(source, []).append(node)
                if source.node in self._unused:
                    self.add([source.node])

    def replace(
        self, old: Output, new: Output, kept: Collection[Node] = (), *, is_same_value: bool = True
    ) -> list[Node]:
        """Let everything that reads ``old``, but the layers ``kept``, read ``new``, which takes over its tensor names.

        A layer that makes ``new`` from ``old`` is one to keep. Without ``is_same_value`` nothing has the names of
        ``old`` afterwards. Returns the layers that nothing reads any more, constants left out, in the order of the
        graph.
        """
        readers = [reader for reader in self[old] if reader not in kept]
        self._readers[old] = [reader for reader in self[old] if reader in kept]
        replace_uses(old, new, readers)
        known = self._readers.setdefault(new, [])
        known.extend(reader for reader in readers if reader not in known)
        if is_same_value:
            new.names += [name for name in old.names if name not in new.names]
        old.names = []
        if new.node in self._unused:
            self.add([new.node])
        return self._forget(old.node)

    def _forget(self, node: Node) -> list[Node]:
        """Drop ``node``, and what only it has read, from the readers if nothing reads it any more."""
        pending, forgotten = [node], list[Node]()
        while pending:
            node = pending.pop()
            if node in self._unused or node.op.role in _ROOTS or any(map(self._readers.get, node.outputs)):
                continue
            self._unused.add(node)
            if node.op.data is None:
                forgotten.append(node)
            for source in dict.fromkeys(node.inputs):
                readers = self._readers.get(source, [])
                if node in readers:
                    readers.remove(node)
                pending.append(source.node)
        return forgotten[::-1]


def uses_of(model: Model) -> Uses:
    """Who reads each value of a model, bodies apart."""
    return Uses(uses_in(model.nodes()))


def replace_uses(old: Output, new: Output, readers: Iterable[Node]) -> None:
    """Let each of ``readers`` read ``new`` wherever it reads ``old``."""
    for reader in readers:
        reader.inputs = [new if source is old else source for source in reader.inputs]


def replace_all_uses(model: Model, replaced: Mapping[Output, Output]) -> None:
    """Let every layer read the value that replaces the one it reads.

    Replacements may follow one another: where ``b`` replaces ``a`` and ``c`` replaces ``b``, readers of ``a`` get
    ``c``. A replacement may be computed from what it replaces: the new layers in between keep reading the old value.
    Raises :class:`InternalError` where values replace each other in a circle.
    """
    existing = set(model.nodes())
    keeps: dict[Node, set[Output]] = defaultdict(set)
    for old, new in replaced.items():
        keeps[new.node].add(old)
        pending = [source.node for source in new.node.inputs] if new.node not in existing else []
        while pending:
            node = pending.pop()
            if node not in existing and old not in keeps[node]:
                keeps[node].add(old)
                pending.extend(source.node for source in node.inputs)
    for node in [*existing, *(node for node in keeps if node not in existing)]:
        kept = keeps.get(node, ())
        node.inputs = [_latest(source, replaced, kept) for source in node.inputs]


def _latest(value: Output, replaced: Mapping[Output, Output], kept: Iterable[Output]) -> Output:
    """What replaces ``value`` in the end, for a reader that keeps the values ``kept``."""
    passed = {value}
    while value in replaced and value not in kept:
        value = replaced[value]
        if value in passed:
            raise InternalError(f"{value!r} is replaced by itself")
        passed.add(value)
    return value
