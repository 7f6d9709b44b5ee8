"""The single layer that an engine computes wrongly, among the layers of a part or of the bodies of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from converter.equivalence.comparison.compare import compare
from converter.equivalence.comparison.parts import Run
from converter.equivalence.comparison.tolerances import Choose
from converter.equivalence.reference.engines import Engine
from converter.targets.openvino_cpu.limits import limit_reached
from ir_runtime import Model, ModelError
from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.graph.model import SubGraph
from ir_runtime.graph.operation import Runner
from ir_runtime.rewriting.submodel import extract


class _FaultFound(Exception):
    """Ends the run of a body at the layer that is wrong."""


class WrongLayer:
    """Finds the first layer whose results differ in an engine, from the inputs that it has in NumPy.

    Layers are models of their own there, and are compiled once; bodies are run in NumPy, layer by layer, with the
    values of one iteration at a time.
    """

    def __init__(self, compile_part: Callable[[Model], Engine], tolerance: Choose, run: Run) -> None:
        self._compile_part = compile_part
        self._tolerance = tolerance
        self._run = run
        self.limits: list[str] = []
        """Layers whose results differ by a known limit of OpenVINO's CPU plug-in alone, and how."""
        self._engines: dict[Node, tuple[Engine, dict[Output, str]] | None] = {}

    def of(self, model: Model, nodes: Sequence[Node], values: Mapping[Output, Array]) -> tuple[str, str] | None:
        """The path and the type of the first of ``nodes`` of ``model`` that is wrong; None where each is right.

        ``values`` are those of NumPy. The path of a layer of a body begins with the layer that has the body.
        """
        for node in nodes:
            outputs = [values.get(output) for output in node.outputs]
            if not node.inputs or any(value is None for value in outputs):
                continue
            if all(source in values or source.node.op.data is not None for source in node.inputs):
                fault = self._in_layer(model, node, values, [np.asarray(value) for value in outputs])
                if fault is not None:
                    return fault
        return None

    def _in_layer(
        self, model: Model, node: Node, values: Mapping[Output, Array], expected: Sequence[Array]
    ) -> tuple[str, str] | None:
        if self._is_right(model, node, values, expected):
            return None
        if node.op.subgraphs:
            try:
                node.op.execute(
                    [self._body(sub) for sub in node.op.subgraphs], [_value(source, values) for source in node.inputs]
                )
            except _FaultFound as error:
                path, operation = error.args
                return f"{node.name}/{path}", operation
            except ModelError:
                pass  # the layer as a whole is named
        return node.name, node.op.type

    def _body(self, sub: SubGraph) -> Runner:
        nodes = sub.body.nodes()

        def run(arguments: Sequence[Array]) -> list[Array]:
            values = dict(zip(sub.body.inputs, arguments))
            for node in nodes:
                if node.outputs and (node.inputs or node.op.data is not None):
                    values.update(zip(node.outputs, self._run(node, [values[source] for source in node.inputs])))
            fault = self.of(sub.body, nodes, values)
            if fault is not None:
                raise _FaultFound(*fault)
            return [values[result.inputs[0]] for result in sub.body.results]

        return run

    def _is_right(self, model: Model, node: Node, values: Mapping[Output, Array], expected: Sequence[Array]) -> bool:
        """True if the engine computes ``expected``, or cannot run the layer alone."""
        if node not in self._engines:
            self._engines[node] = self._compiled(model, node)
        compiled = self._engines[node]
        if compiled is None:
            return True
        engine, ports = compiled
        try:
            actual = engine.run({port: np.asarray(values[source]) for source, port in ports.items()})
        except ModelError:
            return True
        inputs = [_value(source, values) for source in node.inputs]
        return all(self._agrees(node, inputs, value, result) for value, result in zip(expected, actual))

    def _agrees(self, node: Node, inputs: Sequence[Array], expected: Array, actual: Array) -> bool:
        """True if both agree, or differ only where a known limit of the plug-in is reached."""
        if compare("", expected, actual, self._tolerance(expected)).passed:
            return True
        limit, mask = limit_reached(node, inputs, expected, actual)
        if (
            mask is None
            or not compare("", expected, np.where(mask, expected, actual), self._tolerance(expected)).passed
        ):
            return False
        self.limits.append(f"layer '{node.name}' ({node.op.type}) {limit}")
        return True

    def _compiled(self, model: Model, node: Node) -> tuple[Engine, dict[Output, str]] | None:
        outside = [source for source in node.inputs if source.node.op.data is None]
        ports = {source: f"input{number}" for number, source in enumerate(dict.fromkeys(outside))}
        if not ports or any(value.element_type is element_types.string for value in (*node.inputs, *node.outputs)):
            return None
        names = {output: f"output{number}" for number, output in enumerate(node.outputs)}
        try:
            return self._compile_part(extract(model, ports, names)), ports
        except ModelError:
            return None


def _value(source: Output, values: Mapping[Output, Array]) -> Array:
    data = source.node.op.data
    return values[source] if data is None else data.array()
