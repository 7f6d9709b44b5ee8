"""The optimized model as one message: nodes that stay as they are, and the exported parts between them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from converter.errors import UnsupportedModelError
from converter.onnx_file.domains import normalize_domain
from converter.onnx_file.messages import TensorProto, to_onnx
from converter.onnx_file.reader import OnnxFile
from converter.onnx_file.skeleton import EMBEDDED, tensors_in
from converter.onnx_file.types import element_type_of
from converter.optimization.naming import SMALL_BYTES, Naming, ends_of, sort_nodes
from converter.optimization.source import Source, names_in
from converter.to_onnx.graph import Graph, Value
from converter.to_onnx.messages import LeftOut, graph_message, value_info
from converter.to_onnx.names import Names, calls_of, read_by
from ir_runtime.graph import Tensor, element_types

_HEADER = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


Body = tuple[int, "int | None", "Assembly"]
"""A graph of a node that stays: the place of its attribute, that in the list of graphs, and what is written."""


class Assembly:
    """The model that is written: the source's nodes at ``kept``, with ``graphs`` instead of the parts.

    ``units`` are all nodes in their order, as :meth:`Source.units` returns them; ``graphs`` has the graph of each that
    is a part, by its first node, and ``bodies`` the graphs of nodes that stay. ``copies`` are tensors that are not
    written, by name, and the names of those that they equal. ``taken`` are the names of the whole file's tensors, to
    which new ones are added.
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
        self._kept = [unit[0] for unit in units if unit[0] not in graphs]
        self._reads = {place: {self._original(name) for name in source.reads[place]} for place in self._kept}
        names = {output.name for output in source.outputs}.union(*self._reads.values())
        names.update(self._original(value.name) for graph in graphs.values() for value in graph.inputs)
        self._constants = sorted(
            {source.producers[name] for name in names if name in source.producers} & source.constants
        )
        names -= source.captured
        self._initializers = [tensor for name, tensor in source.initializers.items() if name in names]
        self._sparse = [sparse_tensor for name, sparse_tensor in source.sparse.items() if name in names]
        self._name_parts(taken)

    def _original(self, name: str) -> str:
        while name in self._copies:
            name = self._copies[name]
        return name

    def _name_parts(self, taken: set[str]) -> None:
        """Give the tensors and nodes inside the parts names that nothing else has; equal weights one name."""
        source, nodes = self.source, Names()
        stay = {*source.captured, *(value.name for graph in self._graphs.values() for value in ends_of(graph))}
        for graph in self._graphs.values():
            for value in graph.inputs:
                value.name = self._original(value.name)
        for place in (*self._kept, *self._constants):
            stay |= {*self._reads.get(place, ()), *names_in(source.nodes[place])}
            for node in source.in_graph(place):
                nodes.unique(node.name)
        self._naming = naming = Naming(source, Names(taken), nodes, source.names() - stay)
        shared = {key: name for name, tensor in self._weights() if (key := _key(tensor)) is not None}
        for graph in self._graphs.values():
            own: dict[Any, tuple[Value, Tensor]] = {}
            equal: list[tuple[Value, Any]] = []
            for value, tensor in graph.constants:
                key = None if value in graph.outputs else _key(tensor)  # which another part reads by its name
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
        """Weights that stay under their names, those around a body included."""
        captured = [
            initializer for name, initializer in self.source.initializers.items() if name in self.source.captured
        ]
        for tensor in (*self._initializers, *captured):
            if _is_carried(tensor):
                yield tensor.name, self.source.file.tensor(tensor)

    def message(self, left_out: LeftOut | None = None) -> onnx.ModelProto:
        """The model's message; ``left_out`` takes large constants instead, where it is given."""
        source, original = self.source, self.source.original.as_onnx()
        model = onnx.ModelProto(opset_import=self._imported())
        for field in _HEADER:
            setattr(model, field, getattr(original, field))
        model.metadata_props.extend(original.metadata_props)
        model.training_info.extend(original.training_info)
        called = source.called(self._kept)
        model.functions.extend(
            function for function in original.functions if (normalize_domain(function.domain), function.name) in called
        )
        least = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
        if self.opset >= source.opsets.get("", 0):
            least = max(least, original.ir_version)
        model.ir_version = max(least, 8 if model.functions else 4)  # where weights are no inputs
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
        for place in self._kept:
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
        """Inputs and outputs as the file has them, or as the options changed them."""
        source, original = self.source, self.source.original
        values = {value.name: value for part in self._graphs.values() for value in part.outputs}
        for field in ("input", "output"):
            declared = {one.name: one for one in getattr(original.as_onnx().graph, field)}
            before = {one.name: one for one in getattr(original.proto.graph, field)}
            for value in getattr(source.file.proto.graph, field):
                if field == "input" and (value.name in source.initializers or value.name in source.captured):
                    continue  # a constant, or what a body reads from around it
                added = getattr(graph, field).add()
                if value is before[value.name]:
                    added.CopyFrom(declared[value.name])
                elif field == "output" and value.name in values:
                    added.CopyFrom(value_info(values[value.name], ()))
                else:
                    to_onnx(value, added)

    def _imported(self) -> list[onnx.OperatorSetIdProto]:
        source = self.source
        imports = {"": self.opset}
        for domain in source.domains(self._kept):
            if domain in source.opsets and domain:
                imports[domain] = source.opsets[domain]
        for graph in self._graphs.values():
            for call in calls_of(graph):
                imports.setdefault(call.domain, 1)
        return [helper.make_opsetid(domain, version) for domain, version in imports.items()]

    def _node(self, place: int) -> onnx.NodeProto:
        """A node as the file has it, with the weights that it holds."""
        node = onnx.NodeProto()
        node.CopyFrom(self.source.original.as_onnx().graph.node[self.source.places_in_file[place]])
        node.input[:] = [self._original(name) for name in self.source.nodes[place].input]
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
    """Leave out constants that nothing reads any more: the graphs of nodes that stay may have held their readers."""
    read = {value.name for value in graph.output}
    nodes = list(graph.node)
    while nodes:
        node = nodes.pop()
        read.update(node.input)
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                read.update(value.name for value in body.output)
                nodes += body.node
    unread = [place for place, tensor in enumerate(graph.initializer) if tensor.name not in read]
    for place in reversed(unread):
        del graph.initializer[place]
    if left_out is not None:
        left_out[:] = [pair for pair in left_out if pair[0].name in read]


def _fill(source: Source, own: TensorProto, message: onnx.TensorProto) -> None:
    """Put the raw data of a tensor, wherever it lies, into its message."""
    packed = source.file.packed(own, own.name)
    if packed is not None:
        message.raw_data = packed.tobytes()
        message.ClearField("external_data")
        message.ClearField("data_location")


def _is_carried(tensor: TensorProto) -> bool:
    """True if the IR has the tensor's element type, and it is no string."""
    try:
        return element_type_of(tensor.data_type) is not element_types.string
    except UnsupportedModelError:
        return False


def _key(tensor: Tensor) -> tuple[Any, ...] | None:
    """Equal for weights of one type and shape that hold the same data; None for small ones."""
    if tensor.element_type is element_types.string or tensor.byte_size <= SMALL_BYTES:
        return None
    place: tuple[Any, ...] | None = tensor.place()
    if place is None:
        digest = hashlib.blake2b()
        for chunk in tensor.chunks():
            digest.update(chunk)
        place = (digest.digest(),)
    return tensor.element_type.name, tensor.shape, *place
