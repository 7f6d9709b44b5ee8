"""The model that is optimized: its nodes by name, what they read, and those that stay as operators of the graph."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from converter.errors import ConversionError, InvalidModelError
from converter.from_onnx.options import Options
from converter.from_onnx.translation.registry import counts_before_function
from converter.onnx_file import schema_table
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.functions import model_functions
from converter.onnx_file.graph import GraphReader, OnnxGraph, OnnxOperator, copied
from converter.onnx_file.messages import (
    AttributeProto,
    DimensionProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TensorShapeProto,
    TensorTypeProto,
    TypeProto,
    ValueInfoProto,
    to_onnx,
)
from converter.onnx_file.model_info import declared_shape, model_opsets
from converter.onnx_file.node_order import in_order, node_name, read_names, subgraphs
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.skeleton import EMBEDDED, tensors_in
from converter.onnx_file.types import element_type_of, onnx_number
from converter.optimization.zero_states import without_zero_states
from ir_runtime.graph import Model, PartialShape, Tensor, TensorType, element_types

if TYPE_CHECKING:
    import onnx

_CONSTANTS = ("Constant",)
_SMALL_ELEMENTS = 1 << 10


class Source:
    """A model whose inputs have the shapes and values that the options gave them.

    Nodes are known by their places in :attr:`nodes`, which are in the order of their evaluation. A graph in a node of
    another model is a source, too: ``captured`` are the tensors that it reads from around it, which are inputs or
    constants here.
    """

    def __init__(self, file: OnnxFile, options: Options, captured: Collection[str] = ()) -> None:
        if not file.proto.HasField("graph"):
            raise InvalidModelError("the model has no graph")
        self.opsets = model_opsets(file)
        self.functions = model_functions(file.proto)
        self.captured = frozenset(captured)
        self.original = file
        self.file = _with_inputs(file, options)
        graph = self.file.proto.graph
        self.initializers: dict[str, TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
        self.sparse: dict[str, SparseTensorProto] = {
            sparse_tensor.values.name: sparse_tensor for sparse_tensor in graph.sparse_initializer
        }
        self.inputs = [value for value in graph.input if value.name not in self.initializers]
        self.outputs = list(graph.output)
        available = {*self.initializers, *self.sparse, *(value.name for value in self.inputs)}
        ordered = in_order(graph.node, available)
        nodes = without_zero_states(self.file, ordered, self.initializers)
        place_in_file = {id(node): place for place, node in enumerate(graph.node)}
        places = {id(node): place_in_file[id(original_node)] for node, original_node in zip(nodes, ordered)}
        self.nodes: list[NodeProto] = _needed(nodes, [value.name for value in graph.output])
        self.reads = [read_names(node) for node in self.nodes]
        self.producers = {name: place for place, node in enumerate(self.nodes) for name in node.output if name}
        self._check_names({*available, *self.producers})
        self.places_in_file = [places[id(node)] for node in self.nodes]
        self.constants = {
            place
            for place, node in enumerate(self.nodes)
            if node.op_type in _CONSTANTS and not normalize_domain(node.domain)
        }
        """The places of Constant nodes, which count as no nodes."""

    def _check_names(self, available: Collection[str]) -> None:
        """Raise :class:`InvalidModelError` for tensors that nothing computes."""
        missing = [f"'{output.name}', an output," for output in self.outputs if output.name not in available]
        for node, reads in zip(self.nodes, self.reads):
            missing += [
                f"'{name}', which node '{node_name(node)}' reads," for name in sorted(reads.difference(available))
            ]
        if missing:
            raise InvalidModelError("\n".join(f"{problem} is computed by no node" for problem in missing))

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """The nodes that a name in an error or an origin may mean: their own, and those that hold or call its node."""
        places_by_name: dict[str, list[int]] = {}
        for place in range(len(self.nodes)):
            for inner in dict.fromkeys(map(node_name, self.within(place))):
                places_by_name.setdefault(inner, []).append(place)
        return places_by_name

    def within(self, place: int) -> Iterator[NodeProto]:
        """A node, the nodes of its graphs, and those of the functions that they call."""
        return self._within(self.nodes[place], self.functions)

    def _within(self, node: NodeProto, functions: Mapping[tuple[str, str], FunctionProto]) -> Iterator[NodeProto]:
        yield node
        for graph in subgraphs(node):
            for inner in graph.node:
                yield from self._within(inner, functions)
        key = (normalize_domain(node.domain), node.op_type)
        if key in functions:
            others = {other: function for other, function in functions.items() if other != key}
            for inner in functions[key].node:
                yield from self._within(inner, others)

    def all_nodes(self) -> Iterator[NodeProto]:
        """All nodes, with those of graphs and of called functions."""
        for place in range(len(self.nodes)):
            yield from self.within(place)

    def called(self, places: Iterable[int]) -> set[tuple[str, str]]:
        """The functions that these nodes call, and those that these call."""
        nodes = (inner for place in places for inner in self.within(place))
        return {key for node in nodes if (key := (normalize_domain(node.domain), node.op_type)) in self.functions}

    def is_compatible(self, function: tuple[str, str], opset: int) -> bool:
        """True if a model of that opset may have a function: ONNX requires that both import the same operators."""
        proto = self.functions[function]
        imported = {normalize_domain(entry.domain): entry.version for entry in proto.opset_import}
        before = imported.get("", self.opsets.get("", 0))
        nodes = [inner for node in proto.node for inner in self._within(node, {})]
        own = {node.op_type for node in nodes if not normalize_domain(node.domain)}
        schemas = [[schema_table.find(name, "", version) for version in (before, opset)] for name in own]
        return all(old is None or (new is not None and old.since_version == new.since_version) for old, new in schemas)

    def size(self, place: int) -> int:
        """Count the nodes that a node stands for with those of its graphs and functions, without constants.

        A call that onnxruntime runs by a kernel, whatever the function says, is one node.
        """
        inner = self._within(self.nodes[place], self._expanded)
        return sum(
            (normalize_domain(node.domain), node.op_type) not in self._expanded and node.op_type not in _CONSTANTS
            for node in inner
        )

    @cached_property
    def _expanded(self) -> Mapping[tuple[str, str], FunctionProto]:
        """The functions that runtimes expand."""
        return {
            (domain, name): function
            for (domain, name), function in self.functions.items()
            if not counts_before_function(name, domain, self.opsets.get(domain, 0))
        }

    def names(self) -> set[str]:
        """The names of all tensors, those in the graphs of nodes included."""
        return names_of(self.file.proto.graph)

    def small_constant(self, proto: TensorProto) -> Tensor | None:
        """The constant of a message; None for a large one and for what the IR cannot hold."""
        if math.prod(proto.dims) > _SMALL_ELEMENTS:
            return None
        try:
            tensor = self.file.tensor(proto)
        except ConversionError:
            return None
        return None if tensor.element_type is element_types.string else tensor

    def in_graph(self, place: int) -> Iterator[NodeProto]:
        """A node and the nodes of its graphs."""
        pending = [self.nodes[place]]
        while pending:
            node = pending.pop()
            yield node
            pending += [inner for graph in subgraphs(node) for inner in graph.node]

    def domains(self, places: Iterable[int]) -> set[str]:
        """The domains of these nodes and of the nodes in their graphs."""
        return {normalize_domain(node.domain) for place in places for node in self.in_graph(place)}

    def bodies(self, place: int) -> Iterator[tuple[int, int | None, Source]]:
        """The graphs of a node as sources: the place of the attribute, and that in its list of graphs."""
        node, original = self.nodes[place], self.original.as_onnx()
        copied = original.graph.node[self.places_in_file[place]]
        for number, attribute in enumerate(node.attribute):
            if attribute.HasField("g"):
                yield number, None, self._body(attribute.g, copied.attribute[number].g)
            for index, graph in enumerate(attribute.graphs):
                yield number, index, self._body(graph, copied.attribute[number].graphs[index])

    def _body(self, graph: GraphProto, copied: onnx.GraphProto) -> Source:
        """A graph in a node as a model: what it reads from around it are inputs, or constants where they are known."""
        inner = NodeProto(attribute=[AttributeProto(g=graph)])
        captured = sorted(read_names(inner))
        writers = {name: self.producers[name] for name in captured if name in self.producers}
        constants = {name: self.nodes[place] for name, place in writers.items() if place in self.constants}
        values = [self.initializers[name] for name in captured if name in self.initializers]
        declared = {value.name: value for value in self.inputs}
        others = [name for name in captured if name not in self.initializers and name not in constants]
        inputs = [declared.get(name) or self.types.get(name) or ValueInfoProto(name=name) for name in others]
        whole = graph.with_fields(
            node=[*graph.node, *constants.values()],
            initializer=[*graph.initializer, *values],
            input=[*graph.input, *inputs],
        )
        original = onnx_model(self.original.as_onnx(), copied)
        for value in inputs:
            to_onnx(value, original.graph.input.add())
        for tensor in values:
            to_onnx(tensor, original.graph.initializer.add())
        nodes = self.original.as_onnx().graph.node
        for name in constants:
            original.graph.node.add().CopyFrom(nodes[self.places_in_file[writers[name]]])
        file = self.file.with_proto(self.file.proto.with_fields(graph=whole), original)
        return Source(file, Options(), captured)

    @cached_property
    def types(self) -> Mapping[str, ValueInfoProto]:
        """The types of tensors, by name, as far as the file and onnx's inference of shapes know them."""
        from converter.optimization.declared_types import types_of  # few models have nodes that stay

        return types_of(self)

    @cached_property
    def whole(self) -> OnnxFile:
        """The model with the nodes that its outputs need, without what the file declares of inner tensors."""
        graph = self.file.proto.graph.with_fields(node=self.nodes, value_info=[])
        return self.file.with_proto(self.file.proto.with_fields(graph=graph))

    @cached_property
    def _reader(self) -> GraphReader:
        return GraphReader(lambda proto: None, self.opsets, {})

    def operator(
        self, place: int, bodies: Iterable[tuple[int, int | None, onnx.GraphProto]] = (), *, follows: bool = False
    ) -> Kept:
        """Return a node as an operator of the graph, with ``bodies`` in place of its own.

        With ``follows`` it computes float16 where its inputs become that.
        """
        message = self.message(place)
        for number, index, graph in bodies:
            attribute = message.attribute[number]
            (attribute.g if index is None else attribute.graphs[index]).CopyFrom(graph)
        operator, captured = self._reader.operator(message, place)
        types = [_tensor_type(self.types.get(name)) for name in message.output]
        return operator.replace(place=place, types=types, follows=follows and operator.op_type != "Cast"), captured

    def message(self, place: int) -> onnx.NodeProto:
        """Return a node as onnx's message, with the data of its attributes."""
        node = copied(self.original.as_onnx().graph.node[self.places_in_file[place]])
        node.input[:] = self.nodes[place].input
        for tensor in tensors_in(node):
            self._embed(tensor)
        return node

    def function(self, key: tuple[str, str]) -> OnnxGraph:
        """Return a function of the model by its domain and name."""
        functions = self.original.as_onnx().functions
        proto = copied(next(entry for entry in functions if (normalize_domain(entry.domain), entry.name) == key))
        for tensor in tensors_in(proto):
            self._embed(tensor)
        return self._reader.function(proto)

    def constant(self, name: str) -> OnnxOperator:
        """Return an initializer as a Constant node."""
        from onnx import helper

        graph = self.original.as_onnx().graph
        dense = {tensor.name: tensor for tensor in graph.initializer}
        sparse = {tensor.values.name: tensor for tensor in graph.sparse_initializer}
        values = {"value": dense[name]} if name in dense else {"sparse_value": sparse[name]}
        node = helper.make_node("Constant", [], [name], name, **values)
        for tensor in tensors_in(node):
            self._embed(tensor)
        operator, _ = self._reader.operator(node, -1)
        return operator.replace(place=-1, proto=None)

    def _embed(self, tensor: onnx.TensorProto) -> None:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries.get("location") == EMBEDDED:
            start = int(entries["offset"])
            tensor.raw_data = self.original.data[start : start + int(entries["length"])].tobytes()
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")


