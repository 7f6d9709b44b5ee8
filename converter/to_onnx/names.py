"""The names of an exported graph: those of the IR's tensors and layers, each once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from converter.onnx_file import schema_table
from converter.onnx_file.graph import OnnxGraph, operator_of, value_info
from ir_runtime.graph import Model, Node
from ir_runtime.graph.invariants import NAMES
from ir_runtime.rewriting import UniqueNames, graph_pass

from .graph import (
    Graph,
    Value,
    constants_of,
    is_computed,
    listed_inputs,
    operators_of,
    rename,
    value_name,
    written_operators,
)


def _drop_unread_outputs(graph: Model, opset: int) -> None:
    """Remove trailing optional outputs that nothing reads, in place; those of bodies too."""
    for node in written_operators(graph):
        op = operator_of(node)
        schema = schema_table.find(op.op_type, op.domain, opset)
        # The number of variadic outputs carries meaning: Split divides by it, and bodies have one result for each
        # output. A function of the model, which has no schema, computes all of its outputs.
        if schema is None or schema.has_variadic_output or op.place is not None:
            continue
        count = op.count
        while count > schema.least_outputs and not node.outputs[count - 1].is_used:
            count -= 1
        if count < op.count:
            node.outputs, node.op = node.outputs[:count], op.replace(count=count, types=op.types[:count])


def name_model(
    graph: Graph,
    inputs: Sequence[str],
    outputs: Sequence[str],
    opset: int,
    dimensions: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> OnnxGraph:
    """Return a model in which every value and node has its name: inputs and outputs theirs, the others theirs where
    it is free.

    Constants that the IR has no name for are named after the first node that reads them.

    An output that is an input of another name, a constant or another output, too, is copied by an Identity.
    ``dimensions`` has the names of the dimensions of inputs and outputs, empty where one has none.
    """
    names = UniqueNames()
    for value, name in zip(graph.inputs, inputs):
        rename(value, names(name))
    # An input may be an output as it is, under its own name, and a model may return a tensor twice.
    pairs = list(zip(graph.outputs, outputs))
    returned = {
        index
        for index, (value, name) in enumerate(pairs)
        if (value in graph.inputs and value_name(value) == name) or (value, name) in pairs[:index]
    }
    output_names = [name if index in returned else names(name) for index, name in enumerate(outputs)]
    graph.own_outputs(returned)
    for value, name in zip(graph.outputs, output_names):
        rename(value, name)
    finished = graph.finished()
    _name(finished, opset, names, dimensions)
    return finished


@graph_pass("onnx_names", NAMES)
def _name(graph: Model, opset: int, names: UniqueNames, dimensions: Mapping[str, Sequence[str]]) -> None:
    """Name what a model computes, and declare its inputs and outputs, which have their names."""
    _drop_unread_outputs(graph, opset)
    _name_values(graph, opset, names, UniqueNames(), {*graph.inputs, *graph.outputs})
    for node in (*graph.parameters, *graph.results):
        (value,) = node.inputs or node.outputs
        info = value_info(value_name(value), value.type, dimensions.get(value_name(value), ()))
        node.op = operator_of(node).replace(infos={-1: (0, info)})


def label(node: Node, name: str) -> None:
    """Give a node its name."""
    node.name = name
    op = operator_of(node)
    if op.place is None:
        node.op = op.replace(label=name)


def _name_values(
    graph: Model,
    opset: int,
    names: UniqueNames,
    nodes: UniqueNames,
    final: set[Value],
    around: Mapping[Value, Value] = MappingProxyType({}),
) -> None:
    """Name what a graph holds and computes; of a body ``around`` has the values that its last parameters stand for."""
    for node in constants_of(graph):
        (value,) = node.outputs
        if value.names and value not in final:
            rename(value, names(value_name(value)))
            final.add(value)
    for node in operators_of(graph):
        op = operator_of(node)
        label(node, nodes(node.name or op.op_type))
        schema = schema_table.find(op.op_type, op.domain, opset)
        for index, listed in enumerate(listed_inputs(node)):
            source = None if listed is None else around.get(listed, listed)
            if source is not None and not is_computed(source) and not source.names:
                formal = schema.input(index).name if schema is not None and schema.inputs else "input"
                rename(source, names(f"{node.name}/{formal}"))
                final.add(source)
        for sub in op.subgraphs if op.place is None else ():
            for parameter in sub.body.parameters[: len(sub.body.parameters) - len(sub.inputs)]:
                (value,) = parameter.outputs
                rename(value, names(value_name(value) or f"{node.name}/input"))
                final.add(value)
            outside = {sub.body.parameters[entry.parameter].outputs[0]: entry.external for entry in sub.inputs}
            read = {value: node.inputs[index] for value, index in outside.items() if index is not None}
            inner = {value: around.get(source, source) for value, source in read.items()}
            _name_values(sub.body, opset, names, nodes, final, inner)
        for index, output in enumerate(node.outputs):
            if output not in final:
                own = f"{node.name}.{index}" if len(node.outputs) > 1 else node.name
                rename(output, names(value_name(output) or own))
                final.add(output)
