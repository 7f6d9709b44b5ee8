"""A graph as a flat list of layers, and back, for :mod:`pickle`.

From object to object, a graph of thousands of layers would be as many calls deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .node import Node, Output


def flattened(nodes: Sequence[Node]) -> list[Any]:
    """Each layer as plain data, with the positions of the layers that it reads; ``nodes`` in the graph's order."""
    position = {node: index for index, node in enumerate(nodes)}
    return [
        (
            node.op,
            [(position[source.node], source.index) for source in node.inputs],
            [(output.type, output.names, output.runtime_info) for output in node.outputs],
            (node.name, node.output_names, node.runtime_info, node.origin),
        )
        for node in nodes
    ]


def rebuilt(layers: Sequence[Any]) -> list[Node]:
    """The nodes that were flattened."""
    nodes: list[Node] = []
    for op, inputs, outputs, (name, output_names, runtime_info, origin) in layers:
        sources: list[Output] = [nodes[position].outputs[index] for position, index in inputs]
        node = Node(op, sources, [tensor_type for tensor_type, _, _ in outputs], name)
        node.output_names, node.runtime_info, node.origin = list(output_names), runtime_info, origin
        for output, (_, names, output_info) in zip(node.outputs, outputs):
            output.names, output.runtime_info = list(names), output_info
        nodes.append(node)
    return nodes
