"""Types after a replacement: what follows from a value is inferred again where its type has changed."""

from __future__ import annotations

from collections.abc import Iterable

from ir_runtime.graph.model import Model, Node, Output
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shape_inference import infer_types


def differs(one: TensorType, other: TensorType) -> bool:
    """Whether two types are of other elements or shapes; what is known of the values does not count."""
    return one.element_type is not other.element_type or one.shape != other.shape


def infer_node(node: Node) -> list[Output]:
    """Infer a layer's types again; returns the outputs of which they have changed.

    Raises :class:`InferenceError` where the inputs contradict the operation.
    """
    inputs = [source.type for source in node.inputs]
    if node.op.subgraphs:
        node.op = node.op.specialized(inputs)
    changed = []
    for output, kind in zip(node.outputs, infer_types(node.op, inputs)):
        if differs(output.type, kind):
            changed.append(output)
        output.type = kind
    return changed


def update_types(model: Model, changed: Iterable[Output]) -> None:
    """Infer again what follows from values whose types have ``changed``, bodies included."""
    known, bodies = set(changed), set[Model]()
    model.changed()
    # Bodies come before the layers that have them.
    for part in reversed(model.parts()):
        for node in part.nodes:
            is_affected = not known.isdisjoint(node.inputs) or any(sub.body in bodies for sub in node.op.subgraphs)
            if is_affected:
                known.update(infer_node(node))
                if node.op.role == "result":
                    bodies.add(part.model)
    model.changed()
