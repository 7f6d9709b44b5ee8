"""Values that depend on random numbers, which no two runs have in common."""

from __future__ import annotations

from ir_runtime import Model
from ir_runtime.graph import Node, Output


def draws(node: Node) -> bool:
    """True if a layer, or a layer of its bodies, draws random numbers."""
    is_random = not node.op.deterministic and not node.op.role
    return is_random or any(draws(inner) for sub in node.op.subgraphs for inner in sub.body.nodes())


def random_values(model: Model) -> set[Output]:
    """Return the values of the main graph that depend on random numbers."""
    outputs: set[Output] = set()
    for node in model.nodes():  # each after those it reads
        if draws(node) or not outputs.isdisjoint(node.inputs):
            outputs.update(node.outputs)
    return outputs
