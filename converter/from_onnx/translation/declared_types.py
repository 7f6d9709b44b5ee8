"""The types of values for the declared dimensions, while the graph is translated with dynamic ones.

A translator may choose the plainest layers by these types if the layers are right for other dimensions as well, or
refuse them.
"""

from __future__ import annotations

from collections.abc import Callable

from ir_runtime import ModelError
from ir_runtime.graph import Node, Output, TensorType, infer_types
from ir_runtime.graph.reshaping import Inferred


class DeclaredTypes:
    """The types of values when the inputs have their declared shapes; inferred when they are asked for."""

    def __init__(self) -> None:
        self._types: dict[Output, TensorType] = {}
        self.inferred: dict[Node, Inferred] = {}
        """Inferred types of layers, used again when the model gets its declared shapes."""

    def declare(self, parameter: Node, tensor_type: TensorType) -> None:
        """Set the type that an input of the model is declared with."""
        self._types[parameter.outputs[0]] = tensor_type

    def of(self, value: Output, captured: Callable[[Node], Output | None]) -> TensorType:
        """The type of ``value``; with dynamic dimensions where the declared shapes contradict the graph.

        ``captured`` gives the value outside that a body's parameter stands for.
        """
        pending = [value]
        while pending:
            output = pending[-1]
            if output in self._types:
                pending.pop()
                continue
            node = output.node
            outer = captured(node) if node.op.role == "parameter" else None
            sources = node.inputs if outer is None else [outer]
            missing = [source for source in sources if source not in self._types]
            if missing:
                pending += missing
                continue
            if outer is not None:
                self._types[output] = self._types[outer]
            else:
                self._types.update(zip(node.outputs, self._infer(node)))
        return self._types[value]

    def _infer(self, node: Node) -> list[TensorType]:
        inputs = [self._types[source] for source in node.inputs]
        declared_types = [output.type for output in node.outputs]
        if all(tensor_type is source.type for tensor_type, source in zip(inputs, node.inputs)):
            return declared_types
        try:
            inferred = infer_types(node.op, inputs)
        except ModelError:
            return declared_types
        self.inferred[node] = Inferred(node.op, inputs, inferred)
        return inferred

    def of_parameters(self) -> dict[Node, TensorType]:
        """The declared types of the model's inputs."""
        return {
            output.node: tensor_type
            for output, tensor_type in self._types.items()
            if output.node.op.role == "parameter"
        }
