"""An ONNX model that is edited: onnx's messages without large weights, and names in the scopes that they mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from converter.errors import ConversionError, InvalidModelError, UnsupportedModelError
from converter.from_onnx.input_forms import OptionError
from converter.from_onnx.options import Options, suggestions
from converter.onnx_file import messages
from converter.onnx_file.messages import to_onnx
from converter.onnx_file.reader import ModelSource, OnnxFile, open_model
from converter.onnx_file.skeleton import EMBEDDED, graphs_in, place_of, refer, tensors_in
from converter.onnx_file.types import element_type_of
from converter.optimization.source import Source
from converter.to_onnx.names import Names
from ir_runtime.graph import Tensor, element_types

_SMALL_BYTES = 1 << 10
"""Tensors of up to this size stay in the message."""

Reference = tuple[Any, int]
"""A place where a name is read: a list of names and the index in it; or a ``ValueInfoProto`` and -1."""


class OnnxModel:
    """A model whose large tensors refer to places in :attr:`tensors`."""

    def __init__(self, source: ModelSource) -> None:
        file = open_model(source)
        if not file.proto.has("graph"):
            raise InvalidModelError("the model has no graph")
        self.name = file.name
        self.proto = onnx.ModelProto()
        self.proto.CopyFrom(file.as_onnx())
        self.tensors: list[Tensor] = []
        self.notes: list[str] = []
        """What else to know of the edits."""
        self.has_external_data = False
        for tensor in tensors_in(self.proto):
            self._take(tensor, file)
        self.files = (*([] if file.path is None else [file.path]), *file.external_files)
        """What the weights are read from."""

    def _take(self, proto: onnx.TensorProto, file: OnnxFile) -> None:
        """Take the data of a large tensor out of its message."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        is_external = proto.data_location == onnx.TensorProto.EXTERNAL
        if entries.get("location") == EMBEDDED and not is_external:
            start, length = (entries.get(key, "") for key in ("offset", "length"))
            if not (start.isdigit() and length.isdigit()):
                raise InvalidModelError(f"tensor '{proto.name}' has external data at no place")
            packed = file.data[int(start) : int(start) + int(length)]
        elif is_external:
            external = file.packed(messages.from_onnx(proto, messages.TensorProto), proto.name or "(unnamed)")
            assert external is not None
            packed, self.has_external_data = external, True
        elif len(proto.raw_data) > _SMALL_BYTES:
            packed = np.frombuffer(proto.raw_data, np.uint8)
        else:
            return
        shape = tuple(proto.dims)
        try:
            tensor = Tensor.from_packed(packed, element_type_of(proto.data_type), shape)
        except UnsupportedModelError:  # an element type that the IR does not have: bytes
            tensor = Tensor.from_packed(packed, element_types.u8, packed.shape)
        if tensor.byte_size != len(packed):
            raise InvalidModelError(
                f"tensor '{proto.name}': {tensor.element_type}{list(shape)} needs {tensor.byte_size} bytes of data, "
                f"but there are {len(packed)}"
            )
        self.fill(proto, tensor)

    def fill(self, proto: onnx.TensorProto, tensor: Tensor) -> None:
        """Let the data of a message be that of a tensor."""
        refer(proto, len(self.tensors))
        if tensor.byte_size > _SMALL_BYTES:
            self.tensors.append(tensor)
        else:
            proto.ClearField("external_data")
            proto.raw_data = b"".join(tensor.chunks())

    def copied(self) -> onnx.ModelProto:
        """Return a copy of the message."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.proto)
        return copy

    def with_weights(self) -> onnx.ModelProto:
        """Return the message with the data of all tensors."""
        copy = self.copied()
        for proto in tensors_in(copy):
            place = place_of(proto)
            if place is not None:
                proto.ClearField("external_data")
                proto.raw_data = b"".join(self.tensors[place].chunks())
        return copy

    def check_target(self, path: Path) -> None:
        """Raise :class:`ConversionError` where writing to a path would replace a file that weights are read from."""
        folder = path.resolve().parent
        names = [file.resolve().name for file in self.files if file.resolve().parent == folder]
        if any(name == path.name or name.startswith(f"{path.name}.data") for name in names):
            raise ConversionError(f"'{path}' belongs to the model that is read: write to another file")

    @property
    def graph(self) -> onnx.GraphProto:
        """The main graph."""
        return self.proto.graph

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs that are no initializers."""
        weights = set(initializers_of(self.graph))
        return [value.name for value in self.graph.input if value.name not in weights]

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [value.name for value in self.graph.output]

    def inner_names(self) -> dict[str, str]:
        """The names of tensors of bodies alone, and where each is."""
        own = defined_in(self.graph)
        return {name: where for node in self.graph.node for name, where in _inner(node) if name not in own}

    def unique(self) -> Names:
        """Return a source of names that no tensor of the model has."""
        return Names({*defined_in(self.graph), *self.inner_names()})

    def check_tensor(self, name: str, option: str, among: Collection[str] = (), noun: str = "tensor") -> None:
        """Raise :class:`OptionError` where the main graph, or ``among``, has no such tensor, with near names."""
        names = among or defined_in(self.graph)
        if name in names:
            return
        inner = self.inner_names().get(name)
        if inner is not None:
            raise OptionError(f"{option}: the tensor '{name}' is inside {inner}, where only its nodes read it")
        raise OptionError(f"{option}: the model has no {noun} '{name}'{suggestions(name, names)}")

    def writers(self) -> dict[str, int]:
        """The places of nodes of the main graph by the names of their outputs."""
        return {name: place for place, node in enumerate(self.graph.node) for name in node.output if name}

    def readers(self) -> dict[str, list[onnx.NodeProto]]:
        """The nodes of the main graph that read a tensor, by its name; those whose bodies do are among them."""
        readers: dict[str, list[onnx.NodeProto]] = {}
        for node in self.graph.node:
            for name in reads_of(node):
                readers.setdefault(name, []).append(node)
        return readers

    def dependents(self, names: Iterable[str]) -> set[str]:
        """Return the tensors of the main graph that follow from these, themselves included."""
        readers, reached, pending = self.readers(), set[str](), list(names)
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending += [output for node in readers.get(name, ()) for output in node.output if output]
        return reached

    def needed(self, outputs: Iterable[str], starts: Collection[str] = ()) -> tuple[list[onnx.NodeProto], set[str]]:
        """Return the nodes that compute these tensors, in their order, and the names that they read.

        What lies before tensors that are ``starts`` is not needed.
        """
        writers, read, pending = self.writers(), set[str](), list(outputs)
        places = set[int]()
        while pending:
            name = pending.pop()
            if name in read:
                continue
            read.add(name)
            place = writers.get(name) if name not in starts else None
            if place is not None and place not in places:
                places.add(place)
                pending += reads_of(self.graph.node[place])
        return [node for place, node in enumerate(self.graph.node) if place in places], read

    def remove_unread(self, inputs: Iterable[onnx.ValueInfoProto] | None = None) -> None:
        """Leave out nodes, weights, inputs and functions that no output needs; ``inputs`` replace the inputs."""
        graph = self.graph
        before = set().union(*map(reads_of, graph.node), self.outputs)
        starts = None if inputs is None else list(inputs)
        ends = set() if starts is None else {value.name for value in starts}
        nodes, read = self.needed(self.outputs, ends)
        kept = [
            value
            for value in graph.input
            if (value.name in read or value.name not in before) and value.name not in ends and starts is None
        ]
        gone = [name for name in self.inputs if name not in ends and all(value.name != name for value in kept)]
        if gone and starts is None:
            self.notes.append(f"inputs that nothing reads any more are gone: {', '.join(gone)}")
        _replace(graph.input, kept if starts is None else starts)
        _replace(graph.node, nodes)
        _replace(graph.initializer, [entry for entry in graph.initializer if entry.name in read - ends])
        _replace(
            graph.sparse_initializer, [entry for entry in graph.sparse_initializer if entry.values.name in read - ends]
        )
        left = defined_in(graph)
        ends = {value.name for value in (*graph.input, *graph.output)}
        _replace(graph.value_info, [entry for entry in graph.value_info if entry.name in left - ends])
        _replace(graph.quantization_annotation, [e for e in graph.quantization_annotation if e.tensor_name in left])
        called = _called(graph.node, {(entry.domain, entry.name): entry for entry in self.proto.functions})
        _replace(
            self.proto.functions, [entry for entry in self.proto.functions if (entry.domain, entry.name) in called]
        )

    def types(self, names: Sequence[str], *, is_needed: bool = True) -> dict[str, onnx.ValueInfoProto]:
        """Return the types of tensors: as the file declares them, as onnx infers them, and as the IR has them.

        Raises :class:`UnsupportedModelError` for a tensor whose type or rank none of them knows, if it ``is_needed``.
        """
        graph, types = self.graph, dict[str, onnx.ValueInfoProto]()
        for tensor in graph.initializer:
            types[tensor.name] = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        declared = [*self.inferred().value_info, *graph.value_info, *graph.input, *graph.output]
        types.update((value.name, value) for value in declared if not _lacks(value))
        if any(_lacks(types.get(name), shape=True) for name in names):
            source = Source(OnnxFile.of_parts(self.proto, {}), Options())
            for name, value in source.types.items():
                types.setdefault(name, to_onnx(value, onnx.ValueInfoProto()))
            for name in [name for name in names if _lacks(types.get(name), shape=True)]:
                self._type_by_conversion(name, types)
        for name in names if is_needed else ():
            if _lacks(types.get(name), shape=True):
                unknown = "type" if _lacks(types.get(name)) else "rank"
                raise UnsupportedModelError(f"the {unknown} of the tensor '{name}' is not known: choose another tensor")
        return types

    def _type_by_conversion(self, name: str, types: dict[str, onnx.ValueInfoProto]) -> None:
        """Add the type that the IR has for a tensor, as of operators that onnx does not know."""
        from converter.conversion import convert
        from converter.optimization.source import types_in_ir
        from converter.options import ConversionOptions

        options = ConversionOptions(output=[name], target="any", fuse=False)
        try:
            model = convert(self.as_source(), options).model
        except ConversionError:
            return
        value = types_in_ir(model).get(name)
        if value is not None:
            types[name] = to_onnx(value, onnx.ValueInfoProto())

    def as_source(self) -> OnnxFile:
        """Return the model for a conversion: its weights are views."""
        model, tensors = self.copied(), dict[str, Tensor]()
        weights = set(initializers_of(model.graph))
        for proto in tensors_in(model):
            place = place_of(proto)
            if place is not None:
                proto.data_location = onnx.TensorProto.EXTERNAL
                proto.name = proto.name if proto.name in weights else f"\0{place}"
                tensors[proto.name] = self.tensors[place]
        return OnnxFile.of_parts(model, tensors)

    def inferred(self, *, strict: bool = False) -> onnx.GraphProto:
        """Return the graph with the types that onnx infers; raises :class:`InvalidModelError` where ``strict``."""
        try:
            return onnx.shape_inference.infer_shapes(self.proto, strict_mode=strict, data_prop=True).graph
        except Exception as error:  # onnx raises several types
            if strict:
                raise InvalidModelError(f"onnx cannot infer the model's shapes: {error}") from error
            return self.graph

    def infer_again(self, changed: Iterable[str]) -> None:
        """Infer the types of outputs that follow from changed tensors anew; declared inner types of these are gone."""
        affected = self.dependents(changed)
        graph = self.graph
        _replace(graph.value_info, [entry for entry in graph.value_info if entry.name not in affected])
        for node in graph.node:
            if affected & reads_of(node):
                _forget_types(node)
        before = {value.name: onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in graph.output}
        stale = [value for value in graph.output if value.name in affected - set(self.inputs)]
        for value in stale:
            value.ClearField("type")
        if not stale:
            return
        inferred = {value.name: value for value in self.inferred().output}
        missing = [value.name for value in stale if _lacks(inferred.get(value.name), shape=True)]
        for name in missing:
            self._type_by_conversion(name, inferred)
        for value in stale:
            better = inferred.get(value.name)
            value.type.CopyFrom(before[value.name].type if better is None or _lacks(better) else better.type)
            if better is not None and _lacks(better, shape=True):
                value.type.CopyFrom(before[value.name].type)
                for dim in value.type.tensor_type.shape.dim:
                    dim.Clear()

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename tensors of the main graph, where its bodies read them, too."""
        graph = self.graph
        rename_declared(graph, names)
        for annotation in graph.quantization_annotation:
            annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
            for entry in annotation.quant_parameter_tensor_names:
                entry.value = names.get(entry.value, entry.value)
        for node in graph.node:
            rename_reads(node, names)
            node.output[:] = [names.get(name, name) for name in node.output]


def rename_reads(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Let a node, and its bodies, read other tensors."""
    for held, place in list(references(node)):
        if place < 0:
            held.name = names.get(held.name, held.name)
        else:
            held[place] = names.get(held[place], held[place])


