"""``--fp16`` of unconverted nodes: their computation in float16, float16 inputs and outputs, and float32 exceptions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import onnx

from converter.onnx_file import schema_table
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.graph import copied, operator_of
from converter.onnx_file.messages import AttributeProto
from converter.onnx_file.node_order import node_name, read_names
from converter.passes.compression.float16_graph import BEYOND, QUANTIZED, TINY
from converter.to_onnx.graph import Value, listed_inputs, operator, operators_of, origin_of, rename, value_name
from ir_runtime.graph import Model, Node, TensorType, element_types
from ir_runtime.graph.invariants import PRECISION
from ir_runtime.rewriting import UniqueNames, graph_pass

if TYPE_CHECKING:
    from converter.editing.source import Source

_QUANTIZED = ("QuantizeLinear", "DequantizeLinear")
ASKED_FOR = "float32 is asked for"
"""The reason for nodes that the option ``fp16_except`` names."""
_PLAIN_ATTRIBUTES = (
    *(AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.STRING),
    *(AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS),
)
"""Types of attributes that hold neither graphs nor tensors."""
_FLOAT, _FLOAT16 = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16


def excepted_nodes(source: Source, names: Collection[str]) -> tuple[dict[int, str], set[str]]:
    """Return the places of nodes whose name or operator is in ``names``, with a reason, and the names that matched.

    A node matches as well where a node of a function that it calls does.
    """
    reasons, matched = dict[int, str](), set[str]()
    for index in range(len(source.nodes) if names else 0):
        nodes = source.expanded(index, source.functions)
        inner = {name for node in nodes for name in (node_name(node), node.op_type)}
        if not inner.isdisjoint(names):
            matched |= inner.intersection(names)
            reasons[index] = ASKED_FOR
    return reasons, matched


def has_float32(source: Source) -> bool:
    """True if a tensor of the graph is of float32."""
    types = [value.type.tensor_type.elem_type for value in source.types.values()]
    return _FLOAT in (*source.weight_types.values(), *types)


def is_float32(source: Source, name: str) -> bool:
    """True if the type of a tensor is declared or inferred, and is float32."""
    if name in source.weight_types:
        return source.weight_types[name] == _FLOAT
    return name in source.types and source.types[name].type.tensor_type.elem_type == _FLOAT


def ends_of_codes(source: Source) -> tuple[set[str], set[str]]:
    """Return the tensors that DequantizeLinear nodes compute, and those that QuantizeLinear nodes alone read."""
    dequantized = {node.output[0] for node in source.nodes if node.op_type == "DequantizeLinear"}
    quantized = {node.input[0] for node in source.nodes if node.op_type == "QuantizeLinear"}
    quantized -= {node.end_names[0] for node in source.model.graph.results}
    others = (read_names(node) for node in source.nodes if node.op_type != "QuantizeLinear")
    return dequantized, quantized.difference(*others)


def why_float32(source: Source, index: int, opset: int, ends: tuple[set[str], set[str]]) -> str:
    """Return why a node that stays computes in float32; an empty text for one that can compute in float16.

    It is empty as well where the node reads and computes no float32, and where it has bodies, whose nodes have reasons
    of their own. ``ends`` is the result of :func:`ends_of_codes`.
    """
    node = source.nodes[index]
    schema = schema_table.find(node.op_type, "", opset)
    outputs = [name for name in node.output if is_float32(source, name)]
    inputs = [name for name in node.input if is_float32(source, name)]
    if not (inputs or outputs) or node.op_type == "Cast":
        return ""
    dequantized, quantized = ends
    is_between = quantized.issuperset(outputs) and dequantized.issuperset(set(inputs) - source.weight_types.keys())
    if is_between or node.op_type in _QUANTIZED or node.op_type.startswith("QLinear"):
        return QUANTIZED
    if schema is None or normalize_domain(node.domain) or ("", node.op_type) in source.functions:
        return f"the types that {node.op_type} takes are not known"
    if any(attribute.type not in _PLAIN_ATTRIBUTES for attribute in node.attribute):
        return ""  # a node with bodies, whose nodes have reasons of their own
    if not _takes_half(schema, [name in inputs for name in node.input], [name in outputs for name in node.output]):
        return takes_no_half(node.op_type, opset)
    return ""


def takes_no_half(op_type: str, opset: int) -> str:
    """Return the reason for an operator whose schema has no float16."""
    return f"{op_type} of opset {opset} takes no float16"


def float32_nodes(graph: Model, reasons: Mapping[str, str], opset: int) -> Iterator[tuple[str, str]]:
    """Yield the names of nodes of a graph and its bodies that compute in float32, and why.

    ``reasons`` maps the origins of nodes to reasons other than that the operator takes no float16.
    """
    for node in operators_of(graph):
        op, origin = operator_of(node), origin_of(node)
        bodies = [sub.body for sub in op.subgraphs] if op.place is None else []
        for body in bodies:
            yield from float32_nodes(body, reasons, opset)
        reads = [value is not None and value.element_type is element_types.f32 for value in listed_inputs(node)]
        returns = [value.element_type is element_types.f32 for value in node.outputs]
        is_half = any(value.element_type is element_types.f16 for value in node.outputs)
        if origin and not bodies and op.op_type != "Cast" and not is_half and any((*reads, *returns)):
            schema = schema_table.find(op.op_type, op.domain, opset)
            takes_half = schema is not None and _takes_half(schema, reads, returns)
            reason = reasons.get(origin, "its inputs are of float32" if takes_half else "")
            if not takes_half and reason in ("", BEYOND, TINY):
                reason = takes_no_half(op.op_type, opset)
            yield node.name, reason


def _takes_half(schema: schema_table.Schema, reads: Sequence[bool], returns: Sequence[bool]) -> bool:
    """True if the operator takes float16 where it reads and returns float32, and its inputs decide its types."""
    inputs = [schema.input(number).type_str for number in range(len(reads))]
    pairs = [
        *zip(inputs, reads),
        *((schema.output_type(number), is_single) for number, is_single in enumerate(returns)),
    ]
    float32 = {variable for variable, is_single in pairs if is_single}
    return float32.issubset(inputs) and all("tensor(float16)" in schema.allowed.get(name, ()) for name in float32)


@graph_pass("float16_ends", PRECISION)
def halve_ends(graph: Model) -> None:
    """Change float32 inputs and outputs of a graph to float16, with Casts between them and the nodes; in place."""
    names = UniqueNames(
        {name for part in graph.parts() for node in part.nodes for v in node.outputs for name in v.names}
    )
    for value in graph.inputs:
        if value.element_type is element_types.f32:
            name = value_name(value)
            cast = _cast(value, _FLOAT, f"{name}/Cast", -1)
            rename(cast, names(f"{name}/float32"))
            value.replace_by(cast, keep=[cast.node, *graph.results], move_names=False)
            _declare_half(value.node, value)
    for value in dict.fromkeys(graph.outputs):
        if value.element_type is element_types.f32:
            name = value_name(value)
            half = _cast(value, _FLOAT16, f"{name}/Cast", len(graph.nodes()))
            rename(half, name)
            rename(value, names(f"{name}/float32"))
            for result in graph.results:
                if result.inputs[0] is value:
                    result.replace_input(0, half)
                    _declare_half(result, half)


def _declare_half(end: Node, value: Value) -> None:
    value.type = TensorType(element_types.f16, value.shape)
    info = copied(operator_of(end).infos[-1][1])
    info.type.tensor_type.elem_type = _FLOAT16
    end.op = operator_of(end).replace(infos={-1: (0, info)})


def _cast(value: Value, number: int, name: str, order: int) -> Value:
    """Return the result of a Cast, which is written at that position."""
    op, inputs = operator("Cast", "", [value], {"to": number}, 1)
    element_type = element_types.f32 if number == _FLOAT else element_types.f16
    types = [TensorType(element_type, value.shape)]
    return Node(op.replace(order=order, label=name, types=types), inputs, types, name).outputs[0]
