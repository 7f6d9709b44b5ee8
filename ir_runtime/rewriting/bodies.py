"""Bodies of Loop, TensorIterator and If that are emitted layer by layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..graph import Model, Node, Output, PartialShape, TensorType, make_node
from ..graph.element_types import ElementType
from ..operations.inputs_outputs import Parameter1, Result1


def parameter(element_type: ElementType, shape: PartialShape, name: str = "") -> Node:
    """Return an input of a body, or of a model."""
    return make_node(Parameter1(shape=shape, element_type=element_type), (), name)


def parameters_of(types: Iterable[TensorType]) -> list[Node]:
    """Return an input for each of these types."""
    return [parameter(type.element_type, type.shape) for type in types]


def body_of(parameters: Sequence[Node], results: Iterable[Output]) -> Model:
    """Return a body, whose layers are called by type and number: nothing else gives them a name."""
    body = Model("body", parameters, [make_node(Result1(), [value]) for value in results])
    for number, node in enumerate(body.nodes()):
        node.name = f"{node.op.type}_{number}"
    return body