def initializers_of(graph: onnx.GraphProto) -> list[str]:
    """Return the names of a graph's initializers."""
    return [*(entry.name for entry in graph.initializer), *(entry.values.name for entry in graph.sparse_initializer)]


def rename_declared(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename the inputs, outputs, constants and declared values of a graph."""
    sparse_values = (sparse.values for sparse in graph.sparse_initializer)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer, *sparse_values):
        value.name = names.get(value.name, value.name)


def defined_in(graph: onnx.GraphProto) -> set[str]:
    """Return the names of a graph's own tensors, without those of its bodies."""
    names = {*(value.name for value in graph.input), *initializers_of(graph)}
    return names.union(*(node.output for node in graph.node)) - {""}


def references(node: onnx.NodeProto, hidden: Collection[str] = ()) -> Iterator[Reference]:
    """Yield the places where a node, or a body of it, reads a tensor of the graph that the node is in."""
    for place, name in enumerate(node.input):
        if name and name not in hidden:
            yield node.input, place
    for body in graphs_in(node):
        own = defined_in(body).union(hidden)
        for inner in body.node:
            yield from references(inner, own)
        for value in body.output:
            if value.name not in own:
                yield value, -1


def reads_of(node: onnx.NodeProto) -> set[str]:
    """Return the names of the tensors that a node, or a body of it, reads."""
    return {held.name if place < 0 else held[place] for held, place in references(node)}


def _inner(node: onnx.NodeProto) -> Iterator[tuple[str, str]]:
    """Yield the tensors of the bodies of a node, and where they are."""
    label = node.name or next(iter(node.output), "")
    for attribute in node.attribute:
        for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            for name in defined_in(body):
                yield name, f"the {attribute.name} of node '{label}' ({node.op_type})"
            for inner in body.node:
                yield from _inner(inner)


def _forget_types(node: onnx.NodeProto) -> None:
    """Remove the shapes that the bodies of a node declare, which may follow from those around them.

    Scalars stay scalars: they have no dimensions to change, and onnxruntime loads no Loop without the shapes of the
    iteration number and of the condition.
    """
    for body in graphs_in(node):
        body.ClearField("value_info")
        for value in (*body.input, *body.output):
            if value.type.HasField("tensor_type") and value.type.tensor_type.shape.dim:
                value.type.tensor_type.ClearField("shape")
        for inner in body.node:
            _forget_types(inner)


def _called(
    nodes: Iterable[onnx.NodeProto], functions: Mapping[tuple[str, str], onnx.FunctionProto]
) -> set[tuple[str, str]]:
    """Return the functions that nodes call, and those that these call."""
    called, pending = set[tuple[str, str]](), list(nodes)
    while pending:
        node = pending.pop()
        key = (node.domain, node.op_type)
        pending += [inner for body in graphs_in(node) for inner in body.node]
        if key in functions and key not in called:
            called.add(key)
            pending += functions[key].node
    return called


def _lacks(value: onnx.ValueInfoProto | None, *, shape: bool = False) -> bool:
    """True if the element type, or with ``shape`` the shape, of a value is not known."""
    if value is None or not value.type.WhichOneof("value"):
        return True
    if not value.type.HasField("tensor_type"):
        return False
    tensor = value.type.tensor_type
    return not tensor.elem_type or (shape and not tensor.HasField("shape"))


def _replace(field: Any, values: Iterable[Any]) -> None:
    """Let a repeated field have these messages, which may be among its own."""
    values = list(values)
    if len(values) == len(field) and all(entry is other for entry, other in zip(values, field)):
        return
    copies = [type(value).FromString(value.SerializeToString()) for value in values]
    del field[:]
    field.extend(copies)
