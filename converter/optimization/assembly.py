"""Assembly of the optimized model as one message: unchanged nodes, and the exported parts between them.

The place of a node is its index in the source's graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from converter.errors import UnsupportedModelError
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import TensorProto, to_onnx
from converter.onnx_file.model_info import declared_shape, dimension_params
from converter.onnx_file.node_order import subgraphs
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.skeleton import EMBEDDED, tensors_in
from converter.onnx_file.types import element_type_of
from converter.optimization.naming import SMALL_BYTES, Naming, ends_of, sort_nodes
from converter.optimization.source import Source, names_in
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.messages import LeftOut, graph_message, value_info
from converter.to_onnx.names import Names, calls_of, read_by
from ir_runtime.graph import Tensor, element_types

_INVENTED = "unk__"
"""The beginning of names that onnx's inference of shapes gives to dimensions."""
_HEADER = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


Body = tuple[int, "int | None", "Assembly"]
"""A body of an unchanged node: the index of its attribute, its index in a list of graphs, and the assembled graph."""


class Assembly:
    """The model that is written: unchanged nodes of the source, and ``graphs`` in place of its parts.

    ``units`` are the places of all nodes in their order, as :meth:`Source.units` returns them. ``graphs`` maps the
    first place of a unit to the graph that replaces it; a unit without one is an unchanged node, whose bodies are in
    ``bodies``. ``copies`` maps the names of tensors that are not written to those of equal ones. ``taken`` are the
    tensor names of the whole file; new names are added to it.
    """

    def __init__(
        self,
        source: Source,
        units: Sequence[Sequence[int]],
        graphs: Mapping[int, Graph],
        opset: int,
        bodies: Mapping[int, Sequence[Body]],
        copies: Mapping[str, str],
        taken: set[str],
    ) -> None:
        self.source = source
        self._copies = copies
        self._bodies = bodies
        self.opset = opset
        self._units = units
        self._graphs = graphs
        self._unchanged = [unit[0] for unit in units if unit[0] not in graphs]
        self._reads = {place: {self._name_of_copied(name) for name in source.reads[place]} for place in self._unchanged}
        names = {output.name for output in source.outputs}.union(*self._reads.values())
        names.update(self._name_of_copied(value.name) for graph in graphs.values() for value in graph.inputs)
        self._constants = sorted(
            {source.producers[name] for name in names if name in source.producers} & source.constants
        )
        names -= source.captured
        self._initializers = [tensor for name, tensor in source.initializers.items() if name in names]
        self._sparse = [sparse_tensor for name, sparse_tensor in source.sparse.items() if name in names]
        self._name_parts(taken)

    def _name_of_copied(self, name: str) -> str:
        """Return the name of the written tensor that ``name`` is a copy of."""
        while name in self._copies:
            name = self._copies[name]
        return name

    def _name_parts(self, taken: set[str]) -> None:
        """Give the tensors and nodes inside the parts unique names, and equal weights of several parts one name."""
        source, nodes = self.source, Names()
        fixed_names = {*source.captured, *(value.name for graph in self._graphs.values() for value in ends_of(graph))}
        for graph in self._graphs.values():
            for value in graph.inputs:
                value.name = self._name_of_copied(value.name)
        for place in (*self._unchanged, *self._constants):
            fixed_names |= {*self._reads.get(place, ()), *names_in(source.nodes[place])}
            for node in source.in_graph(place):
                nodes.unique(node.name)
        self._naming = naming = Naming(source, Names(taken), nodes, source.names() - fixed_names)
        shared = {key: name for name, tensor in self._weights() if (key := _key(tensor)) is not None}
        for graph in self._graphs.values():
            own: dict[Any, tuple[Value, Tensor]] = {}
            equal: list[tuple[Value, Any]] = []
            for value, tensor in graph.constants:
                # An output keeps its name, by which another part reads it.
                key = None if value in graph.outputs else _key(tensor)
                if key in shared or key in own:
                    equal.append((value, key))
                else:
                    own[value if key is None else key] = value, tensor
            graph.constants = list(own.values())
            naming.done.update(value for value, _ in equal)
            naming.name(graph)
            shared |= {key: value.name for key, (value, _) in own.items() if key is not value}
            for value, key in equal:
                value.name = shared[key]

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the weights of unchanged nodes by name, those that bodies capture included."""
        captured = [
            initializer for name, initializer in self.source.initializers.items() if name in self.source.captured
        ]
        for tensor in (*self._initializers, *captured):
            if _is_carried(tensor):
                yield tensor.name, self.source.file.tensor(tensor)

    def message(self, left_out: LeftOut | None = None) -> onnx.ModelProto:
        """Return the model's message, without large constants where they can be appended to ``left_out``."""
        source, original = self.source, self.source.original.as_onnx()
        model = onnx.ModelProto(opset_import=self._opset_imports())
        for field in _HEADER:
            setattr(model, field, getattr(original, field))
        model.metadata_props.extend(original.metadata_props)
        model.training_info.extend(original.training_info)
        called = source.called(self._unchanged)
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
        self._add_ends(graph)
        for place in self._constants:
            graph.node.append(self._node(place))
        for tensor in self._initializers:
            self._add_initializer(graph, tensor, left_out)
        for sparse in self._sparse:
            added = to_onnx(sparse, graph.sparse_initializer.add())
            for own, field in ((sparse.values, added.values), (sparse.indices, added.indices)):
                _fill(source, own, field)
        self._add_nodes(graph, left_out)
        _drop_unread(graph, left_out)
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

    def _add_nodes(self, graph: onnx.GraphProto, left_out: LeftOut | None) -> None:
        """Add the nodes in the order of the file, and the constants in the order of their readers."""
        source, naming = self.source, self._naming
        nodes: list[tuple[tuple[onnx.NodeProto, set[str]], int, set[str], Sequence[str]]] = []
        for place in self._unchanged:
            node, read = source.nodes[place], self._reads[place]
            nodes.append(((self._node(place), read), naming.place_of(node), read, node.output))
        for own in self._graphs.values():
            part, places = graph_message(own, left_out), naming.places(own)
            graph.initializer.extend(part.initializer)
            for written, call in zip(part.node, own.calls):
                read = {value.name for value in read_by(call)}
                nodes.append(((written, read), places[call], read, written.output))
        first: dict[str, int] = {}
        for number, (node, read) in enumerate(sort_nodes(nodes)):
            graph.node.append(node)
            first.update((name, number) for name in read if name not in first)
        constants = sorted(graph.initializer, key=lambda tensor: first.get(tensor.name, len(first)))
        del graph.initializer[:]
        graph.initializer.extend(constants)
        if left_out is not None:
            left_out.sort(key=lambda pair: first.get(pair[0].name, len(first)))

    def as_file(self, change: Callable[[onnx.ModelProto, Sequence[onnx.TensorProto]], None] | None = None) -> OnnxFile:
        """Return the model as a source, whose large weights stay where they are.

        ``change`` changes the message, and the names of the tensors that it does not hold.
        """
        left_out: LeftOut = []
        model = self.message(left_out)
        if change is not None:
            change(model, [proto for proto, _ in left_out])
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
        values = {value.name: value for part in self._graphs.values() for value in part.outputs}
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

    def _opset_imports(self) -> list[onnx.OperatorSetIdProto]:
        source = self.source
        imports = {"": self.opset}
        for domain in source.domains(self._unchanged):
            if domain in source.opsets and domain:
                imports[domain] = source.opsets[domain]
        for graph in self._graphs.values():
            for call in calls_of(graph):
                imports.setdefault(call.domain, 1)
        return [helper.make_opsetid(domain, version) for domain, version in imports.items()]

    def _node(self, place: int) -> onnx.NodeProto:
        """Return the message of an unchanged node, with the tensors of its attributes and its assembled bodies."""
        node = onnx.NodeProto()
        node.CopyFrom(self.source.original.as_onnx().graph.node[self.source.places_in_file[place]])
        node.input[:] = [self._name_of_copied(name) for name in self.source.nodes[place].input]
        for tensor in tensors_in(node):
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if entries.get("location") == EMBEDDED:
                start = int(entries["offset"])
                tensor.raw_data = self.source.original.data[start : start + int(entries["length"])].tobytes()
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
        for number, index, body in self._bodies.get(place, ()):
            attribute = node.attribute[number]
            (attribute.g if index is None else attribute.graphs[index]).CopyFrom(body.message().graph)
        return node

    def _add_initializer(self, graph: onnx.GraphProto, own: TensorProto, left_out: LeftOut | None) -> None:
        if left_out is not None and _is_carried(own):
            tensor = self.source.file.tensor(own)
            if tensor.byte_size > SMALL_BYTES:
                left_out.append((onnx.TensorProto(name=own.name, data_type=own.data_type, dims=own.dims), tensor))
                return
        _fill(self.source, own, to_onnx(own, graph.initializer.add()))


def _drop_unread(graph: onnx.GraphProto, left_out: LeftOut | None) -> None:
    """Remove constants without readers: these may have been in bodies of unchanged nodes, which were optimized."""
    read = {value.name for value in graph.output}
    nodes = list(graph.node)
    while nodes:
        node = nodes.pop()
        read.update(node.input)
        for body in subgraphs(node):
            read.update(value.name for value in body.output)
            nodes += body.node
    unread = [place for place, tensor in enumerate(graph.initializer) if tensor.name not in read]
    for place in reversed(unread):
        del graph.initializer[place]
    if left_out is not None:
        left_out[:] = [pair for pair in left_out if pair[0].name in read]


def _fill(source: Source, own: TensorProto, message: onnx.TensorProto) -> None:
    """Copy the raw data of a tensor, which may be in another file, into its message."""
    packed = source.file.packed(own, own.name)
    if packed is not None:
        message.raw_data = packed.tobytes()
        message.ClearField("external_data")
        message.ClearField("data_location")


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
