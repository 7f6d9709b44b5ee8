"""Models as flat lists of layers, and back: what :mod:`pickle` and :mod:`copy` do with them.

Followed from object to object, a graph of thousands of layers would be as many calls deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .element_types import ElementType
from .graph import Model, Node, Output
from .operation import Operation, find_operation
from .tensor import Tensor


def flattened(model: Model) -> tuple[Any, ...]:
    """What :func:`rebuilt` takes: each layer with the places of what it reads."""
    nodes = model.nodes()
    position = {node: index for index, node in enumerate(nodes)}
    layers = [
        (
            node.op,
            [(position[source.node], source.index) for source in node.inputs],
            [(output.type, output.names, output.runtime_info) for output in node.outputs],
            (node.name, node.output_names, node.runtime_info, node.origin),
        )
        for node in nodes
    ]
    ends = [[position[node] for node in side] for side in (model.parameters, model.results, model.sinks)]
    return model.name, layers, ends, model.runtime_info, model.version


def rebuilt(name: str, layers: Sequence[Any], ends: Sequence[Sequence[int]], runtime_info: Any, version: int) -> Model:
    """The model that was flattened."""
    nodes: list[Node] = []
    for op, inputs, outputs, (label, output_names, info, origin) in layers:
        sources: list[Output] = [nodes[index].outputs[output] for index, output in inputs]
        node = Node(op, sources, [kind for kind, _, _ in outputs], label)
        node.output_names, node.runtime_info, node.origin = list(output_names), info, origin
        for output, (_, names, marks) in zip(node.outputs, outputs):
            output.names, output.runtime_info = list(names), marks
        nodes.append(node)
    parameters, results, sinks = [[nodes[index] for index in side] for side in ends]
    return Model(name, parameters, results, sinks, runtime_info, version)


def tensor_of_bytes(kind: ElementType, shape: tuple[int, ...], data: bytes) -> Tensor:
    """The tensor of these bytes, in the layout of a ``.bin`` file."""
    return Tensor.from_packed(np.frombuffer(data, np.uint8), kind, shape)


def operation_of(kind: type[Operation] | tuple[str, int], attributes: dict[str, Any]) -> Operation:
    """The operation of that class, or of that name and opset."""
    cls = find_operation(*kind) if isinstance(kind, tuple) else kind
    return cls(**attributes)
