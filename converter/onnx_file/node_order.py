"""The order of an ONNX graph's nodes, what they read, and their names in messages and layers.

Messages are those of :mod:`.messages` or onnx's own, which have the same fields.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
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


def all_graphs(graph: Any) -> Iterator[Any]:
    """Yield a graph, or a function, and the graphs of its nodes, those in these included."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from all_graphs(inner)


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
    order = stable_order([(index, set(sources), [index]) for index, sources in enumerate(waiting)])
    if len(order) < len(nodes):
        left = set(range(len(nodes))) - set(order)
        stuck = nodes[_on_a_cycle([sources & left for sources in waiting])]
        raise InvalidModelError(f"node '{node_name(stuck)}' ({stuck.op_type}) is part of a cycle")
    return [nodes[index] for index in order]


def stable_order(nodes: Sequence[tuple[float, Collection[Hashable], Collection[Hashable]]]) -> list[int]:
    """Return the numbers of nodes, each after those that it reads from, and otherwise by their places.

    A node is its place, the values that it reads, and those that it computes. Nodes on a cycle are left out.
    """
    writers = {value: number for number, (_, _, written) in enumerate(nodes) for value in written}
    missing: list[int] = []
    readers: defaultdict[int, list[int]] = defaultdict(list)
    for number, (_, read, _) in enumerate(nodes):
        before = {writers[value] for value in read if value in writers}
        missing.append(len(before))
        for writer in before:
            readers[writer].append(number)
    ready = [(node[0], number) for number, node in enumerate(nodes) if not missing[number]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(number)
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (nodes[reader][0], reader))
    return order


def _on_a_cycle(waiting: Sequence[set[int]]) -> int:
    """A node on a cycle, found by going from each node to one that it waits for until a node comes up twice."""
    current = next(index for index, sources in enumerate(waiting) if sources)
    seen: set[int] = set()
    while current not in seen:
        seen.add(current)
        current = min(waiting[current])
    return current
