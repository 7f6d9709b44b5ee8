"""The order of an ONNX graph's nodes, what they read, and their names in messages and layers.

Messages are those of :mod:`.messages` or onnx's own, which have the same fields.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from converter.errors import InvalidModelError


def node_name(node: Any) -> str:
    """The node's name; where it has none, that of its first output."""
    return node.name or next((name for name in node.output if name), "") or node.op_type


def subgraphs(node: Any) -> Iterator[Any]:
    """The graphs that a node holds as attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def read_names(node: Any) -> set[str]:
    """The names of all tensors that a node reads, those that its graphs read from outside included."""
    names = {name for name in node.input if name}
    pending: list[tuple[Any, frozenset[str]]] = [(graph, frozenset()) for graph in subgraphs(node)]
    while pending:
        graph, around = pending.pop()
        own = around.union((value.name for value in graph.input), (tensor.name for tensor in graph.initializer))
        own = own.union((sparse.values.name for sparse in graph.sparse_initializer), *(n.output for n in graph.node))
        for inner in graph.node:
            names.update(name for name in inner.input if name and name not in own)
            pending.extend((nested, own) for nested in subgraphs(inner))
        names.update(value.name for value in graph.output if value.name not in own)
    return names


def in_order(nodes: Sequence[Any], available: Collection[str]) -> list[Any]:
    """The nodes in an order in which each comes after those that it reads from: the file's order if it is one.

    ``available`` are names that have a value before the first node. Raises :class:`InvalidModelError` for
    a cycle, naming a node on it.
    """
    writer = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    waiting = [
        {writer[name] for name in read_names(node) if name in writer and name not in available} for node in nodes
    ]
    if all(max(sources, default=-1) < index for index, sources in enumerate(waiting)):
        return list(nodes)
    readers: dict[int, list[int]] = {}
    for index, sources in enumerate(waiting):
        for source in sources:
            readers.setdefault(source, []).append(index)
    order = [index for index, sources in enumerate(waiting) if not sources]
    for index in order:  # grows while it is walked
        for reader in readers.get(index, ()):
            waiting[reader].discard(index)
            if not waiting[reader]:
                order.append(reader)
    if len(order) < len(nodes):
        stuck = nodes[_on_a_cycle(waiting)]
        raise InvalidModelError(f"node '{node_name(stuck)}' ({stuck.op_type}) is part of a cycle")
    return [nodes[index] for index in order]


def _on_a_cycle(waiting: Sequence[set[int]]) -> int:
    """A node on a cycle, found by going from each node to one that it waits for until a node comes up twice."""
    current = next(index for index, sources in enumerate(waiting) if sources)
    seen: set[int] = set()
    while current not in seen:
        seen.add(current)
        current = min(waiting[current])
    return current
