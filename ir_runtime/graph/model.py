"""Models and bodies: graphs of nodes between parameters and results. Nothing here knows an operation by name."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..boundary import boundary
from ..displayed import Displayed
from ..errors import ModelError
from ..records import record
from .node import Edits, Node, Origin, Output, RuntimeInfo, copy_nodes, enter_graph, leave_graph
from .operation import Operation
from .pickling import flattened, rebuilt
from .reshaping import infer_again, types_for

__all__ = [
    "InputMap",
    "Model",
    "Node",
    "Origin",
    "Output",
    "OutputMap",
    "Part",
    "PortMap",
    "RuntimeInfo",
    "SubGraph",
]


class Model(Displayed):
    """A graph between parameters and results; bodies of operations are models, too.

    The order of ``parameters`` and ``results`` is the order of the model's inputs and outputs.
    ``sinks`` are nodes that take effect without being anyone's input (Assign).
    """

    def __init__(
        self,
        name: str = "",
        parameters: Iterable[Node] = (),
        results: Iterable[Node] = (),
        sinks: Iterable[Node] = (),
        runtime_info: tuple[RuntimeInfo, ...] = (),
        version: int = 11,
    ) -> None:
        self.name = name
        self._parameters, self._results, self._sinks = tuple(parameters), tuple(results), tuple(sinks)
        self.runtime_info = runtime_info
        self.version = version
        self._parts: list[Part] = []
        self._edits = -1
        """The number of edits at which ``_parts`` was computed."""
        enter_graph(self._ends())

    def _ends(self) -> tuple[Node, ...]:
        return (*self._parameters, *self._results, *self._sinks)

    @property
    def parameters(self) -> tuple[Node, ...]:
        """The nodes of the inputs, in their order."""
        return self._parameters

    @parameters.setter
    def parameters(self, nodes: Iterable[Node]) -> None:
        self._parameters = _exchange(self._parameters, tuple(nodes))

    @property
    def results(self) -> tuple[Node, ...]:
        """The nodes of the outputs, in their order."""
        return self._results

    @results.setter
    def results(self, nodes: Iterable[Node]) -> None:
        self._results = _exchange(self._results, tuple(nodes))

    @property
    def sinks(self) -> tuple[Node, ...]:
        """The nodes that take effect without being an input of another node."""
        return self._sinks

    @sinks.setter
    def sinks(self, nodes: Iterable[Node]) -> None:
        self._sinks = _exchange(self._sinks, tuple(nodes))

    def nodes(self) -> list[Node]:
        """Every node, each after its inputs; the same order each time.

        Raises :class:`ModelError` where the graph has a cycle.
        """
        return list(self.parts()[0].nodes)

    def parts(self) -> list[Part]:
        """This model and every body below it, each with its nodes."""
        if self._edits == Edits.last:
            return self._parts
        edits, parts = Edits.last, list[Part]()
        pending = [self]
        while pending:
            part = Part(pending.pop())
            parts.append(part)
            for node in part.nodes:
                subgraphs = node.op.subgraphs
                if subgraphs:
                    pending.extend([sub.body for sub in subgraphs])
        self._parts, self._edits = parts, edits
        return parts

    @property
    def types(self) -> frozenset[str]:
        """The types of its layers and of those of its bodies."""
        return frozenset(operation.type for part in self.parts() for operation in part.operations)

    def all_models(self) -> Iterator[Model]:
        """This model and every body below it."""
        for part in self.parts():
            yield part.model

    def __repr__(self) -> str:
        inputs = ", ".join(_label(node.outputs[0], node) for node in self.parameters)
        outputs = ", ".join(_label(node.inputs[0], node) for node in self.results)
        return f"<Model {self.name!r}: ({inputs}) -> ({outputs})>"

    def __reduce__(self) -> tuple[Any, ...]:
        nodes = self.nodes()
        position = {node: index for index, node in enumerate(nodes)}
        ends = [[position[node] for node in side] for side in (self.parameters, self.results, self.sinks)]
        return _unpickle, (self.name, flattened(nodes), ends, self.runtime_info, self.version)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self.clone()

    def clone(self) -> Model:
        """A copy whose layers, those of bodies too, may be changed without changing this model.

        It shares what does not change: operations and weights.
        """
        copies = copy_nodes(self.nodes())
        copy = type(self)(
            self.name,
            [copies[node] for node in self.parameters],
            [copies[node] for node in self.results],
            [copies[node] for node in self.sinks],
            self.runtime_info,
            self.version,
        )
        copy._copy_rest(self, copies)
        return copy

    def _copy_rest(self, source: Model, copies: Mapping[Node, Node]) -> None:
        """Copy what derived classes hold besides; ``copies`` are those of the layers."""

    @boundary(error=ModelError)
    def reshape(self, shapes: Any) -> None:
        """Give inputs other shapes, in place; every type that follows from them is inferred again.

        ``shapes`` maps inputs (tensor names, positions or :class:`~ir_runtime.Port`) to shapes; for a model
        of one input a shape alone will do. A shape is a :class:`PartialShape`, its text
        (``"[1,3,?,1..8]"``), or a list of numbers, ``-1``, ``None``, ``(low, high)`` pairs, texts and
        dimensions: the forms of OpenVINO's ``Model.reshape``.

        Raises :class:`ModelError` for an unknown input or an unreadable shape, :class:`InferenceError` where a layer
        cannot take the shapes that follow; the model is then unchanged.
        """
        infer_again(self.nodes(), types_for(self.parameters, shapes))

    @property
    def inputs(self) -> list[Output]:
        """The parameters' outputs."""
        return [node.outputs[0] for node in self.parameters]

    @property
    def outputs(self) -> list[Output]:
        """The outputs that the results read."""
        return [node.inputs[0] for node in self.results]


