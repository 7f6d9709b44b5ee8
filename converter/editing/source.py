"""The model that is optimized: its nodes by name, what they count as, and those that stay as operators of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import onnx
from onnx import helper

from converter.from_onnx.translation.registry import counts_before_function
from converter.onnx_file import schema_table
from converter.onnx_file.declared_types import type_of, types_of
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.functions import model_functions
from converter.onnx_file.graph import OnnxOperator, copied, operator_of, ordered_operators, value_info
from converter.onnx_file.messages import FunctionProto, NodeProto
from converter.onnx_file.model import OnnxModel, constant_operator
from converter.onnx_file.model_info import declared_shape, dimension_params, model_opsets
from converter.onnx_file.node_order import node_name, subgraphs
from converter.onnx_file.types import element_type_of
from converter.options.inputs import Bindings
from converter.to_onnx.graph import listed_inputs
from ir_runtime.graph import Model, Node, Output, PartialShape, TensorType, element_types
from ir_runtime.graph.invariants import OPTIONS, REMOVALS
from ir_runtime.rewriting import graph_pass

_SMALL_BYTES = 1 << 10
"""Maximum size of constants that a body may hold again."""
_ANY = TensorType(element_types.dynamic, PartialShape.dynamic())


class Source:
    """A model whose inputs have the shapes and values that the options gave them.

    Nodes, those of bodies included, are known by their places in :attr:`nodes`; a node is followed by those of its
    bodies.
    """

    def __init__(self, model: OnnxModel, options: Bindings | None = None) -> None:
        self.model = model
        is_changed = _drop_unread(model.graph)
        bound = _bound(model.graph, options)
        self.is_bound = bound is not None
        """True if the options changed an input."""
        if bound is not None:
            _bind_inputs(model.graph, bound, model)
        file = model.as_file() if model.file is None or is_changed or bound is not None else model.file
        self.file = file.with_proto(file.proto.with_fields(graph=file.proto.graph.with_fields(value_info=[])))
        """The messages, without what the file declares of inner tensors."""
        self.opsets = model_opsets(self.file)
        self.functions = model_functions(self.file.proto)
        self.nodes: list[NodeProto] = []
        self.holders: list[int | None] = []
        """The place of the node that has each node in a body."""
        self._graph_nodes: list[Node] = []
        self._add(self.file.proto.graph.node, model.graph, None)
        self.constants = {index for index, node in enumerate(self._graph_nodes) if operator_of(node).type == "Constant"}
        """The places of Constant nodes, which count as no nodes."""

    def _add(self, nodes: Sequence[NodeProto], graph: Model, holder: int | None) -> None:
        for node, operator in zip(nodes, ordered_operators(graph)):
            index = len(self.nodes)
            self.nodes.append(node)
            self._graph_nodes.append(operator)
            self.holders.append(holder)
            for inner, sub in zip(subgraphs(node), operator.op.subgraphs):
                self._add(inner.node, sub.body, index)

    def around(self, index: int) -> Iterator[int]:
        """Yield the nodes that have a node in their bodies, and in the bodies of these."""
        holder = self.holders[index]
        while holder is not None:
            yield holder
            holder = self.holders[holder]

    def inside(self, index: int) -> list[int]:
        """Return the places of a node and of the nodes of its bodies."""
        end = next((n for n in range(index + 1, len(self.nodes)) if index not in self.around(n)), len(self.nodes))
        return list(range(index, end))

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """The nodes that a name in an error or an origin may mean: their own, and those that call its node."""
        places_by_name: dict[str, list[int]] = {}
        for index in range(len(self.nodes)):
            for inner in dict.fromkeys(map(node_name, self.expanded(index, self.functions))):
                places_by_name.setdefault(inner, []).append(index)
        return places_by_name

    def expanded(self, index: int, functions: Mapping[tuple[str, str], FunctionProto]) -> Iterator[NodeProto]:
        """Yield a node and the nodes of the functions that it calls."""
        node = self.nodes[index]
        yield node
        yield from _called_nodes(node, functions)

    def called(self, indices: Iterable[int]) -> set[tuple[str, str]]:
        """The functions that these nodes and those of their bodies call, and those that these call."""
        every = {inner for index in indices for inner in self.inside(index)}
        nodes = (node for index in every for node in self.expanded(index, self.functions))
        return {key for node in nodes if (key := _key(node)) in self.functions}

    def is_compatible(self, function: tuple[str, str], opset: int) -> bool:
        """True if a model of that opset may have a function: ONNX requires that both import the same operators."""
        proto = self.functions[function]
        imported = {normalize_domain(entry.domain): entry.version for entry in proto.opset_import}
        before = imported.get("", self.opsets.get("", 0))
        nodes = [inner for node in proto.node for inner in (node, *_called_nodes(node, {}))]
        own = {node.op_type for node in nodes if not normalize_domain(node.domain)}
        schemas = [[schema_table.find(name, "", version) for version in (before, opset)] for name in own]
        return all(old is None or (new is not None and old.since_version == new.since_version) for old, new in schemas)

    def size(self, index: int) -> int:
        """Count the nodes that a node stands for: itself, or those of the function that runtimes expand.

        A call that onnxruntime runs by a kernel, whatever the function says, is one node. Constants count as none.
        """
        nodes = self.expanded(index, self._expanded)
        return sum(_key(node) not in self._expanded and node.op_type != "Constant" for node in nodes)

    def total(self, index: int) -> int:
        """Count the nodes that a node stands for with those of its bodies."""
        return sum(map(self.size, self.inside(index)))

    @cached_property
    def _expanded(self) -> Mapping[tuple[str, str], FunctionProto]:
        """The functions that runtimes expand."""
        return {
            (domain, name): function
            for (domain, name), function in self.functions.items()
            if not counts_before_function(name, domain, self.opsets.get(domain, 0))
        }

    def names(self) -> set[str]:
        """The names of all tensors, those of bodies included."""
        values = (value for part in self.model.graph.parts() for node in part.nodes for value in node.outputs)
        return {name for value in values for name in value.names}

    def domains(self, indices: Iterable[int]) -> set[str]:
        """The domains of these nodes and of those of their bodies."""
        return {normalize_domain(self.nodes[inner].domain) for index in indices for inner in self.inside(index)}

    @cached_property
    def types(self) -> Mapping[str, onnx.ValueInfoProto]:
        """The types of tensors, by name, as far as the file and onnx's inference of shapes know them."""
        return types_of(self.model.message())

    @cached_property
    def weight_types(self) -> Mapping[str, int]:
        """The element types of initializers, as ONNX numbers them."""
        return {tensor.name: tensor.data_type for tensor in self.file.proto.graph.initializer}

    def operator(self, place: int) -> tuple[OnnxOperator, list[str]]:
        """Return a node as an operator, and the names of the tensors that its bodies read from around them."""
        node, op = self._graph_nodes[place], operator_of(self._graph_nodes[place])
        captured = [value.names[0] for value in node.inputs[sum(op.slots) :]]
        infos = [self.types.get(value.names[0]) if value.names else None for value in node.outputs]
        types = [_ANY if info is None else type_of(info) for info in infos]
        return op.replace(place=place, types=types), captured

    def info(self, name: str) -> onnx.ValueInfoProto:
        """Return the declaration of a tensor, as far as it is known."""
        constant = self.constant_operators.get(name)
        if constant is None or not isinstance(constant.proto, onnx.TensorProto):
            return self.types.get(name) or onnx.ValueInfoProto(name=name)
        return helper.make_tensor_value_info(name, constant.proto.data_type, list(constant.proto.dims))

    def small_constant(self, name: str) -> OnnxOperator | None:
        """Return the operator of a small constant of the main graph; None where there is none of that name."""
        constant = self.constant_operators.get(name)
        tensor = None if constant is None else constant.data
        return constant if tensor is not None and tensor.byte_size <= _SMALL_BYTES else None

    @cached_property
    def constant_operators(self) -> Mapping[str, OnnxOperator]:
        """The operators of constants by name."""
        nodes = [node for node in self.model.graph.nodes() if node.op.role == "constant"]
        return {node.outputs[0].names[0]: operator_of(node).replace(place=-1) for node in nodes}


