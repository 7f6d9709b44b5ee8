"""ONNX operators as operations of a graph, which is read from messages and written as messages without any loss.

A graph of ONNX is an :class:`ir_runtime.graph.Model`: its inputs are parameters, its outputs results, initializers and
Constant nodes constants, and what nothing reads is a sink. A body has a parameter for each tensor that it reads from
around it, which is an input of its node behind those that the node names.

    m = MatMul (x, w)                           Input x ----- MatMul ----- If ----- Output y
    y = If (c) <then_branch = { t = Neg (m) }>  Constant w __/   Input c __/ (m is an input of the body)

What the graph does not say itself (descriptions, metadata, fields of later versions of ONNX) is carried along, of
each message as the bytes of a message that has only this.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import helper

from converter.errors import InvalidModelError, UnsupportedModelError
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import attribute_value
from converter.onnx_file.model_info import declared_shape
from converter.onnx_file.node_order import in_order, node_name, stable_order, subgraphs
from converter.onnx_file.types import element_type_of, onnx_number
from ir_runtime.graph import (
    ElementType,
    Model,
    Node,
    Operation,
    Output,
    PartialShape,
    Tensor,
    TensorType,
    element_types,
)
from ir_runtime.graph.model import InputMap, OutputMap, SubGraph

_ANY = TensorType(element_types.dynamic, PartialShape.dynamic())
INPUT, OUTPUT, INITIALIZER, SPARSE, NODE, CAPTURED = "Input", "Output", "Constant", "Sparse", "Node", "Captured"
_ROLES = {INPUT: "parameter", CAPTURED: "parameter", OUTPUT: "result", INITIALIZER: "constant", SPARSE: "constant"}
Read = Callable[[onnx.TensorProto], "Tensor | None"]
"""Returns the data of a tensor's message; None where it is not here."""


