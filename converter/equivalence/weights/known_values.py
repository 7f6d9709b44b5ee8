"""Values of a model that depend on its constants alone."""

from __future__ import annotations

from ir_runtime import Model
from ir_runtime.execution.plan import layer_runner
from ir_runtime.graph import Array, Node, Output
from ir_runtime.rewriting.constant_folding import as_tuple


class KnownValues:
    """The layers of a model and its bodies that depend on constants alone, and their values.

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
        is_known = bool(node.inputs) and all(source.node in self._layers for source in node.inputs)
        return is_known and node.op.is_pure

    def holds(self, node: Node) -> bool:
        """True if the results of ``node`` depend on constants alone."""
        return node in self._layers

    def value(self, output: Output) -> Array | None:
        """The value of ``output``; None where it depends on more than constants."""
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
                self._values[node] = self._compute(node)
        return self._values[output.node][output.index]

    def _compute(self, node: Node) -> tuple[Array, ...]:
        if node.op.data is not None:
            return (node.op.data.array(),)
        return as_tuple(layer_runner(node)(*(self._values[source.node][source.index] for source in node.inputs)))
