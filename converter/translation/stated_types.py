"""What values are for the extents that the file states, while the graph is translated with them open.

A translator may look at this to choose the plainest way to say something, if what it says is right for
other extents as well, or refused for them.
"""

from __future__ import annotations

from collections.abc import Callable

from ir_runtime import ModelError
from ir_runtime.graph import Node, Output
from ir_runtime.operation import TensorType
from ir_runtime.rewrite import Inferred
from ir_runtime.shape_inference import infer_types


class StatedTypes:
    """The types of values under the stated shapes, inferred when they are asked for."""

    def __init__(self) -> None:
        self._known: dict[Output, TensorType] = {}
        self.inferred: dict[Node, Inferred] = {}
        """What was inferred of layers, so that it need not be once the model is given the stated shapes."""

    def state(self, parameter: Node, kind: TensorType) -> None:
        """An input of the model is of this type."""
        self._known[parameter.outputs[0]] = kind

    def of(self, value: Output, captured: Callable[[Node], Output | None]) -> TensorType:
        """The type of ``value``; where the stated shapes contradict, what is known without them.

        ``captured`` tells what a body's parameter stands for outside.
        """
        pending = [value]
        while pending:
            output = pending[-1]
            if output in self._known:
                pending.pop()
                continue
            node = output.node
            outer = captured(node) if node.op.role == "parameter" else None
            sources = node.inputs if outer is None else [outer]
            missing = [source for source in sources if source not in self._known]
            if missing:
                pending += missing
                continue
            if outer is not None:
                self._known[output] = self._known[outer]
            else:
                self._known.update(zip(node.outputs, self._infer(node)))
        return self._known[value]

    def _infer(self, node: Node) -> list[TensorType]:
        inputs = [self._known[source] for source in node.inputs]
        found = [output.type for output in node.outputs]
        if all(kind is source.type for kind, source in zip(inputs, node.inputs)):
            return found
        try:
            made = infer_types(node.op, inputs)
        except ModelError:
            return found
        self.inferred[node] = Inferred(node.op, inputs, made)
        return made

    def of_parameters(self) -> dict[Node, TensorType]:
        """The stated types of the model's inputs."""
        return {output.node: kind for output, kind in self._known.items() if output.node.op.role == "parameter"}