class OnnxOperator(Operation):
    """A node, or an input, an output or an initializer, of an ONNX graph: all that its message says but its edges."""

    inputs = (0, None)
    deterministic = False

    opset = 0
    kind: str
    """What it is in the file: one of the constants of this module."""
    op_type: str
    domain: str = ""
    label: str = ""
    """The name of a node; empty where it has none."""
    entries: Sequence[onnx.AttributeProto] = ()
    """The attributes; graphs are left out of them, and are :attr:`subgraphs` in the same order."""
    bodies: Sequence[int] = ()
    """The number of graphs in each attribute, -1 for one that is no list."""
    slots: Sequence[bool] = ()
    """Whether each input that the node lists is there."""
    infos: Mapping[int, tuple[float, onnx.ValueInfoProto]] = MappingProxyType({})
    """The declared types of outputs by number, with their positions in the graph's list; -1 is that of an end."""
    proto: Any = None
    """The ``TensorProto`` or ``SparseTensorProto`` of a constant."""
    order: float = float("inf")
    """The position in the list of the file that it is from."""
    count: int = 1
    """The number of outputs."""
    place: int | None = None
    """The index of a node that ``optimize`` leaves as it is, in the model that it is from; None for any other node."""
    graphs: tuple[SubGraph, ...] = ()
    read: Read
    """Returns the data of messages of tensors."""
    rest: bytes = b""
    types: Sequence[TensorType] = ()
    """The types of the outputs, as far as they are known; empty where nothing is."""
    follows: bool = False
    """True if float32 among :attr:`types` means the float type of the inputs."""

    def __init__(self, kind: str, op_type: str = "", **fields: Any) -> None:
        domain = normalize_domain(fields.get("domain", ""))
        label = f"{domain}.{op_type}" if domain else op_type or (INITIALIZER if kind == SPARSE else kind)
        self.__dict__.update(fields, kind=kind, op_type=op_type, type=label, role=_ROLES.get(kind, ""))
        if kind == NODE and op_type == INITIALIZER and not domain and self.proto is not None:
            self.__dict__.update(role="constant", opset=0)  # as an initializer

    def replace(self, **fields: Any) -> OnnxOperator:
        """Return the operator with some fields changed."""
        values = {**self.__dict__, **fields}
        if fields.keys().isdisjoint(("op_type", "domain", "proto")):
            copy = OnnxOperator.__new__(OnnxOperator)
            copy.__dict__.update(values)
            return copy
        return OnnxOperator(**{name: values[name] for name in values if name not in ("type", "role", "_data")})

    @property
    def data(self) -> Tensor | None:
        """The data of a constant."""
        if self.role != "constant":
            return None
        if "_data" not in self.__dict__:
            self.__dict__["_data"] = self.read(self.proto)
        return self.__dict__["_data"]

    @property
    def subgraphs(self) -> tuple[SubGraph, ...]:
        """The bodies."""
        return self.graphs

    def with_bodies(self, bodies: Sequence[Model]) -> OnnxOperator:
        """Return the operator over other bodies."""
        pairs = zip(bodies, self.subgraphs)
        return self.replace(graphs=tuple(SubGraph(body, sub.inputs, sub.outputs) for body, sub in pairs))

    def specialized(self, inputs: Sequence[TensorType]) -> OnnxOperator:
        """Return the operator: its bodies have no types that follow from ``inputs``."""
        return self

    def of_type(self, tensor_type: TensorType) -> OnnxOperator:
        """Return the operator: the type of an input that is no tensor stays unknown."""
        return self

    def infer(self, inputs: Sequence[TensorType]) -> Sequence[TensorType]:
        """Return types of which only those of constants are known."""
        if self.role != "constant":
            floats = {entry.element_type for entry in inputs} & {element_types.f16, element_types.f32}
            is_half = self.follows and floats == {element_types.f16}
            types = self.types or [_ANY] * self.count
            return [_to_half(entry) for entry in types] if is_half else types
        values = self.proto.values if self.kind == SPARSE else self.proto
        dims = self.proto.dims if all(dimension >= 0 for dimension in self.proto.dims) else ()
        return [TensorType(_element_type(values.data_type), PartialShape(dims))]

    def attributes(self) -> dict[str, str]:
        """Return the attributes as texts, and which of the inputs are left out."""
        if self.kind in (INPUT, OUTPUT):
            return _type_text(self.infos[-1][1])
        if self.role:
            return {} if self.role == "parameter" or self.data is not None else {"data": "not here"}
        texts = {entry.name: self._text(entry) for entry, count in zip(self.entries, self.bodies) if not count}
        absent = [str(index) for index, is_here in enumerate(self.slots) if not is_here and any(self.slots[index:])]
        return {**texts, "absent inputs": ",".join(absent)} if absent else texts

    @property
    def values(self) -> dict[str, Any]:
        """The values of the attributes that are no graphs, by name."""
        return {entry.name: attribute_value(entry) for entry, count in zip(self.entries, self.bodies) if not count}

    def _text(self, entry: onnx.AttributeProto) -> str:
        if entry.ref_attr_name:
            return f"@{entry.ref_attr_name}"
        value = attribute_value(entry)
        if isinstance(value, onnx.TensorProto):
            tensor = self.read(value)
            assert tensor is not None
            digest = hashlib.sha256(b"".join(tensor.chunks())).hexdigest()[:16]
            return f"{tensor.element_type}{list(tensor.shape)} sha256:{digest}"
        first = value[0] if isinstance(value, list) and value else value
        if hasattr(first, "DESCRIPTOR"):
            return "(a message)"
        return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def new_operator(
    op_type: str, inputs: Sequence[Output | None], attributes: Mapping[str, Any], **fields: Any
) -> OnnxOperator:
    """Return the operator of a new node with these inputs, of which None are left out.

    An attribute that is None is the next of the bodies, the field ``graphs``.
    """
    entries = [
        onnx.AttributeProto(name=name, type=onnx.AttributeProto.GRAPH) if value is None else _attribute(name, value)
        for name, value in sorted(attributes.items())
    ]
    bodies = [-1 if attributes[entry.name] is None else 0 for entry in entries]
    slots = [value is not None for value in inputs]
    return OnnxOperator(NODE, op_type, entries=entries, bodies=bodies, slots=slots, **fields)


