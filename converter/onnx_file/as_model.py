"""An ONNX model as a graph of opaque operations, which can be shown and compared as an IR is, but not executed.

Initializers and Constant nodes are constants; bodies, and at its first call a function, are those of their nodes, with
a parameter for each tensor that they read from around them. Types are those of inputs, outputs and constants alone:
what a file declares of others, and what is inferred, says nothing about the model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from converter.errors import ConversionError, InvalidModelError
from converter.onnx_file.attribute_values import attribute_value
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.functions import model_functions
from converter.onnx_file.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    Message,
    NodeProto,
    TensorProto,
    ValueInfoProto,
)
from converter.onnx_file.model_info import declared_shape, model_info, model_opsets
from converter.onnx_file.node_order import in_order, node_name, read_names, subgraphs
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.types import element_type_of
from ir_runtime.graph import Model, Node, Operation, Output, PartialShape, Tensor, TensorType, element_types
from ir_runtime.graph.model import InputMap, OutputMap, SubGraph

_ANY = TensorType(element_types.dynamic, PartialShape.dynamic())
_CONSTANT = "Constant"


class OnnxOperator(Operation):
    """One node, or an input, an output or a constant, as the file has it."""

    def __init__(
        self,
        type: str,
        opset: int,
        attributes: Mapping[str, str],
        *,
        role: str = "",
        data: Tensor | None = None,
        subgraphs: Sequence[SubGraph] = (),
    ) -> None:
        self.__dict__.update(
            type=type, opset=opset, role=role, _attributes=dict(attributes), _data=data, _subgraphs=tuple(subgraphs)
        )

    @property
    def data(self) -> Tensor | None:
        """The data of a constant."""
        return self.__dict__["_data"]

    @property
    def subgraphs(self) -> tuple[SubGraph, ...]:
        """The bodies."""
        return self.__dict__["_subgraphs"]

    def attributes(self) -> dict[str, str]:
        """The attributes as texts."""
        return dict(self.__dict__["_attributes"])


def as_model(file: OnnxFile, *, is_partial: bool = False) -> Model:
    """Return the model's graph; with ``is_partial`` external data may be missing.

    Raises :class:`InvalidModelError` for a file that is no valid graph.
    """
    return _Reader(file, is_partial).model()


class _Reader:
    def __init__(self, file: OnnxFile, is_partial: bool) -> None:
        self._file = file
        self._is_partial = is_partial
        self._opsets = model_opsets(file)
        self._functions: dict[tuple[str, str], FunctionProto] = dict(model_functions(file.proto))

    def model(self) -> Model:
        model = self._graph(self._file.proto.graph, {}, ())
        model.runtime_info = model_info(self._file, self._opsets)
        return model

    def _graph(self, graph: GraphProto, around: Mapping[str, Output], read: Iterable[str]) -> Model:
        """Return a graph; ``read`` are the tensors that it reads from ``around`` it."""
        values: dict[str, Output] = {}
        weights = [*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
        names = {tensor.name for tensor in weights}
        declared = [value for value in graph.input if value.name not in names]
        parameters = [self._parameter(value, values) for value in declared]
        parameters += [self._parameter(ValueInfoProto(name=name), values) for name in read]
        for tensor in weights:
            values[tensor.name] = self._constant(tensor, tensor.name)
        for node in in_order(graph.node, values):
            self._add(node, values)
        results = []
        for value in graph.output:
            if value.name not in values:
                raise InvalidModelError(f"'{value.name}', an output, is computed by no node")
            operator = OnnxOperator("Output", 0, _type_text(value), role="result")
            results.append(Node(operator, [values[value.name]], (), f"{value.name}/output"))
            results[-1].output_names = [value.name]
        return Model(graph.name, parameters, results)

    def _parameter(self, value: ValueInfoProto, values: dict[str, Output]) -> Node:
        node = Node(OnnxOperator("Input", 0, _type_text(value), role="parameter"), (), [_ANY], value.name)
        self._name(node, [value.name], values)
        return node

    def _name(self, node: Node, names: Sequence[str], values: dict[str, Output]) -> None:
        for output, name in zip(node.outputs, names):
            if name:
                output.names, values[name] = [name], output

    def _constant(self, proto: TensorProto, name: str) -> Output:
        try:
            data: Tensor | None = self._tensor(proto)
        except ConversionError:
            if not self._is_partial:
                raise
            data = None
        shape = PartialShape(proto.dims)
        element_type = data.element_type if data is not None else element_types.dynamic
        attributes = {} if data is not None else {"data": "not here"}
        node = Node(OnnxOperator(_CONSTANT, 0, attributes, data=data), (), [TensorType(element_type, shape)], name)
        node.outputs[0].names = [name]
        return node.outputs[0]

    def _tensor(self, proto: TensorProto) -> Tensor:
        try:
            element_type_of(proto.data_type)
        except ConversionError:  # a type that the IR does not have: bytes
            packed = self._file.packed(proto, proto.name)
            if packed is None:
                raise
            return Tensor.from_packed(packed, element_types.u8, packed.shape)
        return self._file.tensor(proto)

    def _add(self, node: NodeProto, values: dict[str, Output]) -> None:
        """Add a node to the graph whose tensors are ``values``."""
        domain = normalize_domain(node.domain)
        value = next((entry for entry in node.attribute if entry.name == "value" and entry.has("t")), None)
        if node.op_type == _CONSTANT and not domain and value is not None and node.output:
            values[node.output[0]] = self._constant(value.t, node.output[0])
            return
        free = read_names(NodeProto(attribute=node.attribute)) if any(subgraphs(node)) else set[str]()
        around = [name for name in values if name in free]  # in the order of their nodes, whatever their names
        around += sorted(free - set(around))
        missing = [name for name in (*node.input, *around) if name and name not in values]
        if missing:
            raise InvalidModelError(f"'{missing[0]}', which node '{node_name(node)}' reads, is computed by no node")
        attributes = {entry.name: self._text(entry) for entry in node.attribute if not (entry.has("g") or entry.graphs)}
        absent = [str(place) for place, name in enumerate(node.input) if not name and any(node.input[place:])]
        if absent:
            attributes["absent inputs"] = ",".join(absent)
        inputs = [values[name] for name in node.input if name]
        bodies = [self._body(graph, values, len(inputs), around) for graph in subgraphs(node)]
        function = self._functions.pop((domain, node.op_type), None)
        if function is not None:
            graph = GraphProto(
                name=function.name,
                node=function.node,
                input=[ValueInfoProto(name=name) for name in function.input],
                output=[ValueInfoProto(name=name) for name in function.output],
            )
            bodies.append(SubGraph(self._graph(graph, {}, ()), (), ()))
        inputs += [values[name] for name in around]
        label = f"{domain}.{node.op_type}" if domain else node.op_type
        operator = OnnxOperator(label, self._opsets.get(domain, 0), attributes, subgraphs=bodies)
        added = Node(operator, inputs, [_ANY] * len(node.output), node_name(node))
        self._name(added, node.output, values)

    def _body(self, graph: GraphProto, values: Mapping[str, Output], first: int, around: Sequence[str]) -> SubGraph:
        body = self._graph(graph, values, around)
        own = len(body.parameters) - len(around)
        inputs = tuple(InputMap(first + place, own + place) for place in range(len(around)))
        return SubGraph(body, inputs, tuple(OutputMap(place, place) for place in range(len(body.results))))

    def _text(self, attribute: AttributeProto) -> str:
        if attribute.ref_attr_name:
            return f"@{attribute.ref_attr_name}"
        value = attribute_value(attribute)
        if isinstance(value, TensorProto):
            tensor = self._tensor(value)
            digest = hashlib.sha256(b"".join(tensor.chunks())).hexdigest()[:16]
            return f"{tensor.element_type}{list(tensor.shape)} sha256:{digest}"
        if isinstance(value, Message) or (isinstance(value, list) and value and isinstance(value[0], Message)):
            return "(a message)"
        return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _type_text(value: ValueInfoProto) -> dict[str, str]:
    """Return the declared type of an input or output as an attribute; none where nothing is declared."""
    if not value.type.has("tensor_type"):
        category = next((name for name in ("sequence_type", "map_type", "optional_type") if value.type.has(name)), "")
        return {"type": category} if category else {}
    try:
        category = str(element_type_of(value.type.tensor_type.elem_type))
    except ConversionError:
        category = f"type {value.type.tensor_type.elem_type}"
    names = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
    shape = declared_shape(value.type)
    dims = ",".join(name or str(dim) for name, dim in zip(names, shape)) if shape.has_rank else "..."
    return {"type": f"{category}[{dims}]"}
