"""Functions: those a model brings along, and those that ONNX's own schemas are made of.

https://onnx.ai/onnx/repo-docs/IR.html#functions
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, defs

from converter.errors import InvalidModelError
from converter.onnx_file.types import onnx_number
from converter.translation.registry import normalize_domain
from converter.translation.values import Value
from ir_runtime.graph import Output


@dataclass(frozen=True)
class Expansion:
    """What a node becomes: the function's nodes with its attributes put in."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeProto, ...]
    opsets: Mapping[str, int]


def model_functions(model: ModelProto) -> dict[tuple[str, str], FunctionProto]:
    """The functions a model brings along, by domain and name."""
    return {(normalize_domain(function.domain), function.name): function for function in model.functions}


def schema_function(
    node: NodeProto, schema: defs.OpSchema | None, opset: int, inputs: Sequence[Value | None]
) -> FunctionProto | None:
    """The function that ONNX's schema gives as the node's meaning, also one that depends on types."""
    if schema is None:
        return None
    details: Any = schema  # onnx's type stubs leave out what functions need
    data = b""
    if details.has_context_dependent_function:
        types = [_type_proto(v).SerializeToString() if isinstance(v, Output) else b"" for v in inputs]
        version = _newest(details.context_dependent_function_opset_versions, opset)
        if version:
            data = details.get_context_dependent_function_with_opset_version(version, node.SerializeToString(), types)
    elif details.has_function:
        version = _newest(details.function_opset_versions, opset)
        if version:
            data = details.get_function_with_opset_version(version)
    if not data:
        return None
    function = FunctionProto()
    try:
        function.ParseFromString(data)
    except DecodeError as error:
        raise InvalidModelError(f"the schema's function cannot be read: {error}") from error
    return function


def has_schema_function(schema: defs.OpSchema | None) -> bool:
    """Whether the operator is made of others by its schema."""
    details: Any = schema
    return schema is not None and bool(details.has_function or details.has_context_dependent_function)


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=0)


def _type_proto(value: Output) -> TypeProto:
    proto = TypeProto()
    proto.tensor_type.elem_type = onnx_number(value.element_type)
    if value.shape.has_rank:
        proto.tensor_type.shape.SetInParent()
        for extent in value.shape:
            dim = proto.tensor_type.shape.dim.add()
            if extent.is_static:
                dim.dim_value = extent.value
    return proto


def expand(function: FunctionProto, node: NodeProto, opsets: Mapping[str, int]) -> Expansion:
    """``function`` as called by ``node``.

    Attributes come from the node, else from the function's defaults; a reference to one that has
    neither is dropped. ``opsets`` are used where the function imports none of its own.
    """
    if len(node.input) > len(function.input) or len(node.output) > len(function.output):
        raise InvalidModelError(
            f"the function takes {len(function.input)} inputs and has {len(function.output)} outputs, "
            f"but is called with {len(node.input)} and {len(node.output)}"
        )
    given = {attribute.name: attribute for attribute in function.attribute_proto}
    given |= {attribute.name: attribute for attribute in node.attribute}
    declared = set(function.attribute) | {attribute.name for attribute in function.attribute_proto}
    unknown = {attribute.name for attribute in node.attribute} - declared
    if unknown and declared:
        raise InvalidModelError(f"has no attribute '{min(unknown)}'")
    imports = {normalize_domain(entry.domain): entry.version for entry in function.opset_import}
    nodes = []
    for inner in function.node:
        copy = NodeProto()
        copy.CopyFrom(inner)
        _substitute(copy, given)
        nodes.append(copy)
    return Expansion(tuple(function.input), tuple(function.output), tuple(nodes), {**opsets, **imports})


def _substitute(node: NodeProto, given: Mapping[str, AttributeProto]) -> None:
    kept = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            source = given.get(attribute.ref_attr_name)
            if source is None:
                continue
            named = AttributeProto()
            named.CopyFrom(source)
            named.name = attribute.name
            kept.append(named)
            continue
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
            _substitute_graph(graph, given)
        kept.append(attribute)
    made = [AttributeProto.FromString(attribute.SerializeToString()) for attribute in kept]
    del node.attribute[:]
    node.attribute.extend(made)


def _substitute_graph(graph: GraphProto, given: Mapping[str, AttributeProto]) -> None:
    for node in graph.node:
        _substitute(node, given)
