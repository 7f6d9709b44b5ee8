"""An ONNX graph while it is written: operators and constants in the order in which exporters emit them.

Values get their names when the graph is complete, so that a node's result can still take the name of the tensor in the
IR that it stands for. Until then a body reads values of the graphs around it as they are: :meth:`Graph.closed` makes
them inputs of the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from converter.onnx_file.graph import (
    CAPTURED,
    INITIALIZER,
    INPUT,
    NODE,
    OUTPUT,
    OnnxGraph,
    OnnxOperator,
    new_operator,
    operator_of,
    value_info,
)
from converter.onnx_file.model import constant_operator
from ir_runtime.graph import InputMap, Model, Node, Output, OutputMap, PartialShape, SubGraph, Tensor, TensorType

Value = Output
"""A tensor of the ONNX graph: its type, and the name that it has or is to have."""


def is_computed(value: Value) -> bool:
    """True if a node computes a value, which is neither an input nor a constant."""
    return not value.node.op.role


def value_name(value: Value) -> str:
    """Return the name of a value; empty where it has none yet."""
    return value.names[0] if value.names else ""


def rename(value: Value, name: str) -> None:
    """Give a value another name."""
    value.names = [name]


def new_value(op: OnnxOperator, type: TensorType, name: str = "") -> Value:
    """Return the value of an input; names are those of values, and its node has none."""
    (value,) = Node(op, (), [type]).outputs
    if name:
        value.names = [name]
    return value


def input_value(type: TensorType, name: str) -> Value:
    """Return an input of a graph."""
    return new_value(OnnxOperator(INPUT), type, name)


def operator(
    op_type: str, domain: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any], count: int
) -> tuple[OnnxOperator, list[Value]]:
    """Return an operator of ``count`` outputs, and the inputs of its node: behind those listed what its bodies read.

    :class:`Graph` values among the attributes become bodies.
    """
    listed = list(inputs)
    while listed and listed[-1] is None:
        listed.pop()
    read = [value for value in listed if value is not None]
    closed = {key: value.closed() for key, value in sorted(attributes.items()) if isinstance(value, Graph)}
    captured = list(dict.fromkeys(value for _, values in closed.values() for value in values))
    indices = {value: len(read) + index for index, value in enumerate(captured)}
    graphs = tuple(_body(body, [indices[value] for value in values]) for body, values in closed.values())
    values = {**attributes, **dict.fromkeys(closed)}
    return new_operator(op_type, listed, values, domain=domain, count=count, graphs=graphs), [*read, *captured]


def _body(body: OnnxGraph, captured: Sequence[int]) -> SubGraph:
    first = len(body.parameters) - len(captured)
    inputs = tuple(InputMap(external, first + index) for index, external in enumerate(captured))
    return SubGraph(body, inputs, tuple(OutputMap(index, index) for index in range(len(body.results))))


class Graph:
    """Nodes in the order of their evaluation, with the constants that they read."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.nodes: list[Node] = []

    def add(
        self,
        op: OnnxOperator,
        inputs: Iterable[Value],
        types: Iterable[TensorType],
        name: str,
        *,
        origin: Any = None,
    ) -> Node:
        """Add a node of these inputs, whose outputs have these types."""
        node = Node(op.replace(order=len(self.nodes)), inputs, types, name)
        node.origin = origin
        self.nodes.append(node)
        return node

    def constant(self, tensor: Tensor, name: str, stored: list[Tensor]) -> Value:
        """Add a constant; data that is large is added to ``stored``."""
        op = constant_operator(tensor, stored)
        node = self.add(op, (), [TensorType(tensor.element_type, PartialShape(tensor.shape), tensor)], "")
        node.outputs[0].names = [name] if name else []
        return node.outputs[0]

    def computed(self) -> set[Value]:
        """Return the values that the operators of this graph compute."""
        return {value for node in self.nodes if operator_of(node).kind == NODE for value in node.outputs}

    def needed(self) -> list[Node]:
        """Return the nodes that the outputs need, in their order."""
        read, needed = set(self.outputs), list[Node]()
        for node in reversed(self.nodes):
            if not read.isdisjoint(node.outputs):
                read.update(node.inputs)
                needed.append(node)
        return needed[::-1]

    def isolate(self, kind: str) -> dict[Value, Value]:
        """Replace what the needed nodes read from other graphs by values of inputs of that kind, and return these."""
        own = {value for node in self.nodes for value in node.outputs}.union(self.inputs)
        inner: dict[Value, Value] = {}
        for value in (*(source for node in self.needed() for source in node.inputs), *self.outputs):
            if value not in own and value not in inner:
                inner[value] = new_value(
                    OnnxOperator(kind), TensorType(value.element_type, value.shape), value_name(value)
                )
        for node in self.needed():
            node.inputs = tuple(inner.get(value, value) for value in node.inputs)
        self.outputs = [inner.get(value, value) for value in self.outputs]
        return inner

    def closed(self) -> tuple[OnnxGraph, list[Value]]:
        """Return the graph as a body, and the values around it that it reads, which are its last inputs.

        Each of its outputs is the result of a node of its own.
        """
        captured = self.isolate(CAPTURED)
        self.own_outputs()
        return self.finished(captured.values()), list(captured)

    def own_outputs(self, returned: Iterable[int] = ()) -> None:
        """Let each output, but those ``returned`` as they are, be the result of a node of its own."""
        computed, seen, kept = self.computed(), set[Value](), set(returned)
        for index, value in enumerate(self.outputs):
            if index in kept:
                continue
            if value in computed and value not in seen:
                seen.add(value)
                continue
            op, inputs = operator("Identity", "", [value], {}, 1)
            copy = self.add(op, inputs, [value.type], value_name(value) or "output")
            self.outputs[index] = copy.outputs[0]

    def finished(self, captured: Iterable[Value] = ()) -> OnnxGraph:
        """Return the graph, whose last inputs are ``captured``; what nothing reads is left out."""
        for node in self.nodes:
            node.op = operator_of(node).replace(types=[value.type for value in node.outputs])
        parameters = [value.node for value in (*self.inputs, *captured)]
        results = [Node(OnnxOperator(OUTPUT, count=0), [value]) for value in self.outputs]
        for node in (*parameters, *results):
            (value,) = node.inputs or node.outputs
            node.op = operator_of(node).replace(infos={-1: (0, value_info(value_name(value), value.type))})
        return OnnxGraph(self.name or "graph", parameters, results)


def listed_inputs(node: Node) -> list[Value | None]:
    """Return the inputs that a node lists; None for those that are left out."""
    sources = iter(node.inputs)
    return [next(sources) if is_here else None for is_here in operator_of(node).slots]


def origin_of(node: Node) -> str:
    """Return the name of the ONNX node that a node was made from; empty where it was made from none."""
    return "" if node.origin is None else node.origin.node


def operators_of(graph: Model) -> list[Node]:
    """Return the nodes of a graph that are operators, in the order of the file."""
    nodes = [node for node in graph.nodes() if operator_of(node).kind == NODE]
    return sorted(nodes, key=lambda node: operator_of(node).order)


def written_operators(graph: Model) -> Iterator[Node]:
    """Yield the operators of a graph, and of the bodies of those that were written for it."""
    for node in operators_of(graph):
        yield node
        if operator_of(node).place is None:
            for sub in node.op.subgraphs:
                yield from written_operators(sub.body)


def constants_of(graph: Model) -> list[Node]:
    """Return the constants of a graph, in the order of the file."""
    nodes = [node for node in graph.nodes() if operator_of(node).kind == INITIALIZER]
    return sorted(nodes, key=lambda node: operator_of(node).order)
