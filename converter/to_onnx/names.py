"""The names of an exported graph: those of the IR's tensors and layers, each once."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from converter.onnx_file import schema_table
from converter.onnx_file.node_order import stable_order
from ir_runtime.rewriting import UniqueNames

from .graph import Call, Graph, Value


def used_parts(graph: Graph, opset: int) -> None:
    """Leave out nodes and constants that nothing reads, in place; bodies too."""
    read: set[Value] = set()
    _mark(graph, opset, read)


def _mark(graph: Graph, opset: int, read: set[Value]) -> None:
    read.update(graph.outputs)
    kept_calls = []
    for call in reversed(graph.calls):
        if not any(value in read for value in call.outputs):
            continue
        kept_calls.append(call)
        read.update(value for value in call.inputs if value is not None)
        read.update(call.captured)
        for body in bodies_of(call):
            _mark(body, opset, read)
        _drop_unread_outputs(call, opset, read)
    graph.calls = sort_calls(kept_calls[::-1], range(len(kept_calls)))
    graph.constants = [(value, tensor) for value, tensor in graph.constants if value in read]


def _drop_unread_outputs(call: Call, opset: int, read: set[Value]) -> None:
    """Remove trailing optional outputs that nothing reads."""
    schema = schema_table.find(call.op_type, call.domain, opset)
    # The number of variadic outputs carries meaning: Split divides by it, and bodies have one result for each output.
    # A function of the model, which has no schema, computes all of its outputs.
    if schema is None or schema.has_variadic_output or call.operator is not None:
        return
    while len(call.outputs) > schema.least_outputs and call.outputs[-1] not in read:
        call.outputs.pop()


def sort_calls(calls: Sequence[Call], places: Sequence[int]) -> list[Call]:
    """Return nodes after those that they read, and otherwise by their places."""
    edges = [(place, set(read_by(call)), call.outputs) for call, place in zip(calls, places)]
    return [calls[index] for index in stable_order(edges)]


def read_by(call: Call) -> Iterator[Value]:
    """The values that a node and the nodes of its bodies read."""
    yield from (value for value in call.inputs if value is not None)
    yield from call.captured
    for body in bodies_of(call):
        yield from body.outputs
        for inner in body.calls:
            yield from read_by(inner)


def bodies_of(call: Call) -> list[Graph]:
    """The graphs among a node's attributes."""
    return [value for value in call.attributes.values() if isinstance(value, Graph)]


def calls_of(graph: Graph) -> Iterator[Call]:
    """The nodes of a graph and of its bodies."""
    for call in graph.calls:
        yield call
        for body in bodies_of(call):
            yield from calls_of(body)


def name_model(graph: Graph, inputs: Sequence[str], outputs: Sequence[str], opset: int) -> None:
    """Give every value and node of a model its name: inputs and outputs theirs, the others theirs where it is free.

    Constants that the IR has no name for are named after the first node that reads them.

    An output that is an input of another name, a constant or another output, too, is copied by an Identity.
    """
    names = UniqueNames()
    for value, name in zip(graph.inputs, inputs):
        value.name = names(name)
    final: set[Value] = set(graph.inputs)
    # An input may be an output as it is, under its own name, and a model may return a tensor twice.
    pairs = list(zip(graph.outputs, outputs))
    returned = {
        place
        for place, (value, name) in enumerate(pairs)
        if (value in final and value.name == name) or (value, name) in pairs[:place]
    }
    output_names = [name if place in returned else names(name) for place, name in enumerate(outputs)]
    _own_outputs(graph, final, returned)
    for value, name in zip(graph.outputs, output_names):
        value.name = name
        final.add(value)
    _name_values(graph, opset, names, UniqueNames(), final)


def _own_outputs(graph: Graph, taken: set[Value], returned: Container[int] = ()) -> None:
    """Make each output, but those ``returned`` as they are, a value of its own that a node of the graph computes."""
    own = {value for call in graph.calls for value in call.outputs}
    seen: set[Value] = set()
    for place, value in enumerate(graph.outputs):
        if place in returned:
            continue
        if value in own and value not in taken and value not in seen:
            seen.add(value)
            continue
        call = Call("Identity", "", [value], {}, value.name or "output")
        copy = graph.outputs[place] = Value(value.type, made_by=call)
        call.outputs = [copy]
        graph.calls.append(call)


def _name_values(graph: Graph, opset: int, names: UniqueNames, nodes: UniqueNames, final: set[Value]) -> None:
    for value, _ in graph.constants:
        if value.name and value not in final:
            value.name = names(value.name)
            final.add(value)
    for call in graph.calls:
        call.name = nodes(call.name or call.op_type)
        schema = schema_table.find(call.op_type, call.domain, opset)
        for place, source in enumerate(call.inputs):
            if source is not None and source.made_by is None and not source.name:
                formals = () if schema is None else schema.inputs
                formal = formals[min(place, len(formals) - 1)].name if formals else "input"
                source.name = names(f"{call.name}/{formal}")
                final.add(source)
        for body in bodies_of(call):
            for entry in body.inputs:
                entry.name = names(entry.name or f"{call.name}/input")
                final.add(entry)
            _own_outputs(body, set(body.inputs))
            _name_values(body, opset, names, nodes, final)
        for place, output in enumerate(call.outputs):
            if output not in final:
                own = f"{call.name}.{place}" if len(call.outputs) > 1 else call.name
                output.name = names(output.name or own)
                final.add(output)