def _unpickle(
    name: str,
    layers: Sequence[Any],
    ends: Sequence[Sequence[int]],
    runtime_info: tuple[RuntimeInfo, ...],
    version: int,
) -> Model:
    nodes = rebuilt(layers)
    parameters, results, sinks = [[nodes[index] for index in side] for side in ends]
    return Model(name, parameters, results, sinks, runtime_info, version)


def _label(output: Output, end: Node) -> str:
    """A tensor as a model's input or output: its name and its type."""
    names = end.output_names or output.names
    return f"{names[0] if names else end.name}: {output.type}"


def _visit(root: Node, state: dict[Node, bool], order: list[Node]) -> None:
    """Depth first without recursion; ``state`` is False while a node is open, True when done."""
    state_of = state.get
    if state_of(root):
        return
    state[root] = False
    node, sources = root, iter(root.inputs)
    below: list[tuple[Node, Iterator[Output]]] = []
    """Open nodes, and what is left of their inputs."""
    while True:
        for source in sources:
            before = source.node
            done = state_of(before)
            if done is None and not before.inputs:
                state[before] = True
                order.append(before)
            elif done is None:
                state[before] = False
                below.append((node, sources))
                node, sources = before, iter(before.inputs)
                break
            elif not done:
                raise ModelError(f"layer '{before.name}' ({before.op.type}) is part of a cycle")
        else:
            # All nodes that it reads are done.
            state[node] = True
            order.append(node)
            if not below:
                return
            node, sources = below.pop()


def _exchange(before: Sequence[Node], after: tuple[Node, ...]) -> tuple[Node, ...]:
    """Let the ends ``before`` of a model leave its graph for those of ``after``, and return these."""
    Edits.note()
    enter_graph(after)  # first, so that what both have stays in the graph
    leave_graph(before)
    return after


class Part:
    """A model or a body with its nodes and their operations. Valid until a change."""

    def __init__(self, model: Model) -> None:
        self.model = model
        order: list[Node] = []
        state: dict[Node, bool] = {}
        for root in model._ends():
            _visit(root, state, order)
        self.nodes = order

    @functools.cached_property
    def operations(self) -> frozenset[type[Operation]]:
        """The operations of its nodes, each once."""
        return frozenset([type(node.op) for node in self.nodes])

    def nodes_of(self, operations: tuple[type[Operation], ...]) -> list[Node]:
        """Its nodes of these operations, and of those derived from them; in the graph's order."""
        classes = {cls for cls in self.operations if issubclass(cls, operations)}
        return [node for node in self.nodes if type(node.op) in classes] if classes else []


@record
class PortMap:
    """One entry of a port map: a port of the layer, and its parameter or result inside the body.

    With ``axis`` the tensor is cut into slices, or joined from them.
    """

    external: int | None
    internal: int
    axis: int | None = None
    start: int = 0
    end: int = -1
    stride: int = 1
    part_size: int = 1


class InputMap(PortMap):
    """Maps an input of the layer to a parameter of the body; None is a Loop's iteration counter."""

    @property
    def parameter(self) -> int:
        return self.internal


class OutputMap(PortMap):
    """Maps a result of the body to an output of the layer; None is a Loop's execution condition.

    With ``axis`` the iterations' values are concatenated; without, the last one counts.
    """

    @property
    def result(self) -> int:
        return self.internal


@record
class SubGraph:
    """A body with its port maps and back edges."""

    body: Model
    inputs: tuple[InputMap, ...]
    outputs: tuple[OutputMap, ...]
    back_edges: tuple[tuple[int, int], ...] = ()
    """(result, parameter): the result's value is the parameter's in the next iteration."""
