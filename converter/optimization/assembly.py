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
from converter.onnx_file.messages import TensorProto, to_onnx
from converter.onnx_file.model_info import declared_shape, dimension_params
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.types import element_type_of
from converter.optimization.naming import SMALL_BYTES, Naming, ends_of
from converter.optimization.source import Source
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.messages import LeftOut, graph_message, value_info
from converter.to_onnx.names import calls_of
from ir_runtime.graph import Tensor, element_types
from ir_runtime.rewriting import UniqueNames

_INVENTED = "unk__"
"""The beginning of names that onnx's inference of shapes gives to dimensions."""
_HEADER = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


class Assembly:
    """The model that is written: the exported graph with the names and the order of the file.

    ``opset`` is that of the result. ``taken`` are the tensor names of the whole file; new names are added to it.
    """

    def __init__(self, source: Source, graph: Graph, opset: int, taken: set[str]) -> None:
        self.source = source
        self.graph = graph
        self.opset = opset
        self.names = UniqueNames(taken)
        self.places = [int(call.operator.order) for call in calls_of(graph) if call.operator is not None]
        """The places of the nodes that stay; -1 is that of a constant."""
        self._name()

    def _name(self) -> None:
        """Give tensors and nodes the names of the file, and equal weights one name; sort the nodes as in the file."""
        source, graph, nodes = self.source, self.graph, UniqueNames()
        fixed = {*source.captured, *(value.name for value in ends_of(graph))}
        for place in self.places:
            for node in list(source.in_graph(place))[1:] if place >= 0 else ():
                nodes(node.name)
                fixed.update(node.output)
        naming = Naming(source, self.names, nodes, source.names() - fixed)
        shared: dict[Any, str] = {}
        for name in source.captured & source.initializers.keys():
            if _is_carried(source.initializers[name]):
                shared[_key(source.file.tensor(source.initializers[name]))] = name
        own: dict[Any, tuple[Value, Tensor]] = {}
        equal: list[tuple[Value, Any]] = []
        for value, tensor in graph.constants:
            key = None if value in graph.outputs else _key(tensor)
            if key is not None and (key in shared or key in own):
                equal.append((value, key))
            else:
                own[value if key is None else key] = value, tensor
        graph.constants = list(own.values())
        naming.done.update(value for value, _ in equal)
        naming.name(graph)
        names = {**{key: value.name for key, (value, _) in own.items()}, **shared}
        for value, key in equal:
            value.name = names[key]
        naming.sort(graph)

    def message(self, left_out: LeftOut | None = None) -> onnx.ModelProto:
        """Return the model's message, without large constants where they can be appended to ``left_out``."""
        source, original = self.source, self.source.original.as_onnx()
        model = onnx.ModelProto(opset_import=self._opset_imports())
        for field in _HEADER:
            setattr(model, field, getattr(original, field))
        model.metadata_props.extend(original.metadata_props)
        model.training_info.extend(original.training_info)
        called = source.called(place for place in self.places if place >= 0)
        model.functions.extend(
            function for function in original.functions if (normalize_domain(function.domain), function.name) in called
        )
        ir_version = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
        if self.opset >= source.opsets.get("", 0):
            ir_version = max(ir_version, original.ir_version)
        model.ir_version = max(ir_version, 8 if model.functions else 4)  # IR 4: initializers need not be inputs
        graph = model.graph
        graph.name, graph.doc_string = original.graph.name, original.graph.doc_string
        if hasattr(graph, "metadata_props"):
            graph.metadata_props.extend(original.graph.metadata_props)
        part = graph_message(self.graph, left_out)
        graph.initializer.extend(part.initializer)
        graph.node.extend(part.node)
        self._add_ends(graph)
        tensor_names = {name for node in graph.node for name in node.output} | {
            initializer.name for initializer in graph.initializer
        }
        tensor_names |= {initializer.name for initializer, _ in left_out or ()}
        graph.quantization_annotation.extend(
            annotation
            for annotation in original.graph.quantization_annotation
            if annotation.tensor_name in tensor_names
        )
        return model

    def as_file(self) -> OnnxFile:
        """Return the model as a source, whose large weights stay where they are."""
        left_out: LeftOut = []
        model = self.message(left_out)
        for proto, _ in left_out:
            proto.data_location = onnx.TensorProto.EXTERNAL
        model.graph.initializer.extend(proto for proto, _ in left_out)
        return OnnxFile.of_parts(model, {proto.name: tensor for proto, tensor in left_out})

    def _add_ends(self, graph: onnx.GraphProto) -> None:
        """Add inputs and outputs as the file declares them, or as the options changed them.

        An output that cannot have the declared shape gets the one that follows from the inputs: the declared one would
        fail strict inference, also in tools that the file passed before its nodes were changed.
        """
        source, original = self.source, self.source.original
        values = {value.name: value for value in self.graph.outputs}
        halves = {value.name for value in ends_of(self.graph) if value.element_type is element_types.f16}
        for field in ("input", "output"):
            declared = {value.name: value for value in getattr(original.as_onnx().graph, field)}
            unbound = {value.name: value for value in getattr(original.proto.graph, field)}
            for value in getattr(source.file.proto.graph, field):
                if field == "input" and (value.name in source.initializers or value.name in source.captured):
                    continue  # a constant, or a tensor that a body captures
                added = getattr(graph, field).add()
                result = values.get(value.name) if field == "output" else None
                is_right = result is None or declared_shape(value.type).merge(result.shape) is not None
                if value is unbound[value.name] and is_right:
                    added.CopyFrom(declared[value.name])
                elif result is not None:
                    added.CopyFrom(value_info(result, [] if is_right else dimension_params(value.type)))
                else:
                    # An output of a node that stays, whose shape options changed, has the inferred one.
                    to_onnx(value if field == "input" else source.types.get(value.name, value), added)
                    for dimension in added.type.tensor_type.shape.dim:
                        if dimension.dim_param.startswith(_INVENTED):
                            dimension.Clear()
                if value.name in halves and added.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                    added.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16

    def _opset_imports(self) -> list[onnx.OperatorSetIdProto]:
        source = self.source
        imports = {"": self.opset}
        for domain in source.domains(place for place in self.places if place >= 0):
            if domain in source.opsets and domain:
                imports[domain] = source.opsets[domain]
        for call in calls_of(self.graph):
            imports.setdefault(normalize_domain(call.domain), 1)
        return [helper.make_opsetid(domain, version) for domain, version in imports.items()]


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
