"""The types of a model's tensors: what the file declares, and what follows from that."""

from __future__ import annotations

import onnx
from onnx import helper

from converter.errors import UnsupportedModelError
from converter.onnx_file import schema_table
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.model_info import declared_shape
from converter.onnx_file.node_order import all_graphs, subgraphs
from converter.onnx_file.types import element_type_of, of_spelling, onnx_number
from ir_runtime.graph import TensorType, element_types


def inferred_graph(message: onnx.ModelProto) -> onnx.GraphProto:
    """Return the graph of a model with the types that onnx infers; without these where it fails."""
    try:
        return onnx.shape_inference.infer_shapes(message, data_prop=True).graph
    except Exception:  # onnx raises several types
        return message.graph


def types_of(message: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """The types of a model's tensors, by name; those of values that are no tensors are left out."""
    inferred = inferred_graph(message)
    declared = [value for graph in all_graphs(inferred) for value in (*graph.value_info, *graph.input, *graph.output)]
    types = {value.name: value for value in reversed(declared) if value.type.tensor_type.elem_type}
    _infer_from_readers(message, types)
    return types


def set_types(model: OnnxModel) -> None:
    """Give the tensors of a model's graph, which is only shown, their types."""
    infos = types_of(model.message())
    for part in model.graph.parts():
        for value in (value for node in part.nodes for value in node.outputs):
            info = next((infos[name] for name in value.names if name in infos), None)
            if info is not None:
                value.type = type_of(info)


def type_of(value: onnx.ValueInfoProto) -> TensorType:
    """Return a declared or inferred type; what is not known of it is dynamic."""
    try:
        element_type = element_type_of(value.type.tensor_type.elem_type)
    except UnsupportedModelError:
        element_type = element_types.dynamic
    return TensorType(element_type, declared_shape(value.type))


def _infer_from_readers(message: onnx.ModelProto, types: dict[str, onnx.ValueInfoProto]) -> None:
    """Add element types of what unknown operators compute, where a reader takes no other type."""
    graphs = list(all_graphs(message.graph))
    nodes = [node for graph in graphs for node in graph.node]
    opsets = {normalize_domain(entry.domain): entry.version for entry in message.opset_import}
    numbers = {name: value.type.tensor_type.elem_type for name, value in types.items()}
    numbers |= {tensor.name: tensor.data_type for graph in graphs for tensor in graph.initializer}
    before = -1
    while before < len(numbers):  # what one node tells may be what another one needs
        before = len(numbers)
        for node in reversed(nodes):
            _infer_once(node, opsets, numbers, types)


def _infer_once(
    node: onnx.NodeProto, opsets: dict[str, int], numbers: dict[str, int], types: dict[str, onnx.ValueInfoProto]
) -> None:
    domain = normalize_domain(node.domain)
    schema = schema_table.find(node.op_type, domain, opsets.get(domain, 0))
    if schema is None or not schema.inputs or any(subgraphs(node)):
        return  # the inputs of bodies have types of their own
    variables = [schema.input(index).type_str for index in range(len(node.input))]
    ends = [*zip(variables, node.input), *zip(schema.output_types, node.output)]
    bound = {variable: numbers[name] for variable, name in ends if name in numbers}
    for variable, name in ends:
        allowed = schema.types_of(variable)
        only = of_spelling(allowed[0]) if len(allowed) == 1 else None
        number = bound.get(variable, 0) if only is None else onnx_number(only)
        is_tensor = variable in bound or all(type_name.startswith("tensor(") for type_name in allowed)
        if name and name not in numbers and number and is_tensor:
            numbers[name] = number
            types[name] = helper.make_tensor_value_info(name, number, None)