def _attribute(name: str, value: Any) -> onnx.AttributeProto:
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and not value:
        return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS)
    return helper.make_attribute(name, value)


class OnnxGraph(Model):
    """A graph of ONNX operators: the main one of a model, a body, or a function."""

    rest: bytes = b""
    stray: Sequence[tuple[float, onnx.ValueInfoProto]] = ()
    """Declared types of names that no tensor of the graph has."""
    annotations: Sequence[tuple[onnx.TensorAnnotation, Mapping[str, Output]]] = ()
    """Quantization parameters, and the tensors that they name."""
    is_sorted: bool = True
    """False if the file has a node before one that it reads from, which is written as it is."""

    def _copy_rest(self, source: Model, copies: Mapping[Node, Node]) -> None:
        assert isinstance(source, OnnxGraph)
        self.rest, self.stray, self.is_sorted = source.rest, source.stray, source.is_sorted
        self.annotations = [
            (entry, {name: copies[value.node].outputs[value.index] for name, value in tensors.items()})
            for entry, tensors in source.annotations
        ]


def copied(message: Any) -> Any:
    """Return a message of its own with the same fields."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


class GraphReader:
    """Makes graphs of messages; ``read`` returns the data of tensors, ``opsets`` has the versions of domains.

    ``shown`` are functions by domain and name, each of which becomes a body of its first call, which is not written.
    """

    def __init__(
        self, read: Read, opsets: Mapping[str, int], shown: Mapping[tuple[str, str], onnx.FunctionProto]
    ) -> None:
        self._read = read
        self._opsets = opsets
        self._shown = dict(shown)

    def graph(self, proto: onnx.GraphProto, scope: _Scope | None = None) -> OnnxGraph:
        """Return a graph; a body reads tensors of the ``scope`` around it.

        Raises :class:`InvalidModelError` for a tensor that nothing computes, and for a cycle.
        """
        nodes = list(proto.node)
        scope = _Scope(scope, nodes)
        weights = [(INITIALIZER, entry, entry.name) for entry in proto.initializer]
        weights += [(SPARSE, entry, entry.values.name) for entry in proto.sparse_initializer]
        named = {name for _, _, name in weights}
        inputs = {value.name: (index, value) for index, value in enumerate(proto.input)}
        parameters = [self._input(entry, scope) for entry in inputs.values() if entry[1].name not in named]
        constants = []
        for index, (kind, entry, name) in enumerate(weights):
            infos = {-1: (inputs[name][0], copied(inputs[name][1]))} if name in inputs else {}
            fields = {"proto": copied(entry), "order": index, "read": self._read, "infos": infos}
            constants.append(scope.add(OnnxOperator(kind, **fields), (), [name], name))
        ordered = in_order(nodes, scope.values)
        for node in ordered:
            self._node(node, scope)
        results = []
        for value in proto.output:
            operator = OnnxOperator(OUTPUT, infos={-1: (0, copied(value))}, count=0)
            results.append(Node(operator, [scope.find(value.name, "an output")], (), f"{value.name}/output"))
            results[-1].output_names = [value.name]
        graph = self._finished(proto, parameters, results, scope)
        graph.is_sorted = all(node is other for node, other in zip(nodes, ordered))
        return graph

    def _input(self, entry: tuple[int, onnx.ValueInfoProto], scope: _Scope) -> Node:
        name = entry[1].name
        return scope.add(OnnxOperator(INPUT, infos={-1: (entry[0], copied(entry[1]))}), (), [name], name)

    def _finished(
        self, proto: onnx.GraphProto, parameters: list[Node], results: list[Node], scope: _Scope
    ) -> OnnxGraph:
        stray, seen = [], set[Output]()
        for index, value in enumerate(proto.value_info):
            output = scope.values.get(value.name)
            if output is None or output in seen:
                stray.append((index, copied(value)))
                continue
            seen.add(output)
            operator = operator_of(output.node)
            output.node.op = operator.replace(infos={**operator.infos, output.index: (index, copied(value))})
        read = {source for node in (*scope.nodes, *results) for source in node.inputs}
        sinks = [node for node in scope.nodes if read.isdisjoint(node.outputs) and node.op.role != "parameter"]
        graph = OnnxGraph(proto.name, [*parameters, *scope.captured.values()], results, sinks)
        graph.stray = stray
        graph.annotations = [
            (copied(entry), {name: scope.values[name] for name in annotated(entry) if name in scope.values})
            for entry in proto.quantization_annotation
        ]
        rest = copied(proto)
        for field in ("node", "initializer", "sparse_initializer", "input", "output", "value_info"):
            rest.ClearField(field)
        rest.ClearField("quantization_annotation")
        graph.rest = rest.SerializeToString(deterministic=True)
        return graph

    def _node(self, proto: onnx.NodeProto, scope: _Scope) -> None:
        where = f"which node '{node_name(proto)}' reads"
        inputs = [scope.find(name, where) for name in proto.input if name]
        graphs = [self.graph(graph, scope) for graph in subgraphs(proto)]
        around = list(dict.fromkeys(name for graph in graphs for name in captured_names(graph)))
        indices = {name: len(inputs) + index for index, name in enumerate(around)}
        inputs += [scope.find(name, where) for name in around]
        entries, bodies = [], []
        for attribute in proto.attribute:
            entry = copied(attribute)
            bodies.append(-1 if attribute.HasField("g") else len(attribute.graphs))
            entry.ClearField("g")
            entry.ClearField("graphs")
            entries.append(entry)
        value = next((entry.t for entry in entries if entry.name == "value" and entry.HasField("t")), None)
        function = self._shown.pop((normalize_domain(proto.domain), proto.op_type), None)
        called = () if function is None else (SubGraph(self.function(function), (), ()),)
        rest = copied(proto)
        for field in ("input", "output", "attribute"):
            rest.ClearField(field)
        operator = OnnxOperator(
            NODE,
            proto.op_type,
            domain=proto.domain,
            label=proto.name,
            opset=self._opsets.get(normalize_domain(proto.domain), 0),
            entries=entries,
            bodies=bodies,
            slots=[bool(name) for name in proto.input],
            order=scope.positions[id(proto)],
            count=len(proto.output),
            proto=value,
            read=self._read,
            rest=rest.SerializeToString(deterministic=True),
            graphs=(*(body_of(graph, indices) for graph in graphs), *called),
        )
        is_constant = operator.role == "constant" and any(proto.output)
        scope.add(operator, inputs, proto.output, proto.output[0] if is_constant else node_name(proto))

    def function(self, proto: onnx.FunctionProto) -> OnnxGraph:
        """Return the graph of a function, whose ``rest`` is that of the function."""
        graph = onnx.GraphProto(name=proto.name, node=proto.node, value_info=proto.value_info)
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in proto.input)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in proto.output)
        made, rest = self.graph(graph), copied(proto)
        for field in ("node", "input", "output", "value_info"):
            rest.ClearField(field)
        made.rest = rest.SerializeToString(deterministic=True)
        return made


class _Scope:
    """The tensors of a graph while it is read, by name, and those around it that it has read."""

    def __init__(self, outer: _Scope | None, nodes: Sequence[onnx.NodeProto]) -> None:
        self.values: dict[str, Output] = {}
        self.nodes: list[Node] = []
        self.captured: dict[str, Node] = {}
        self.positions = {id(node): index for index, node in enumerate(nodes)}
        self._outer = outer

    def _has(self, name: str) -> bool:
        return name in self.values or (self._outer is not None and self._outer._has(name))

    def find(self, name: str, reader: str) -> Output:
        """Return a tensor; one of the graph around becomes a parameter."""
        if name not in self.values:
            if self._outer is None or not self._outer._has(name):
                raise InvalidModelError(f"'{name}', {reader}, is computed by no node")
            self.captured[name] = self.add(OnnxOperator(CAPTURED), (), [name], name)
        return self.values[name]

    def add(self, operator: OnnxOperator, inputs: Iterable[Output], names: Iterable[str], label: str) -> Node:
        """Add a node whose outputs have these names."""
        node = Node(operator, inputs, operator.infer(()), label)
        for output, name in zip(node.outputs, names):
            if name:
                output.names, self.values[name] = [name], output
        self.nodes.append(node)
        return node


def _to_half(entry: TensorType) -> TensorType:
    return TensorType(element_types.f16, entry.shape) if entry.element_type is element_types.f32 else entry


def _element_type(number: int) -> ElementType:
    try:
        return element_type_of(number)
    except UnsupportedModelError:
        return element_types.dynamic


def operator_of(node: Node) -> OnnxOperator:
    """Return the operator of a node of an ONNX graph."""
    assert isinstance(node.op, OnnxOperator)
    return node.op


def body_of(graph: OnnxGraph, indices: Mapping[str, int]) -> SubGraph:
    """Return a graph as a body, whose captured values are the inputs of these places by name."""
    inputs = [
        InputMap(indices[node.outputs[0].names[0]], index)
        for index, node in enumerate(graph.parameters)
        if operator_of(node).kind == CAPTURED
    ]
    return SubGraph(graph, tuple(inputs), tuple(OutputMap(index, index) for index in range(len(graph.results))))


def captured_names(graph: Model) -> list[str]:
    """Return the names of the tensors that a body reads from around it."""
    return [node.outputs[0].names[0] for node in graph.parameters if operator_of(node).kind == CAPTURED]


def annotated(annotation: onnx.TensorAnnotation) -> list[str]:
    """Return the names of the tensors that an annotation names."""
    return [annotation.tensor_name, *(entry.value for entry in annotation.quant_parameter_tensor_names)]


def graph_message(graph: OnnxGraph, around: Mapping[Output, str] = MappingProxyType({})) -> onnx.GraphProto:
    """Return the message of a graph; of a body ``around`` has the names of the tensors that its parameters are."""
    message = onnx.GraphProto.FromString(graph.rest)
    _set(message, "name", graph.name)
    return _fill(message, graph, around)


def function_message(graph: OnnxGraph) -> onnx.FunctionProto:
    """Return the message of a function."""
    message = onnx.FunctionProto.FromString(graph.rest)
    _set(message, "name", graph.name)
    filled = _fill(onnx.GraphProto(), graph, {})
    message.input.extend(value.name for value in filled.input)
    message.output.extend(value.name for value in filled.output)
    message.node.extend(filled.node)
    message.value_info.extend(filled.value_info)
    return message


def _fill(message: onnx.GraphProto, graph: OnnxGraph, around: Mapping[Output, str]) -> onnx.GraphProto:
    """Add what a graph says to a message of what it does not say."""

    def name_of(output: Output) -> str:
        return around.get(output) or next(iter(output.names), "")

    nodes, declared = graph.nodes(), list(graph.stray)
    for node in nodes:
        for index, (position, value) in operator_of(node).infos.items():
            if index >= 0:
                declared.append((position, named(value, name_of(node.outputs[index]))))
    declared.sort(key=lambda entry: entry[0])
    inputs = [
        named(operator_of(node).infos[-1][1], name_of(node.outputs[0]))
        for node in graph.parameters
        if operator_of(node).kind == INPUT
    ]
    constants = sorted((node for node in nodes if operator_of(node).kind in (INITIALIZER, SPARSE)), key=_order)
    defaults = [(*operator_of(node).infos[-1], node) for node in constants if -1 in operator_of(node).infos]
    for position, value, node in sorted(defaults, key=lambda entry: entry[0]):
        inputs.insert(int(position), named(value, name_of(node.outputs[0])))
    for node in constants:
        if operator_of(node).kind == SPARSE:
            message.sparse_initializer.append(operator_of(node).proto)
            _set(message.sparse_initializer[-1].values, "name", name_of(node.outputs[0]))
        else:
            message.initializer.append(named(operator_of(node).proto, name_of(node.outputs[0])))
    message.input.extend(inputs)
    message.output.extend(named(operator_of(node).infos[-1][1], name_of(node.inputs[0])) for node in graph.results)
    message.value_info.extend(value for _, value in declared)
    for annotation, tensors in graph.annotations:
        if annotation.tensor_name not in tensors or tensors[annotation.tensor_name].node.is_in_graph:
            copy = message.quantization_annotation.add()
            copy.CopyFrom(annotation)
            names = {name: name_of(output) for name, output in tensors.items() if output.node.is_in_graph}
            copy.tensor_name = names.get(copy.tensor_name, copy.tensor_name)
            for entry in copy.quant_parameter_tensor_names:
                entry.value = names.get(entry.value, entry.value)
    message.node.extend(_node_message(node, name_of) for node in ordered_operators(graph))
    return message


def ordered_operators(graph: Model) -> list[Node]:
    """Return the nodes of a graph in the order in which they are written."""
    operators = sorted((node for node in graph.nodes() if operator_of(node).kind == NODE), key=_order)
    if not isinstance(graph, OnnxGraph) or not graph.is_sorted:
        return operators
    edges = [(index, node.inputs, node.outputs) for index, node in enumerate(operators)]
    return [operators[index] for index in stable_order(edges)]


def _node_message(node: Node, name_of: Callable[[Output], str]) -> onnx.NodeProto:
    return operator_message(operator_of(node), list(map(name_of, node.inputs)), list(map(name_of, node.outputs)))


def operator_message(operator: OnnxOperator, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """Return the message of a node; behind the inputs that it lists are those of its bodies."""
    message = onnx.NodeProto.FromString(operator.rest)
    for field in ("op_type", "domain"):
        _set(message, field, getattr(operator, field))
    _set(message, "name", operator.label)
    names = iter(inputs)
    message.input.extend(next(names) if is_here else "" for is_here in operator.slots)
    message.output.extend(outputs)
    graphs = iter(operator.subgraphs)
    for entry, count in zip(operator.entries, operator.bodies):
        attribute = message.attribute.add()
        attribute.CopyFrom(entry)
        for _ in range(abs(count)):
            sub = next(graphs)
            assert isinstance(sub.body, OnnxGraph)
            parameters = sub.body.parameters
            pairs = [(parameters[e.parameter].outputs[0], e.external) for e in sub.inputs]
            body = graph_message(sub.body, {value: inputs[index] for value, index in pairs if index is not None})
            if count < 0:
                attribute.g.CopyFrom(body)
            else:
                attribute.graphs.append(body)
    return message


def _order(node: Node) -> float:
    return operator_of(node).order


def _set(message: Any, field: str, value: str) -> None:
    """Set a field unless it has the value: a field that is not there and an empty one are different messages."""
    if getattr(message, field) != value:
        setattr(message, field, value)


def named(message: Any, name: str) -> Any:
    """Return a copy of a message under another name."""
    copy = copied(message)
    _set(copy, "name", name)
    return copy


def value_info(name: str, type: TensorType, dimensions: Sequence[str] = ()) -> onnx.ValueInfoProto:
    """Return the declaration of a tensor: dynamic dimensions are unknown, or have their names."""
    dims = None
    if type.shape.has_rank:
        names = [*dimensions, *[""] * type.shape.rank]
        dims = [dim.value if dim.is_static else name or None for dim, name in zip(type.shape, names)]
    return helper.make_tensor_value_info(name, onnx_number(type.element_type), dims)


def _type_text(value: onnx.ValueInfoProto) -> dict[str, str]:
    """Return the declared type of an input or output as an attribute; none where nothing is declared."""
    if not value.type.HasField("tensor_type"):
        category = value.type.WhichOneof("value")
        return {"type": category} if category else {}
    number = value.type.tensor_type.elem_type
    try:
        category = str(element_type_of(number))
    except UnsupportedModelError:
        category = f"type {number}"
    names = [dim.dim_param for dim in value.type.tensor_type.shape.dim]
    shape = declared_shape(value.type)
    dims = ",".join(name or str(dim) for name, dim in zip(names, shape)) if shape.has_rank else "..."
    return {"type": f"{category}[{dims}]"}