Kept = tuple[OnnxOperator, list[str]]
"""The operator of a node, and the names of the tensors that its bodies read from around them."""


def _tensor_type(value: ValueInfoProto | None) -> TensorType:
    """Return a declared or inferred type; what is not known of it is dynamic."""
    number = 0 if value is None else value.type.tensor_type.elem_type
    try:
        element_type = element_type_of(number) if number else element_types.dynamic
    except ConversionError:
        element_type = element_types.dynamic
    return TensorType(element_type, PartialShape.dynamic() if value is None else declared_shape(value.type))


def types_in_ir(model: Model) -> dict[str, ValueInfoProto]:
    """The types of what an IR computes, by tensor name."""
    types: dict[str, ValueInfoProto] = {}
    for node in model.nodes():
        for output in node.outputs if node.op.data is None else ():
            tensor = TensorTypeProto(elem_type=onnx_number(output.element_type), **_dimensions(output.shape, ()))
            for name in output.names:
                types.setdefault(name, ValueInfoProto(name=name, type=TypeProto(tensor_type=tensor)))
    return types


def names_of(graph: GraphProto) -> set[str]:
    """The names of all tensors of a graph, those in the graphs of its nodes included."""
    names = {value.name for value in (*graph.input, *graph.output)}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    return names.union(*(names_in(node) | set(node.input) for node in graph.node))


