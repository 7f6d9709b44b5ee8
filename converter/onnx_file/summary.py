"""The summary of an ONNX file for ``onnx2ir inspect``, whether it can be converted or not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from converter.errors import ConversionError
from converter.onnx_file.declared_types import inferred_graph
from converter.onnx_file.node_order import all_graphs
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.types import element_type_of
from ir_runtime.records import record

Shape = list[int | None] | None
_PRODUCTS = ("MatMul", "MatMulInteger", "Gemm")
_CONVOLUTIONS = ("Conv", "ConvInteger", "ConvTranspose")


@record
class Multiplications:
    """Multiplications with additions (MACs) of products and convolutions."""

    count: int
    unknown: int
    """Nodes that are not counted, because their dimensions are not known before execution."""


def summary_of_onnx(file: OnnxFile) -> dict[str, Any]:
    """Inputs, outputs, opsets, origin, operators, weights and work, as plain values."""
    proto = file.as_onnx()
    graphs = [graph for part in (proto.graph, *proto.functions) for graph in all_graphs(part)]
    weights = [tensor for graph in graphs if isinstance(graph, GraphProto) for tensor in graph.initializer]
    constants = [node for graph in graphs for node in graph.node if node.op_type == "Constant"]
    weights += [attribute.t for node in constants for attribute in _tensors(node)]
    fixed = {tensor.name for tensor in proto.graph.initializer}
    flat = _without_functions(proto)
    work = multiplications(flat)
    return {
        "format": "ONNX",
        "ir_version": proto.ir_version,
        "opsets": {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import},
        "producer": " ".join(part for part in (proto.producer_name, proto.producer_version) if part),
        "graph": proto.graph.name,
        "inputs": [_port(value) for value in proto.graph.input if value.name not in fixed],
        "outputs": [_port(value) for value in proto.graph.output],
        "operators": _counted([node for graph in all_graphs(flat.graph) for node in graph.node]),
        "functions": [f"{f.domain}.{f.name}" if f.domain else f.name for f in proto.functions],
        "parameters": sum(_count(tensor) for tensor in weights),
        "weight_bytes": sum(_bytes(tensor) for tensor in weights),
        "macs": work.count,
        "macs_unknown": work.unknown,
        "metadata": {entry.key: entry.value for entry in proto.metadata_props},
    }


def _without_functions(proto: ModelProto) -> ModelProto:
    """Put the nodes of functions in the place of their calls; the model itself where it has none, or they recur."""
    if not proto.functions:
        return proto
    calls = {
        (function.domain, function.name): {
            (node.domain, node.op_type) for graph in all_graphs(function) for node in graph.node
        }
        for function in proto.functions
    }
    while calls:  # take away functions that call no other one: what remains calls itself
        leaves = [name for name, called in calls.items() if called.isdisjoint(calls)]
        if not leaves:
            return proto
        for name in leaves:
            del calls[name]
    from onnx import inliner

    copy = ModelProto()
    copy.CopyFrom(proto)
    # The inliner leaves out functions that import another version of a domain of functions, which has none.
    domains = {function.domain for function in copy.functions}
    for part in (copy, *copy.functions):
        for entry in part.opset_import:
            entry.version = 1 if entry.domain in domains else entry.version
    return inliner.inline_local_functions(copy)


def _tensors(node: NodeProto) -> list[AttributeProto]:
    return [attribute for attribute in node.attribute if attribute.HasField("t")]


def _counted(nodes: list[NodeProto]) -> dict[str, int]:
    counts = Counter(f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in nodes)
    return dict(sorted(counts.items()))


def _port(value: ValueInfoProto) -> dict[str, Any]:
    type_name, shape = _type(value.type)
    return {"name": value.name, "type": type_name, "shape": shape}


def _type(type: TypeProto) -> tuple[str, list[int | str | None] | None]:
    """The element type, or the kind of what is no tensor, and the shape: names or None for dynamic dimensions."""
    which = type.WhichOneof("value")
    if which != "tensor_type":
        return (which or "unknown").removesuffix("_type"), None
    try:
        type_name = str(element_type_of(type.tensor_type.elem_type))
    except ConversionError:
        type_name = "unknown"
    if not type.tensor_type.HasField("shape"):
        return type_name, None
    dims = type.tensor_type.shape.dim
    return type_name, [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in dims]


def _count(tensor: TensorProto) -> int:
    return math.prod(max(dimension, 0) for dimension in tensor.dims)


def _bytes(tensor: TensorProto) -> int:
    try:
        element_type = element_type_of(tensor.data_type)
    except ConversionError:
        return 0
    return element_type.byte_size(_count(tensor)) if element_type.bits else sum(map(len, tensor.string_data))


def multiplications(proto: ModelProto) -> Multiplications:
    """Multiplications of MatMul, Gemm and the convolutions of the main graph, for the declared dimensions."""
    shapes = _shapes(proto)
    count = unknown = 0
    for node in proto.graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in (*_PRODUCTS, *_CONVOLUTIONS):
            continue
        try:
            count += _work(node, *([shapes.get(name) for name in names] for names in (node.input, node.output)))
        except (LookupError, TypeError):
            unknown += 1
    return Multiplications(count, unknown)


def _shapes(proto: ModelProto) -> Mapping[str, Shape]:
    shapes: dict[str, Shape] = {}
    inferred = inferred_graph(proto)
    for value in (*proto.graph.input, *proto.graph.output, *inferred.value_info, *inferred.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            shapes[value.name] = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
    shapes.update((tensor.name, list(tensor.dims)) for tensor in proto.graph.initializer)
    for node in proto.graph.node:
        for attribute in _tensors(node) if node.op_type == "Constant" else ():
            shapes[node.output[0]] = list(attribute.t.dims)
    return shapes


def _product(shape: Shape, start: int = 0, end: int | None = None) -> int:
    """Return the product of some dimensions; raises :class:`TypeError` where these are not known."""
    return math.prod(shape[start:end])  # type: ignore[index,arg-type]


def _work(node: NodeProto, inputs: list[Shape], outputs: list[Shape]) -> int:
    """Return the multiplications of a node; raises as :func:`_product`, and LookupError for one without inputs."""
    if node.op_type in _CONVOLUTIONS:
        return _product(inputs[0] if node.op_type == "ConvTranspose" else outputs[0]) * _product(inputs[1], 1)
    is_transposed = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
    depth = _product(inputs[0], 0, 1) if is_transposed else _product(inputs[0], -1)
    return _product(outputs[0]) * depth
