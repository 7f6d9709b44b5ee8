"""The optimized model as a message: the exported graph, with what the file says around it.

The place of a node is its index in the source's graph.
"""

from __future__ import annotations

import hashlib
from typing import Any

import onnx
from onnx import helper

from converter.errors import UnsupportedModelError
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.graph import CAPTURED, OnnxOperator, annotated, operator_of
from converter.onnx_file.messages import TensorProto, to_onnx
from converter.onnx_file.model import OnnxModel
from converter.onnx_file.model_info import declared_shape, dimension_params
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.skeleton import place_of
from converter.onnx_file.types import element_type_of
from converter.optimization.naming import SMALL_BYTES, Naming
from converter.optimization.source import Source
from converter.to_onnx.graph import Value, constants_of, new_value, value_info, value_name, written_operators
from ir_runtime.graph import Model, PartialShape, Tensor, TensorType, element_types
from ir_runtime.graph.invariants import NAMES
from ir_runtime.rewriting import UniqueNames, graph_pass

_FLOAT = onnx.TensorProto.FLOAT
_HEADER = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


class Assembly:
    """The model that is written: the exported graph with the names and the order of the file.

    ``opset`` is that of the result. ``taken`` are the tensor names of the whole file; new names are added to it.
    """

    def __init__(self, source: Source, exported: OnnxModel, opset: int, taken: set[str]) -> None:
        self.source = source
        self.graph = exported.graph
        self.opset = opset
        self.names = UniqueNames(taken)
        self._tensor_data = exported.tensor_data
        places = (operator_of(node).place for node in written_operators(self.graph))
        self.places = [place for place in places if place is not None and place >= 0]
        """The places of the nodes that stay."""
        self._name()

    def _name(self) -> None:
        """Give tensors and nodes the names of the file, and equal weights one name; sort the nodes as in the file."""
        source, graph, nodes = self.source, self.graph, UniqueNames()
        fixed = {*source.captured, *(value_name(value) for value in (*graph.inputs, *graph.outputs))}
        for place in self.places:
            for inner in list(source.in_graph(place))[1:]:
                nodes(inner.name)
                fixed.update(inner.output)
        naming = Naming(source, self.names, nodes, source.names() - fixed)
        shared: dict[Any, Value] = {}
        for name in source.captured & source.initializers.keys():
            if _is_carried(source.initializers[name]):
                tensor = source.file.tensor(source.initializers[name])
                tensor_type = TensorType(tensor.element_type, PartialShape(tensor.shape))
                shared[_key(tensor)] = new_value(OnnxOperator(CAPTURED), tensor_type, name)
        _use_names_of_file(graph, naming, shared)

    def model(self) -> OnnxModel:
        """Return the model, whose large weights stay where they are."""
        source, original = self.source, self.source.original.as_onnx()
        header = onnx.ModelProto(opset_import=self._opset_imports())
        for field in _HEADER:
            setattr(header, field, getattr(original, field))
        header.metadata_props.extend(original.metadata_props)
        header.training_info.extend(original.training_info)
        functions = [source.function(key) for key in source.functions if key in source.called(self.places)]
        ir_version = helper.find_min_ir_version_for(list(header.opset_import), ignore_unknown=True)
        if self.opset >= source.opsets.get("", 0):
            ir_version = max(ir_version, original.ir_version)
        header.ir_version = max(ir_version, 8 if functions else 4)  # IR 4: initializers need not be inputs
        graph, rest = self.graph, onnx.GraphProto(doc_string=original.graph.doc_string)
        if hasattr(rest, "metadata_props"):
            rest.metadata_props.extend(original.graph.metadata_props)
        graph.name, graph.rest = original.graph.name, rest.SerializeToString(deterministic=True)
        _declare_ends(graph, source)
        computed = [node for node in graph.nodes() if node.op.role != "parameter"]
        tensors = {value_name(value): value for node in computed for value in node.outputs}
        graph.annotations = [
            (entry, {name: tensors[name] for name in annotated(entry) if name in tensors})
            for entry in original.graph.quantization_annotation
            if entry.tensor_name in tensors
        ]
        return OnnxModel.of_parts(header, graph, functions, self._tensor_data)

    def as_file(self) -> OnnxFile:
        """Return the model as a source, whose large weights stay where they are."""
        message, tensors = self.model().message(), dict[str, Tensor]()
        for proto in message.graph.initializer:
            place = place_of(proto)
            if place is not None:
                proto.ClearField("external_data")
                proto.data_location = onnx.TensorProto.EXTERNAL
                tensors[proto.name] = self._tensor_data[place]
        return OnnxFile.of_parts(message, tensors)

    def _opset_imports(self) -> list[onnx.OperatorSetIdProto]:
        source = self.source
        imports = {"": self.opset}
        for domain in source.domains(self.places):
            if domain in source.opsets and domain:
                imports[domain] = source.opsets[domain]
        for node in written_operators(self.graph):
            imports.setdefault(normalize_domain(operator_of(node).domain), 1)
        return [helper.make_opsetid(domain, version) for domain, version in imports.items()]


