"""Functions: those of a model, and those with which ONNX's schemas define operators.

https://onnx.ai/onnx/repo-docs/IR.html#functions
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from converter.errors import InvalidModelError
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, to_onnx
from converter.onnx_file.schema_table import Schema
from converter.onnx_file.wire_format import parse_bytes
from ir_runtime.graph.operation import TensorType
from ir_runtime.records import record


@record
class Expansion:
    """A call of a function: its nodes with the attributes of the calling node."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[NodeProto, ...]
    opsets: Mapping[str, int]


def model_functions(model: ModelProto) -> dict[tuple[str, str], FunctionProto]:
    """The functions of a model, by domain and name."""
    return {(normalize_domain(function.domain), function.name): function for function in model.functions}


def schema_function(
    node: NodeProto, schema: Schema | None, opset: int, inputs: Sequence[TensorType | None]
) -> FunctionProto | None:
    """The function by which ONNX's schema defines the node; it may depend on the types of the inputs.

    ``inputs`` has None where an input is missing or is no tensor.
    """
    if not has_schema_function(schema):
        return None
    import onnx  # the table of schemas has no functions, and few models need any

    try:
        definition: Any = onnx.defs.get_schema(node.op_type, opset, normalize_domain(node.domain))
    except onnx.defs.SchemaError:
        return None  # an onnx that is older than the table
    data = b""
    if definition.has_context_dependent_function:
        from converter.onnx_file.graph import value_info

        types = [b"" if type is None else value_info("", type).type.SerializeToString() for type in inputs]
        version = _newest(definition.context_dependent_function_opset_versions, opset)
        if version:
            written = to_onnx(node, onnx.NodeProto()).SerializeToString()
            data = definition.get_context_dependent_function_with_opset_version(version, written, types)
    elif definition.has_function:
        version = _newest(definition.function_opset_versions, opset)
        if version:
            data = definition.get_function_with_opset_version(version)
    if not data:
        return None
    try:
        return parse_bytes(FunctionProto, data)
    except InvalidModelError as error:
        raise InvalidModelError(f"the schema's function cannot be read: {error}") from error


def has_schema_function(schema: Schema | None) -> bool:
    """True if the schema defines the operator by a function of other operators."""
    return schema is not None and schema.has_function


def _newest(versions: Sequence[int], opset: int) -> int:
    return max((version for version in versions if version <= opset), default=0)


def expand(function: FunctionProto, node: NodeProto, opsets: Mapping[str, int]) -> Expansion:
    """``function`` as called by ``node``.

    Attributes come from the node, else from the function's defaults; a reference to one that has
    neither is dropped. An input that the call leaves out is missing in every node that reads it. ``opsets`` are used
    where the function imports none of its own.
    """
    if len(node.input) > len(function.input) or len(node.output) > len(function.output):
        raise InvalidModelError(
            f"the function takes {len(function.input)} inputs and has {len(function.output)} outputs, "
            f"but is called with {len(node.input)} and {len(node.output)}"
        )
    values_by_name = {attribute.name: attribute for attribute in function.attribute_proto}
    values_by_name |= {attribute.name: attribute for attribute in node.attribute}
    declared = set(function.attribute) | {attribute.name for attribute in function.attribute_proto}
    unknown = {attribute.name for attribute in node.attribute} - declared
    if unknown and declared:
        raise InvalidModelError(f"has no attribute '{min(unknown)}'")
    imports = {normalize_domain(entry.domain): entry.version for entry in function.opset_import}
    passed = dict(zip(function.input, node.input))
    missing = {name for name in function.input if not passed.get(name)}
    nodes = tuple(_substitute(inner, values_by_name, missing) for inner in function.node)
    return Expansion(tuple(function.input), tuple(function.output), nodes, {**opsets, **imports})


def _substitute(node: NodeProto, values_by_name: Mapping[str, AttributeProto], missing: Collection[str]) -> NodeProto:
    """Return the node, and those of its graphs, with what its attributes refer to and without ``missing`` inputs."""
    attributes = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            source = values_by_name.get(attribute.ref_attr_name)
            if source is not None:
                attributes.append(source.with_fields(name=attribute.name))
            continue
        changed: dict[str, Any] = {}
        if attribute.HasField("g"):
            changed["g"] = _substituted_graph(attribute.g, values_by_name, missing)
        if attribute.graphs:
            changed["graphs"] = [_substituted_graph(graph, values_by_name, missing) for graph in attribute.graphs]
        attributes.append(attribute.with_fields(**changed) if changed else attribute)
    return node.with_fields(attribute=attributes, input=["" if name in missing else name for name in node.input])


def _substituted_graph(
    graph: GraphProto, values_by_name: Mapping[str, AttributeProto], missing: Collection[str]
) -> GraphProto:
    return graph.with_fields(node=[_substitute(node, values_by_name, missing) for node in graph.node])
