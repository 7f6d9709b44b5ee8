"""Copies of layers."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from .node import Node, Output


def copy_node(node: Node, inputs: Sequence[Output]) -> Node:
    """The same layer over other inputs, with its operation, types, names, origin and runtime information."""
    copied = Node(node.op, inputs, [output.type for output in node.outputs], node.name)
    copied.output_names = list(node.output_names)
    copied.runtime_info = node.runtime_info
    copied.origin = node.origin
    for old, new in zip(node.outputs, copied.outputs):
        new.names = list(old.names)
        new.runtime_info = old.runtime_info
    return copied


def copy_nodes(nodes: Iterable[Node]) -> dict[Node, Node]:
    """A copy of each of the nodes, which come in the graph's order; their bodies are copied, too."""
    copies: dict[Node, Node] = {}
    for node in nodes:
        copied = copy_node(node, [copies[source.node].outputs[source.index] for source in node.inputs])
        copied.op = copy.deepcopy(node.op)
        copies[node] = copied
    return copies
