"""The optimized model: the exported graph with the names, the order and the properties of the file."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import onnx
from onnx import helper

from converter.editing.source import Source
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.graph import CAPTURED, INPUT, OnnxGraph, annotated, copied, operator_of, value_info
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.model_info import declared_shape, dimension_params
from converter.onnx_file.node_order import node_name, stable_order
from converter.to_onnx.graph import (
    Value,
    constants_of,
    operators_of,
    origin_of,
    rename,
    value_name,
    written_operators,
)
from converter.to_onnx.names import label
from ir_runtime.graph import Model, Node, element_types
from ir_runtime.graph.invariants import NAMES
from ir_runtime.rewriting import UniqueNames, graph_pass

_SMALL_BYTES = 1 << 10
"""Constants of up to this size are recognised by their contents; larger ones that are equal are written once."""
_FLOAT = onnx.TensorProto.FLOAT


def as_in_file(source: Source, exported: OnnxModel, opset: int, taken: set[str]) -> OnnxModel:
    """Return the exported model with the names, the order and the properties of the file.

    New names are none of those ``taken``, to which they are added.
    """
    graph, before = exported.graph, source.model
    indices = {index for node in written_operators(graph) if (index := operator_of(node).place) is not None}
    indices -= {-1}
    _use_names_of_file(graph, _Naming(source, graph, taken))
    _declare_ends(graph, source)
    header, functions = copied(before.header), _functions(source, indices)
    header.ClearField("opset_import")
    header.opset_import.extend(_opset_imports(source, graph, opset, indices))
    ir_version = helper.find_min_ir_version_for(list(header.opset_import), ignore_unknown=True)
    if opset >= source.opsets.get("", 0):
        ir_version = max(ir_version, before.header.ir_version)
    header.ir_version = max(ir_version, 8 if functions else 4)  # IR 4: initializers need not be inputs
    graph.name, graph.rest = before.graph.name, before.graph.rest
    computed = [node for node in graph.nodes() if node.op.role != "parameter"]
    tensors = {value_name(value): value for node in computed for value in node.outputs}
    graph.annotations = [
        (entry, {name: tensors[name] for name in annotated(entry) if name in tensors})
        for entry, _ in before.graph.annotations
        if entry.tensor_name in tensors
    ]
    return OnnxModel.of_parts(header, graph, functions, exported.tensor_data)


def _functions(source: Source, indices: Collection[int]) -> list[OnnxGraph]:
    called = source.called(indices)
    return [graph for key, graph in zip(source.functions, source.model.functions) if key in called]


def _opset_imports(source: Source, graph: Model, opset: int, indices: Collection[int]) -> list[onnx.OperatorSetIdProto]:
    imports = {"": opset}
    for domain in sorted(source.domains(indices)):
        if domain in source.opsets and domain:
            imports[domain] = source.opsets[domain]
    for part in graph.parts():
        for node in part.nodes:
            imports.setdefault(normalize_domain(operator_of(node).domain), 1)
    return [helper.make_opsetid(domain, version) for domain, version in imports.items()]


@graph_pass("declared_ends", NAMES)
def _declare_ends(graph: Model, source: Source) -> None:
    """Declare inputs and outputs as the file does, or as the options changed them.

    An output that cannot have the declared shape gets the one that follows from the inputs: the declared one would
    fail strict inference, also in tools that the file passed before its nodes were changed.
    """
    before = source.model.graph
    inputs = {node.outputs[0].names[0]: operator_of(node).infos[-1][1] for node in before.parameters}
    outputs = {node.end_names[0]: operator_of(node).infos[-1][1] for node in before.results}
    for node in (*graph.parameters, *graph.results):
        (result,) = node.inputs or node.outputs
        declared = (outputs if node.inputs else inputs).get(value_name(result))
        if declared is None:
            continue
        added = copied(declared)
        is_right = not node.inputs or declared_shape(declared.type).merge(result.shape) is not None
        if node.inputs and (source.is_bound or not is_right) and declared.type.HasField("tensor_type"):
            added = value_info(value_name(result), result.type, [] if is_right else dimension_params(declared.type))
        if result.element_type is element_types.f16 and added.type.tensor_type.elem_type == _FLOAT:
            added.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
        node.op = operator_of(node).replace(infos={-1: (0, added)})


@graph_pass("names_of_file", NAMES)
def _use_names_of_file(graph: Model, naming: _Naming) -> None:
    """Name and sort what a graph computes as in the file; equal weights are one."""
    equal: dict[Any, Value] = {}
    for node in constants_of(graph):
        (value,), key = node.outputs, _key(node)
        if key is not None and value not in graph.outputs and equal.setdefault(key, value) is not value:
            value.replace_by(equal[key], move_names=False)
    naming.name(graph)
    naming.sort(graph)


class _Naming:
    """Names for the tensors and nodes of exported graphs, in place; the nodes in the order of the file."""

    def __init__(self, source: Source, graph: Model, taken: set[str]) -> None:
        self._source = source
        self._nodes = UniqueNames()
        inner = [
            part for node in written_operators(graph) if operator_of(node).place is not None for part in _parts(node)
        ]
        fixed = {value_name(value) for value in (*graph.inputs, *graph.outputs)}
        for node in (node for part in inner for node in part.nodes()):
            if operator_of(node).kind != CAPTURED:
                fixed.update(name for value in node.outputs for name in value.names)
            if operator_of(node).label:
                self._nodes(operator_of(node).label)
        self._names = UniqueNames(taken)
        self._free = source.names() - fixed
        """Names of the file that nothing has yet: they belong to the tensors of the same name."""
        nodes = (node for index in range(len(source.nodes)) for node in source.expanded(index, source.functions))
        self._order = {name: number for number, name in enumerate(dict.fromkeys(map(node_name, nodes)))}
        self._constants = _small_constants(source.model.graph)
        self._done = {*graph.inputs, *graph.outputs}

    def name(self, graph: Model) -> None:
        """Name what a graph and its bodies hold and compute."""
        counts = Counter(map(origin_of, written_operators(graph)))
        for node in written_operators(graph):
            if counts[origin_of(node)] == 1 and origin_of(node):
                node.name = origin_of(node)
        self._name_values(graph, "")

    def _name_values(self, graph: Model, around: str) -> None:
        for node in constants_of(graph):
            self._name_constant(node)
        for node in operators_of(graph):
            label(node, self._nodes(node.name))
            for sub in node.op.subgraphs if operator_of(node).place is None else ():
                for parameter in sub.body.parameters:
                    if operator_of(parameter).kind == INPUT:
                        self._name(parameter.outputs[0], f"{node.name}/")
                self._name_values(sub.body, f"{node.name}/")
            for value in node.outputs:
                self._name(value, around)

    def _name(self, value: Value, around: str) -> None:
        """Give a value its name; in the bodies of a node the IR puts the node's name, ``around``, before it."""
        if value in self._done or not value.names:
            return
        self._done.add(value)
        for name in (value_name(value), value_name(value).removeprefix(around)):
            if name in self._free:
                self._free.remove(name)
                rename(value, name)
                return
        rename(value, self._names(value_name(value)))

    def _name_constant(self, node: Node) -> None:
        """Give a constant its name in the file, or else that of an equal constant that is not written any more."""
        (value,), contents = node.outputs, _contents(node)
        if value not in self._done and value_name(value) not in self._free and contents is not None:
            equal = [name for name in self._constants.get(contents, ()) if name in self._free]
            rename(value, equal[0] if equal else value_name(value))
        self._name(value, "")

    def sort(self, graph: Model) -> None:
        """Sort the nodes as in the file, those of bodies too, and the constants as they are read."""
        nodes, indices, latest = operators_of(graph), list[int](), len(self._order)
        for node in reversed(nodes):  # one without origin stands before its reader
            latest = self._order.get(origin_of(node), latest)
            indices.append(latest)
            for sub in node.op.subgraphs if operator_of(node).place is None else ():
                self.sort(sub.body)
        edges = [(place, node.inputs, node.outputs) for place, node in zip(indices[::-1], nodes)]
        ordered = [nodes[index] for index in stable_order(edges)]
        first = {value: index for index, node in reversed([*enumerate(ordered)]) for value in node.inputs}
        constants = sorted(constants_of(graph), key=lambda node: first.get(node.outputs[0], len(first)))
        for nodes_in_order in (ordered, constants):
            for index, node in enumerate(nodes_in_order):
                node.op = operator_of(node).replace(order=index)


