"""Types after a change: what follows from a value is inferred again where its type has changed."""

from __future__ import annotations

from ir_runtime.graph import Model, Node, Output, infer_types
from ir_runtime.graph.node import differs


def infer_stale(model: Model) -> None:
    """Infer again what follows from values that were replaced by values of another type, bodies included."""
    changed, bodies = set[Output](), set[Model]()
    # Bodies come before the layers that have them.
    for part in reversed(model.parts()):
        for node in part.nodes:
            has_changed_body = bool(bodies) and any(sub.body in bodies for sub in node.op.subgraphs)
            if node.is_stale or has_changed_body or not changed.isdisjoint(node.inputs):
                changed.update(infer_node(node))
                if node.op.role == "result":
                    bodies.add(part.model)


def infer_node(node: Node) -> list[Output]:
    """Infer a layer's types again; returns the outputs of which they have changed.

    Raises :class:`InferenceError` where the inputs contradict the operation.
    """
    inputs = [source.type for source in node.inputs]
    if node.op.subgraphs:
        node.op = node.op.specialized(inputs)
    changed = []
    for output, type in zip(node.outputs, infer_types(node.op, inputs)):
        if differs(output.type, type):
            changed.append(output)
        output.type = type
    node.is_stale = False
    return changed
