"""The types of a model's tensors, where a part of it begins: what the file declares, and what follows from that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import onnx

from converter.onnx_file import schema_table
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import TensorTypeProto, TypeProto, ValueInfoProto, from_onnx, to_onnx
from converter.onnx_file.node_order import subgraphs
from converter.onnx_file.types import of_spelling, onnx_number

if TYPE_CHECKING:
    from converter.optimization.source import Source


def types_of(source: Source) -> Mapping[str, ValueInfoProto]:
    """The types of tensors, by name; those of values that are no tensors are left out."""
    model = onnx.ModelProto()
    model.CopyFrom(source.original.as_onnx())
    if source.file is not source.original:
        graph = source.file.proto.graph
        for field, values in (("input", graph.input), ("output", graph.output)):
            model.graph.ClearField(field)
            for value in values:
                to_onnx(value, getattr(model.graph, field).add())
        own = {tensor.name for tensor in model.graph.initializer}
        for tensor in graph.initializer:
            if tensor.name not in own:  # the value of an input that is frozen
                to_onnx(tensor, model.graph.initializer.add())
        del model.graph.value_info[:]
    try:
        graph_proto = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError):  # ValueError: onnx counts on a Loop's two inputs
        graph_proto = model.graph  # what the file declares is left
    declared = [*graph_proto.value_info, *graph_proto.input, *graph_proto.output]
    types = {
        value_info.name: value_info
        for value in declared
        if (value_info := from_onnx(value, ValueInfoProto)).type.HasField("tensor_type")
    }
    types = {name: value_info for name, value_info in types.items() if value_info.type.tensor_type.elem_type}
    _infer_from_readers(source, types)
    return types


def _infer_from_readers(source: Source, types: dict[str, ValueInfoProto]) -> None:
    """Add element types of what unknown operators compute, where a reader takes no other type."""
    numbers = {name: value.type.tensor_type.elem_type for name, value in types.items()}
    numbers |= {name: tensor.data_type for name, tensor in source.initializers.items()}
    before = -1
    while before < len(numbers):  # what one node tells may be what another one needs
        before = len(numbers)
        _infer_once(source, numbers, types)


def _infer_once(source: Source, numbers: dict[str, int], types: dict[str, ValueInfoProto]) -> None:
    for node in reversed(source.nodes):
        domain = normalize_domain(node.domain)
        schema = schema_table.find(node.op_type, domain, source.opsets.get(domain, 0))
        if schema is None or not schema.inputs or any(subgraphs(node)):
            continue  # the inputs of bodies have types of their own
        variables = [schema.inputs[min(place, len(schema.inputs) - 1)].type_str for place in range(len(node.input))]
        ends = [*zip(variables, node.input), *zip(schema.output_types, node.output)]
        bound = {variable: numbers[name] for variable, name in ends if name in numbers}
        for variable, name in ends:
            allowed = schema.allowed.get(variable, (variable,))
            only = of_spelling(allowed[0]) if len(allowed) == 1 else None
            number = bound.get(variable, 0) if only is None else onnx_number(only)
            is_tensor = variable in bound or all(type_name.startswith("tensor(") for type_name in allowed)
            if name and name not in numbers and number and is_tensor:
                numbers[name] = number
                tensor = TensorTypeProto(elem_type=number)
                types[name] = ValueInfoProto(name=name, type=TypeProto(tensor_type=tensor))