def _key(node: NodeProto) -> tuple[str, str]:
    return normalize_domain(node.domain), node.op_type


def _called_nodes(node: NodeProto, functions: Mapping[tuple[str, str], FunctionProto]) -> Iterator[NodeProto]:
    """Yield the nodes of the function that a node calls, of their bodies, and of the functions that these call."""
    key = _key(node)
    if key not in functions:
        return
    others = {other: function for other, function in functions.items() if other != key}
    pending = list(functions[key].node)
    while pending:
        inner = pending.pop()
        yield inner
        yield from _called_nodes(inner, others)
        pending += [nested for graph in subgraphs(inner) for nested in graph.node]


@graph_pass("unread_nodes", REMOVALS)
def _drop_unread(graph: Model) -> bool:
    """Remove nodes that nothing reads, and initial states that are the default; return whether there were any."""
    has_unread = drop_zero_states(graph) or bool(graph.sinks)
    graph.sinks = ()
    return has_unread


def _bound(graph: Model, options: Bindings | None) -> Bindings | None:
    """Return the options for the inputs of a graph; None where they change none."""
    bound = (options or Bindings()).bound([node.outputs[0].names[0] for node in graph.parameters])
    return bound if bound.shapes or bound.element_types or bound.frozen or bound.batch is not None else None


