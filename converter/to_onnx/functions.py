"""Layers without a counterpart as model-local functions: the graph keeps one node for the layer.

A function is named after the IR's operation and holds the standard operators that compute it for one set of
attributes. Layers of equal functions share one. https://onnx.ai/onnx/repo-docs/IR.html#functions
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from converter.onnx_file.domains import LOCAL_FUNCTIONS
from converter.onnx_file.graph import INPUT, NODE, OnnxGraph, OnnxOperator, function_message, operator_of
from ir_runtime.graph import Model, Node
from ir_runtime.graph.invariants import PASSES
from ir_runtime.graph.operation import Operation
from ir_runtime.rewriting import UniqueNames, graph_pass

from .context import Context
from .graph import Graph, Value, constants_of, operator, written_operators
from .names import name_model
from .opsets import imported_opsets

_MIN_NODES = 2
"""A single node stands for itself."""


class Functions:
    """The functions of a model."""

    def __init__(self) -> None:
        self._by_content: dict[bytes, OnnxGraph] = {}
        self._names = UniqueNames()

    def called_in(self, graph: Model) -> list[OnnxGraph]:
        """The functions that a graph or a body in it calls, in the order of the first call."""
        by_name = {function.name: function for function in self._by_content.values()}
        calls = (operator_of(node) for node in written_operators(graph))
        return [by_name[name] for name in dict.fromkeys(op.op_type for op in calls if op.domain == LOCAL_FUNCTIONS)]

    def call(
        self, ctx: Context, names: Sequence[str], operands: Sequence[Value], outputs: Sequence[Value], outside: Graph
    ) -> list[Value]:
        """Call a function in ``outside`` that has the nodes of the layer's graph, which compute ``outputs``.

        ``operands`` are the layer's inputs, and ``names`` what they are called. Return the value that
        stands for each of ``outputs``: constants, and inputs that are returned as they are, stay outside.
        """
        inside, computed = ctx.graph, ctx.graph.computed()
        inside.outputs = results = [value for value in dict.fromkeys(outputs) if value in computed]
        if sum(node.op.data is None for node in inside.needed()) < _MIN_NODES:
            outside.nodes += inside.nodes
            return list(outputs)
        moved = [node for node in inside.nodes if node.op.data is not None and node.outputs[0] in outputs]
        outside.nodes += moved
        inside.nodes = [node for node in inside.nodes if node not in moved]
        types = [value.type for value in results]
        free = inside.isolate(INPUT)
        named = dict(zip(reversed(operands), reversed(names)))
        inputs = [(name, value) for value, name in reversed(named.items()) if value in free]
        others = [value for value in free if value not in named]
        inputs += [(f"input_{index}", value) for index, value in enumerate(others)]
        inside.inputs = [free[value] for _, value in inputs]
        function = self._function(ctx.node.op, inside, [name for name, _ in inputs], ctx.opset)
        op, read = operator(function.name, LOCAL_FUNCTIONS, [value for _, value in inputs], {}, len(results))
        new = dict(zip(results, outside.add(op, read, types, ctx.node.name).outputs))
        return [new.get(value, value) for value in outputs]

    def _function(self, op: Operation, graph: Graph, inputs: Sequence[str], opset: int) -> OnnxGraph:
        """The function of a graph, whose inputs have these names."""
        for node in graph.nodes:
            _forget_names(node)
        outputs = [f"output_{index}" for index in range(len(graph.outputs))] if len(graph.outputs) > 1 else ["output"]
        function = name_model(graph, inputs, outputs, opset)
        _make_constant_nodes(function)
        settings = ", ".join(f"{key}={value}" for key, value in op.attributes().items())
        function.rest = onnx.FunctionProto(
            domain=LOCAL_FUNCTIONS,
            doc_string=f"{op.type} of OpenVINO's opset{op.opset}" + (f": {settings}" if settings else ""),
            opset_import=imported_opsets(function, opset),
        ).SerializeToString(deterministic=True)
        function.name = op.type
        content = function_message(function).SerializeToString(deterministic=True)
        if content not in self._by_content:
            function.name = self._names(op.type)
            self._by_content[content] = function
        return self._by_content[content]


@graph_pass("constant_nodes", PASSES)
def _make_constant_nodes(function: Model) -> None:
    """Let the constants of a function, which has no initializers, be its first nodes."""
    constants = constants_of(function)
    for index, node in enumerate(constants):
        constant = operator_of(node)
        entry = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR, t=constant.proto)
        fields = {"entries": [entry], "bodies": [0], "proto": constant.proto, "read": constant.read}
        node.op = OnnxOperator(NODE, "Constant", order=index - len(constants), **fields)


def _forget_names(node: Node) -> None:
    """Forget names that come from the layer: equal functions have equal ones."""
    node.name = ""
    for value in node.outputs:
        value.names = []
    for sub in node.op.subgraphs:
        sub.body.name = "graph"
        for inner in sub.body.nodes():
            _forget_names(inner)