def _parts(node: Node) -> list[Model]:
    return [model for sub in node.op.subgraphs for model in sub.body.all_models()]


def _small_constants(graph: Model) -> Mapping[tuple[object, ...], list[str]]:
    """The names of the file's small constants by their contents."""
    names_by_contents: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
    for part in graph.parts():
        for node in part.nodes:
            contents = _contents(node)
            if contents is not None:
                names_by_contents[contents] += node.outputs[0].names
    return names_by_contents


def _contents(node: Node) -> tuple[object, ...] | None:
    """Return what equal small constants share; None for other nodes, and for what is large or missing."""
    proto = operator_of(node).proto
    tensor = node.op.data if isinstance(proto, onnx.TensorProto) else None
    if tensor is None or tensor.byte_size > _SMALL_BYTES:
        return None
    return proto.data_type, tensor.shape, b"".join(map(bytes, tensor.chunks()))


def _key(node: Node) -> tuple[Any, ...] | None:
    """Return a key that weights of equal type, shape and data share; None for strings and small tensors."""
    tensor = node.op.data
    if tensor is None or tensor.element_type is element_types.string or tensor.byte_size <= _SMALL_BYTES:
        return None
    index: tuple[Any, ...] | None = tensor.place()
    if index is None:
        digest = hashlib.blake2b()
        for chunk in tensor.chunks():
            digest.update(chunk)
        index = (digest.digest(),)
    return operator_of(node).proto.data_type, tensor.shape, *index