def names_in(node: NodeProto) -> set[str]:
    """The names of a node's outputs and of all tensors of its graphs."""
    return set(node.output).union(*map(names_of, subgraphs(node)))


def onnx_model(model: onnx.ModelProto, graph: onnx.GraphProto) -> onnx.ModelProto:
    """A model of the same opsets and functions with a copy of another graph."""
    return type(model)(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph
    )


def _needed(nodes: Sequence[NodeProto], outputs: Sequence[str]) -> list[NodeProto]:
    """The nodes that the outputs need, in their order."""
    read, needed = set(outputs), []
    for node in reversed(nodes):
        if not read.isdisjoint(node.output):
            read |= read_names(node)
            needed.append(node)
    return needed[::-1]


def _with_inputs(file: OnnxFile, options: Options) -> OnnxFile:
    """The model with the shapes, types and values that ``options`` give its inputs; itself where they give none."""
    graph = file.proto.graph
    defaults = {tensor.name for tensor in graph.initializer}
    bound = options.bound([value.name for value in graph.input if value.name not in defaults])
    if not bound.shapes and not bound.element_types and not bound.frozen and bound.batch is None:
        return file
    inputs, constants = list[ValueInfoProto](), list(graph.initializer)
    for value in graph.input:
        if value.name in defaults or not value.type.HasField("tensor_type"):
            inputs.append(value)
            continue
        tensor = value.type.tensor_type
        shape = declared_shape(value.type)
        element_type = bound.element_types.get(value.name) or element_type_of(tensor.elem_type)
        if value.name in bound.frozen:
            constants.append(_constant(value.name, bound.frozen_tensor(value.name, element_type, shape)))
            continue
        dims = _dimensions(bound.shape_of(value.name, shape), tensor.shape.dim)
        changed = TensorTypeProto(elem_type=onnx_number(element_type), **dims)
        inputs.append(ValueInfoProto(name=value.name, type=TypeProto(tensor_type=changed)))
    # Other shapes than the file declares follow.
    outputs = [ValueInfoProto(name=value.name, type=_without_shape(value.type)) for value in graph.output]
    changed_graph = graph.with_fields(input=inputs, initializer=constants, value_info=[], output=outputs)
    return file.with_proto(file.proto.with_fields(graph=changed_graph))


def _dimensions(shape: PartialShape, declared: Sequence[DimensionProto]) -> dict[str, TensorShapeProto]:
    """The field of a shape; dynamic dimensions keep their names."""
    if not shape.has_rank:
        return {}
    names = [dimension.dim_param for dimension in declared] if len(declared) == shape.rank else [""] * shape.rank
    dims = [
        DimensionProto(dim_value=dim.value)
        if dim.is_static
        else DimensionProto(**({"dim_param": name} if name else {}))
        for dim, name in zip(shape, names)
    ]
    return {"shape": TensorShapeProto(dim=dims)}


def _without_shape(declared: TypeProto) -> TypeProto:
    if not declared.HasField("tensor_type"):
        return declared
    return TypeProto(tensor_type=TensorTypeProto(elem_type=declared.tensor_type.elem_type))


def _constant(name: str, tensor: Tensor) -> TensorProto:
    fields = {"name": name, "dims": tensor.shape, "data_type": onnx_number(tensor.element_type)}
    if tensor.element_type is element_types.string:
        return TensorProto(**fields, string_data=[str(value).encode() for value in tensor.array().reshape(-1)])
    return TensorProto(**fields, raw_data=b"".join(map(bytes, tensor.chunks())))
