"""Values of a model that follow from its constants alone."""

from __future__ import annotations

from ir_runtime import Model
from ir_runtime.constant_folding import as_tuple
from ir_runtime.element_types import Array
from ir_runtime.executor import layer_runner
from ir_runtime.graph import Node, Output


class KnownValues:
    """Which layers of a model and of its bodies depend on constants alone, found once, and what they compute.

    A value is computed when it is asked for, and kept.
    """

    def __init__(self, model: Model) -> None:
        self._layers: set[Node] = set()
        self._values: dict[Node, tuple[Array, ...]] = {}
        for part in model.parts():
            for node in part.nodes:  # each after those it reads
                if node.op.data is not None or self._follows(node):
                    self._layers.add(node)

    def _follows(self, node: Node) -> bool:
        known = bool(node.inputs) and all(source.node in self._layers for source in node.inputs)
        return known and node.op.deterministic and not node.op.subgraphs

    def value(self, output: Output) -> Array | None:
        """What ``output`` is; None where it depends on more than constants."""
        if output.node not in self._layers:
            return None
        pending = [output.node]
        while pending:
            node = pending[-1]
            left = [source.node for source in node.inputs if source.node not in self._values]
            if left and node not in self._values:
                pending += left
                continue
            pending.pop()
            if node not in self._values:
                self._values[node] = self._computed(node)
        return self._values[output.node][output.index]

    def _computed(self, node: Node) -> tuple[Array, ...]:
        if node.op.data is not None:
            return (node.op.data.array(),)
        return as_tuple(layer_runner(node)(*(self._values[source.node][source.index] for source in node.inputs)))