@graph_pass("bound_inputs", OPTIONS)
def _bind_inputs(graph: Model, bound: Bindings, model: OnnxModel) -> None:
    """Give inputs the shapes, types and values of the options; the shapes that the file declares follow from others."""
    parameters = []
    for node in graph.parameters:
        (value,), info = node.outputs, operator_of(node).infos[-1][1]
        name = value.names[0]
        if not info.type.HasField("tensor_type"):
            parameters.append(node)
            continue
        shape = declared_shape(info.type)
        element_type = bound.element_types.get(name) or element_type_of(info.type.tensor_type.elem_type)
        if name in bound.frozen:
            constant = constant_operator(bound.frozen_tensor(name, element_type, shape), model.tensor_data)
            value.replace_by(Node(constant, (), constant.infer(())).outputs[0])
            continue
        parameters.append(node)
        new_shape, names = bound.shape_of(name, shape), dimension_params(info.type)
        names = names if new_shape.has_rank and len(names) == new_shape.rank else []
        declared = value_info(name, TensorType(element_type, new_shape), names)
        node.op = operator_of(node).replace(infos={-1: (0, declared)})
    graph.parameters = parameters
    for node in graph.nodes():
        infos = {index: (at, copied(info)) for index, (at, info) in operator_of(node).infos.items() if index < 0}
        for _, info in infos.values():
            if node.op.role == "result" and info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
        node.op = operator_of(node).replace(infos=infos)


_STATES = {"GRU": (5,), "LSTM": (5, 6), "RNN": (5,)}
"""Operator -> the indices of the inputs that are initial states."""
_MOVEMENTS = (
    "Cast",
    "Expand",
    "Gather",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
"""Operators whose results consist of elements of the first input, so that zeros stay zeros."""
_MAX_BYTES = 1 << 20
"""Maximum size of constants that are compared with zero."""


def drop_zero_states(graph: Model) -> bool:
    """Remove the initial states of zeros from recurrent nodes; return whether there were any."""
    is_changed = False
    for node in graph.nodes():
        indices = _STATES.get(node.op.type, ())
        inputs = listed_inputs(node) if indices else []
        states = {index: inputs[index] for index in indices if index < len(inputs)}
        omitted = {index for index, state in states.items() if state is not None and _is_zero(state)}
        if omitted:
            inputs = [None if index in omitted else value for index, value in enumerate(inputs)]
            while inputs[-1] is None:  # trailing inputs without a name are omitted altogether
                inputs.pop()
            node.op = operator_of(node).replace(slots=[value is not None for value in inputs])
            node.inputs = tuple(value for value in inputs if value is not None)
            is_changed = True
    return is_changed


def _is_zero(value: Output) -> bool:
    """True if all elements of a tensor are certainly zero; its shape may be dynamic."""
    while not value.node.op.role:
        node, op = value.node, operator_of(value.node)
        if op.type == "ConstantOfShape":
            fill = None if op.proto is None else op.read(op.proto)
            return fill is None or not fill.array().any()
        if op.type == "Concat":
            return all(map(_is_zero, node.inputs))
        if op.type not in _MOVEMENTS:
            return False
        value = node.inputs[0]
    tensor = value.node.op.data
    if tensor is None or not tensor.element_type.is_real or tensor.byte_size > _MAX_BYTES:
        return False
    return not tensor.array().any()
