"""Layers without a counterpart as model-local functions: the graph keeps one node for the layer.

A function is named after the IR's operation and holds the standard operators that compute it for one set of
attributes. Layers of equal functions share one. https://onnx.ai/onnx/repo-docs/IR.html#functions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from converter.onnx_file.domains import LOCAL_FUNCTIONS
from ir_runtime.graph.operation import Operation, TensorType
from ir_runtime.rewriting import UniqueNames

from .context import Context
from .graph import Call, Function, Graph, Value
from .messages import function_message
from .names import bodies_of, calls_of, name_model, used_parts

_MIN_NODES = 2
"""A single node stands for itself."""


class Functions:
    """The functions of a model."""

    def __init__(self) -> None:
        self._by_content: dict[bytes, Function] = {}
        self._names = UniqueNames()

    def called_in(self, graph: Graph) -> list[Function]:
        """The functions that a graph or a body in it calls, in the order of the first call."""
        by_name = {function.name: function for function in self._by_content.values()}
        names = dict.fromkeys(call.op_type for call in calls_of(graph) if call.domain == LOCAL_FUNCTIONS)
        return [by_name[name] for name in names]

    def call(
        self, ctx: Context, names: Sequence[str], operands: Sequence[Value], outputs: Sequence[Value], outside: Graph
    ) -> list[Value]:
        """Call a function in ``outside`` that has the nodes of the layer's graph, which compute ``outputs``.

        ``operands`` are the layer's inputs, and ``names`` what they are called. Return the value that
        stands for each of ``outputs``: constants, and inputs that are returned as they are, stay outside.
        """
        inside = ctx.graph
        computed = {value for call in inside.calls for value in call.outputs}
        inside.outputs = results = [value for value in dict.fromkeys(outputs) if value in computed]
        outside.constants += [pair for pair in inside.constants if pair[0] in outputs]
        inside.constants = [pair for pair in inside.constants if pair[0] not in outputs]
        used_parts(inside, ctx.opset)
        if len(inside.calls) < _MIN_NODES:
            outside.calls += inside.calls
            outside.constants += inside.constants
            return list(outputs)
        free = dict.fromkeys(_free_values(inside))
        named = dict(zip(reversed(operands), reversed(names)))
        others = [value for value in free if value not in named]
        inputs = [(name, value) for value, name in reversed(named.items()) if value in free]
        inputs += [(f"input_{place}", value) for place, value in enumerate(others)]
        function = self._function(ctx.node.op, inside, inputs, ctx.opset)
        call = Call(function.name, LOCAL_FUNCTIONS, [value for _, value in inputs], {}, ctx.node.name)
        call.outputs = [Value(value.type, made_by=call) for value in results]
        outside.calls.append(call)
        new = dict(zip(results, call.outputs))
        return [new.get(value, value) for value in outputs]

    def _function(self, op: Operation, graph: Graph, inputs: Sequence[tuple[str, Value]], opset: int) -> Function:
        """The function that computes the outputs of ``graph`` from ``inputs``, which it reads under these names."""
        formals = {value: Value(TensorType(value.element_type, value.shape), name) for name, value in inputs}
        _replace(graph, formals)
        graph.inputs = list(formals.values())
        _forget_names(graph)
        outputs = [f"output_{place}" for place in range(len(graph.outputs))] if len(graph.outputs) > 1 else ["output"]
        name_model(graph, [name for name, _ in inputs], outputs, opset)
        settings = ", ".join(f"{key}={value}" for key, value in op.attributes().items())
        description = f"{op.type} of OpenVINO's opset{op.opset}" + (f": {settings}" if settings else "")
        function = Function(op.type, graph, description)
        content = function_message(function, opset).SerializeToString(deterministic=True)
        earlier = self._by_content.get(content)
        if earlier is not None:
            return earlier
        function.name = self._names(op.type)
        self._by_content[content] = function
        return function


def _free_values(graph: Graph) -> Iterator[Value]:
    """Return the values that a graph and its bodies read but neither compute nor hold."""
    own = {value for call in graph.calls for value in call.outputs}
    own.update(graph.inputs, (value for value, _ in graph.constants))
    for call in graph.calls:
        yield from (value for value in call.inputs if value is not None and value not in own)
        for body in bodies_of(call):
            yield from (value for value in _free_values(body) if value not in own)
    yield from (value for value in graph.outputs if value not in own)


def _replace(graph: Graph, by: dict[Value, Value]) -> None:
    graph.outputs = [by.get(value, value) for value in graph.outputs]
    for call in graph.calls:
        call.inputs = [None if value is None else by.get(value, value) for value in call.inputs]
        for body in bodies_of(call):
            _replace(body, by)


def _forget_names(graph: Graph) -> None:
    """Names that come from the layer: equal functions have equal ones."""
    graph.name = ""
    for value in (*graph.outputs, *(value for value, _ in graph.constants)):
        value.name = ""
    for call in graph.calls:
        call.name = ""
        for value in call.outputs:
            value.name = ""
        for body in bodies_of(call):
            for value in body.inputs:
                value.name = ""
            _forget_names(body)