@graph_pass("names_of_file", NAMES)
def _use_names_of_file(graph: Model, naming: Naming, shared: dict[Any, Value]) -> None:
    """Name and sort what a graph computes as in the file; equal weights, also those that are ``shared``, are one."""
    naming.done.update(shared.values())
    captured = set(shared.values())
    for node in constants_of(graph):
        assert node.op.data is not None
        (value,), key = node.outputs, _key(node.op.data)
        if key is not None and value not in graph.outputs and shared.setdefault(key, value) is not value:
            value.replace_by(shared[key], move_names=False)
    graph.parameters = (*graph.parameters, *(value.node for value in captured if value.is_used))
    naming.name(graph)
    naming.sort(graph)


@graph_pass("declared_ends", NAMES)
def _declare_ends(graph: Model, source: Source) -> None:
    """Declare inputs and outputs as the file does, or as the options changed them.

    An output that cannot have the declared shape gets the one that follows from the inputs: the declared one would
    fail strict inference, also in tools that the file passed before its nodes were changed.
    """
    original = source.original
    ends = {"input": graph.parameters, "output": graph.results}
    for field, nodes in ends.items():
        declared = {value.name: value for value in getattr(original.as_onnx().graph, field)}
        unbound = {value.name: value for value in getattr(original.proto.graph, field)}
        changed = {value.name: value for value in getattr(source.file.proto.graph, field)}
        for node in nodes:
            (result,) = node.inputs or node.outputs
            value = changed.get(value_name(result))
            if value is None or value.name in source.captured:
                node.op = node.op if field == "output" else OnnxOperator(CAPTURED)
                continue
            added = onnx.ValueInfoProto()
            is_right = field == "input" or declared_shape(value.type).merge(result.shape) is not None
            if value is unbound[value.name] and is_right:
                added.CopyFrom(declared[value.name])
            elif field == "output":
                added.CopyFrom(value_info(result, [] if is_right else dimension_params(value.type)))
            else:
                to_onnx(value, added)
            if result.element_type is element_types.f16 and added.type.tensor_type.elem_type == _FLOAT:
                added.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
            node.op = operator_of(node).replace(infos={-1: (0, added)})


def _is_carried(tensor: TensorProto) -> bool:
    """True if a :class:`Tensor` can carry the data: the IR has the element type, and it is not string."""
    try:
        return element_type_of(tensor.data_type) is not element_types.string
    except UnsupportedModelError:
        return False


def _key(tensor: Tensor) -> tuple[Any, ...] | None:
    """Return a key that weights of equal type, shape and data share; None for strings and small tensors."""
    if tensor.element_type is element_types.string or tensor.byte_size <= SMALL_BYTES:
        return None
    place: tuple[Any, ...] | None = tensor.place()
    if place is None:
        digest = hashlib.blake2b()
        for chunk in tensor.chunks():
            digest.update(chunk)
        place = (digest.digest(),)
    return tensor.element_type.name, tensor.shape, *place
