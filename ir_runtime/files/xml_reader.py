"""Reads IR v10 and v11 from disk or memory. Files are not trusted.

Ids, edges, types, dimensions and the offsets of constants are checked before anything is mapped or
allocated; every error names the layer and the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from lxml import etree

from .. import operations as _operations
from ..boundary import boundary, shorten
from ..errors import FormatError, ModelError, UnsupportedError
from ..graph import (
    Array,
    InputMap,
    Model,
    Node,
    Output,
    OutputMap,
    PartialShape,
    RuntimeInfo,
    SubGraph,
    Tensor,
    make_node,
)
from ..graph.element_types import from_precision
from ..graph.mapped_file import MappedFile, bytes_of
from ..graph.operation import OUTSIDE_OPSETS, Operation, find_operation
from ..graph.tensor import MOST_DIMENSIONS
from .file_kinds import IR, XML, kind_of_bytes, kind_of_folder
from .tensor_names import split_names

assert _operations  # importing it registers the operations

_MAX_NESTING = 64
_MAX_ELEMENTS = 2**62
_NET_AT_ONCE = re.compile(rb'(<\?xml version="1\.0"\?>\s*)?<net\s')
_INTEGER = re.compile(r"-?\d{1,19}")
_DIMENSION = re.compile(r"-1|\d{1,19}")


@boundary(error=FormatError)
def read_model(
    xml: str | os.PathLike[str] | bytes | IO[bytes],
    weights: str | os.PathLike[str] | bytes | IO[bytes] | Array | None = None,
) -> Model:
    """Read an IR into a :class:`Model`.

    ``xml`` is a path, the document's bytes or a binary file object; ``weights`` a path, bytes, a
    file object or a uint8 array, and defaults to the XML's path with the suffix ``.bin``. Constants
    stay views of the mapped file.

    Raises :class:`FormatError` for a file that is not a valid IR, :class:`UnsupportedError` for an
    operation this package does not have, :class:`ModelError` otherwise; never anything else for a
    file that can be opened.
    """
    document, path = _contents(xml)
    if weights is None and path is not None and path.with_suffix(".bin").exists():
        weights = path.with_suffix(".bin")
    try:
        root = _parse(document)
    except FormatError as error:
        file_kind = kind_of_bytes(document, path)
        if file_kind not in (None, IR, XML):
            raise FormatError(f"{path or 'the document'} is not OpenVINO IR, but {file_kind}") from error
        raise
    if _tag(root) != "net":
        raise FormatError(f"the root element must be <net>, but is <{_tag(root)}>")
    version = _integer(root, "version", "the net")
    if version not in (10, 11):
        raise FormatError(f"IR version 10 or 11 is required, but the file has {version}")
    reader = _Reader(_Weights(weights), version)
    model = reader.graph(root, 0)
    model.name = root.get("name", "")
    model.version = version
    info = _child(root, "rt_info")
    model.runtime_info = () if info is None else tuple(_runtime_info(child) for child in _elements(info))
    return model


@boundary("the XML", reads=FormatError)
def _contents(source: str | os.PathLike[str] | bytes | IO[bytes]) -> tuple[bytes, Path | None]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), None
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            return path.read_bytes(), path
        except OSError as error:
            file_kind = kind_of_folder(path)
            if file_kind is not None:
                raise FormatError(f"{path} is not OpenVINO IR, but {file_kind}") from error
            raise FormatError(f"{shorten(str(path))} cannot be read: {error.strerror or error}") from error
    if not callable(getattr(source, "read", None)):
        raise FormatError(
            f"the XML must be a path, bytes or a binary file object, but is an object of type {type(source).__name__}"
        )
    document = source.read()
    if not isinstance(document, (bytes, bytearray)):
        raise FormatError("the XML's file object must be opened in binary mode")
    return bytes(document), None


class _NoDoctype:
    """A parser target that stops at the first element and refuses a document type."""

    class Seen(Exception):
        pass

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise FormatError("the document has a DOCTYPE, which an IR never needs; it is refused")

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        raise self.Seen

    def end(self, tag: str) -> None:
        pass

    def close(self) -> None:
        pass


def _parse(document: bytes) -> etree._Element:
    options: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False}
    try:
        # A DOCTYPE precedes every element, so that the text up to the first element is enough.
        if not _NET_AT_ONCE.match(document):
            etree.fromstring(document, etree.XMLParser(target=cast(Any, _NoDoctype()), **options))
    except _NoDoctype.Seen:
        pass
    except (etree.XMLSyntaxError, ValueError) as error:
        raise FormatError(f"the file is not well-formed XML: {error}") from error
    try:
        return etree.fromstring(document, etree.XMLParser(remove_comments=True, remove_pis=True, **options))
    except (etree.XMLSyntaxError, ValueError) as error:
        raise FormatError(f"the file is not well-formed XML: {error}") from error


def _tag(element: etree._Element) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _elements(parent: etree._Element) -> Iterator[etree._Element]:
    return parent.iterchildren("{*}*")


def _child(parent: etree._Element, tag: str) -> etree._Element | None:
    return next(parent.iterchildren(f"{{*}}{tag}"), None)


def _children(parent: etree._Element | None, tag: str) -> Iterable[etree._Element]:
    return () if parent is None else parent.iterchildren(f"{{*}}{tag}")


def _required(element: etree._Element, name: str, owner: object) -> str:
    value = element.get(name)
    if value is None:
        raise FormatError(f"{owner} (line {element.sourceline}) has no attribute '{name}'")
    return value


def _integer(element: etree._Element, name: str, owner: object, low: int = 0) -> int:
    value = _required(element, name, owner)
    if not _INTEGER.fullmatch(value) or not low <= int(value) < 2**63:
        raise FormatError(
            f"{owner} (line {element.sourceline}): '{name}' must be a whole number from {low} on, but is {value[:80]!r}"
        )
    return int(value)


def _runtime_info(element: etree._Element) -> RuntimeInfo:
    attributes = tuple((str(key), str(value)) for key, value in element.attrib.items())
    return RuntimeInfo(_tag(element), attributes, tuple(_runtime_info(child) for child in _elements(element)))


class _Weights:
    """The bytes of the ``.bin`` file, mapped when the first constant needs them."""

    def __init__(self, source: str | os.PathLike[str] | bytes | IO[bytes] | Array | None) -> None:
        self._source = source
        self._data: Array | None = None

    def data(self) -> Array | None:
        if self._data is None and self._source is not None:
            self._data = _bytes_of(self._source)
        return self._data


def _bytes_of(source: str | os.PathLike[str] | bytes | IO[bytes] | Array) -> Array:
    if isinstance(source, np.ndarray):
        return np.ascontiguousarray(source).reshape(-1).view(np.uint8)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return np.frombuffer(source, np.uint8)
    if isinstance(source, (str, os.PathLike)):
        try:
            mapped = MappedFile.open(source)
        except OSError as error:
            raise FormatError(f"the weights {source} cannot be read: {error.strerror or error}") from error
        return bytes_of(mapped)
    if not callable(getattr(source, "read", None)):
        raise FormatError(
            "the weights must be a path, bytes, an array or a file object, but are an object of type "
            f"{type(source).__name__}"
        )
    return np.frombuffer(source.read(), np.uint8)


@dataclass
class _Layer:
    """A ``<layer>`` before its operation is made."""

    element: etree._Element
    number: int
    name: str
    type: str
    version: str
    input_ports: list[int]
    output_ports: list[int]
    sources: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"layer '{self.name}' ({self.type}, id {self.number}, line {self.element.sourceline})"


class _Reader:
    def __init__(self, weights: _Weights, version: int) -> None:
        self._weights = weights
        self._version = version

    def graph(self, parent: etree._Element, depth: int) -> Model:
        """The graph below ``<net>`` or a body."""
        return self._graph_and_ids(parent, depth)[0]

    def _graph_and_ids(self, parent: etree._Element, depth: int) -> tuple[Model, dict[int, Node]]:
        if depth > _MAX_NESTING:
            raise FormatError(f"bodies are nested more than {_MAX_NESTING} deep")
        holder = _child(parent, "layers")
        if holder is None:
            raise FormatError(f"<{_tag(parent)}> (line {parent.sourceline}) has no <layers>")
        layers: dict[int, _Layer] = {}
        for element in _children(holder, "layer"):
            layer = _layer(element)
            if layer.number in layers:
                raise FormatError(f"{layer}: its id is also that of {layers[layer.number]}")
            layers[layer.number] = layer
        for edge in _children(_child(parent, "edges"), "edge"):
            _connect(edge, layers)
        nodes: dict[int, Node] = {}
        for number in _order(layers):
            nodes[number] = self._node(layers[number], nodes, depth)
        return _model(layers, nodes), nodes

    def _node(self, layer: _Layer, nodes: Mapping[int, Node], depth: int) -> Node:
        inputs: list[Output] = []
        for index, port in enumerate(layer.input_ports):
            if port not in layer.sources:
                raise FormatError(f"{layer}: no edge leads to input {index} (port {port})")
            number, output = layer.sources[port]
            source = nodes[number]
            if output >= len(source.outputs):
                raise FormatError(f"{layer}: layer '{source.name}' has no output {output}")
            inputs.append(source.outputs[output])
        op = self._operation(layer, inputs, depth)
        try:
            node = make_node(op, inputs, layer.name)
        except ModelError as error:
            raise type(error)(f"{layer}: {error}") from error
        node.output_names = split_names(layer.element.get("output_names", ""))
        info = _child(layer.element, "rt_info")
        if info is not None and self._version >= 11:
            node.runtime_info = tuple(_runtime_info(child) for child in _elements(info))
        ports = list(_children(_child(layer.element, "output"), "port"))
        if len(ports) > len(node.outputs) and op.role != "result":
            raise FormatError(f"{layer}: {len(ports)} outputs are listed, but it has {len(node.outputs)}")
        for element, node_output in zip(ports, node.outputs):
            _check_port(element, node_output, layer)
        return node

    def _operation(self, layer: _Layer, inputs: list[Output], depth: int) -> Operation:
        matched = re.fullmatch(r"opset(\d{1,4})|extension", layer.version)
        if matched is None:
            raise UnsupportedError(f"{layer}: the opset '{layer.version}' is not known")
        try:
            cls = find_operation(layer.type, int(matched[1] or OUTSIDE_OPSETS))
            if cls.role == "constant":
                return cls(value=self._constant(layer))
            values = _attributes(cls, layer)
            if cls.subgraph_names:
                values["bodies"] = self._subgraphs(cls, layer, len(inputs), depth)
            return cls(**values)
        except FormatError:
            raise
        except ModelError as error:
            raise type(error)(f"{layer}: {error}") from error

    def _constant(self, layer: _Layer) -> Tensor:
        data = _child(layer.element, "data")
        if data is None:
            raise FormatError(f"{layer} has no <data>")
        if data.get("value") is not None:
            raise FormatError(f"{layer}: a constant's data stands in the .bin file, not in 'value'")
        element_type = from_precision(_required(data, "element_type", layer))
        shape = _static_shape(_required(data, "shape", layer), layer)
        offset = _integer(data, "offset", layer)
        size = _integer(data, "size", layer)
        if element_type.is_dynamic:
            # OpenVINO's importer writes such constants for inputs that are left out, of operations outside all opsets.
            if shape != (0,):
                raise FormatError(f"{layer}: a constant of the dynamic type must have shape [0], not {list(shape)}")
            return Tensor.from_array(np.empty(shape, np.object_), element_type)
        if len(shape) > MOST_DIMENSIONS:
            raise FormatError(f"{layer}: {len(shape)} dimensions are too many; {MOST_DIMENSIONS} are possible")
        count = 1
        for dimension in shape:
            count *= dimension
        if count > _MAX_ELEMENTS:
            raise FormatError(f"{layer}: the shape {list(shape)} has more elements than memory can hold")
        needed = element_type.byte_size(count) if element_type.bits else 4
        if size < needed and count:
            raise FormatError(f"{layer}: {element_type}{list(shape)} needs {needed} bytes, but size is {size}")
        if count == 0 and element_type.bits:
            return Tensor.from_array(np.empty(shape, element_type.dtype), element_type)
        weights = self._weights.data()
        if weights is None:
            raise FormatError(f"{layer} needs weights, but there is no .bin file")
        if offset + size > len(weights):
            raise FormatError(f"{layer}: its data ends at byte {offset + size}, but the weights have {len(weights)}")
        packed = weights[offset : offset + (needed if element_type.bits else size)]
        tensor = Tensor.from_packed(packed, element_type, shape)
        if not element_type.bits:
            tensor.array()  # strings are checked now and not at the first use
        return tensor

    def _subgraphs(self, cls: type[Operation], layer: _Layer, input_count: int, depth: int) -> tuple[SubGraph, ...]:
        subgraphs = []
        for body_name, map_name in cls.subgraph_names:
            body = _child(layer.element, body_name)
            ports = _child(layer.element, map_name)
            if body is None or ports is None:
                raise FormatError(f"{layer} needs <{body_name}> and <{map_name}>")
            model, nodes = self._graph_and_ids(body, depth + 1)
            subgraphs.append(_subgraph(layer, model, nodes, ports, input_count))
        return tuple(subgraphs)


def _layer(element: etree._Element) -> _Layer:
    owner = "a layer"
    layer = _Layer(
        element,
        _integer(element, "id", owner),
        _required(element, "name", owner),
        _required(element, "type", owner),
        _required(element, "version", owner),
        [],
        [],
    )
    layer.input_ports = _port_ids(layer, "input")
    layer.output_ports = _port_ids(layer, "output")
    return layer


def _port_ids(layer: _Layer, direction: str) -> list[int]:
    ids = [_integer(port, "id", layer) for port in _children(_child(layer.element, direction), "port")]
    if len(set(ids)) != len(ids):
        raise FormatError(f"{layer}: two {direction} ports have the same id")
    return ids


def _connect(edge: etree._Element, layers: Mapping[int, _Layer]) -> None:
    owner = "an edge"
    ends = []
    for side in ("from", "to"):
        number = _integer(edge, f"{side}-layer", owner)
        if number not in layers:
            raise FormatError(f"an edge (line {edge.sourceline}) names layer {number}, which does not exist")
        ends.append((layers[number], _integer(edge, f"{side}-port", owner)))
    (source, from_port), (target, to_port) = ends
    if from_port not in source.output_ports:
        raise FormatError(f"an edge (line {edge.sourceline}) leaves {source} at port {from_port}, which it has not")
    if to_port not in target.input_ports:
        raise FormatError(f"an edge (line {edge.sourceline}) enters {target} at port {to_port}, which it has not")
    if to_port in target.sources:
        raise FormatError(f"an edge (line {edge.sourceline}) is the second one into port {to_port} of {target}")
    target.sources[to_port] = (source.number, source.output_ports.index(from_port))


def _order(layers: Mapping[int, _Layer]) -> list[int]:
    """Ids in an order in which every layer follows its sources; the file's order wherever it allows."""
    waiting = {number: {source for source, _ in layer.sources.values()} for number, layer in layers.items()}
    readers: dict[int, list[int]] = {}
    for number, sources in waiting.items():
        for source in sources:
            readers.setdefault(source, []).append(number)
    ready = [number for number in layers if not waiting[number]]
    order: list[int] = []
    for number in ready:  # grows during the loop
        order.append(number)
        for reader in readers.get(number, ()):
            waiting[reader].discard(number)
            if not waiting[reader]:
                ready.append(reader)
    if len(order) < len(layers):
        stuck = next(layer for number, layer in layers.items() if waiting[number])
        raise FormatError(f"{stuck} is part of a cycle, or reads from one")
    return order


def _model(layers: Mapping[int, _Layer], nodes: Mapping[int, Node]) -> Model:
    in_file_order = [nodes[number] for number in layers]

    def having(role: str) -> list[Node]:
        return [node for node in in_file_order if node.op.role == role]

    return Model(parameters=having("parameter"), results=having("result"), sinks=having("sink"))


def _static_shape(text: str, layer: _Layer) -> tuple[int, ...]:
    dimensions = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(re.fullmatch(r"\d{1,19}", part) for part in dimensions):
        raise FormatError(f"{layer}: the shape of a constant must be known numbers, but is {text[:80]!r}")
    return tuple(int(part) for part in dimensions)


def _attributes(cls: type[Operation], layer: _Layer) -> dict[str, Any]:
    data = _child(layer.element, "data")
    texts = {} if data is None else {str(key): str(value) for key, value in data.attrib.items()}
    values: dict[str, Any] = {}
    for entry in cls.xml_attributes():
        if entry.xml in texts:
            text = texts.pop(entry.xml)
            try:
                values[entry.name] = entry.parse(text)
            except ValueError as error:
                raise FormatError(f"{layer}: attribute '{entry.xml}': {error}") from error
        elif entry.is_required:
            raise FormatError(f"{layer} has no attribute '{entry.xml}'")
    if texts:
        raise FormatError(f"{layer} has no attribute called '{next(iter(texts))}'")
    return values


def _check_port(port: etree._Element, output: Output, layer: _Layer) -> None:
    output.names = split_names(port.get("names", ""))
    info = _child(port, "rt_info")
    if info is not None:
        output.runtime_info = tuple(_runtime_info(child) for child in _elements(info))
    element_type = from_precision(_required(port, "precision", layer))
    if element_type is not output.element_type and not element_type.is_dynamic and not output.element_type.is_dynamic:
        raise FormatError(f"{layer}: output {output.index} is declared {element_type}, but is {output.element_type}")
    dimensions = []
    for dim in _children(port, "dim"):
        text = (dim.text or "").strip()
        if not _DIMENSION.fullmatch(text):
            raise FormatError(f"{layer} (line {dim.sourceline}): {text[:80]!r} is not a dimension")
        dimensions.append(int(text))
    declared = PartialShape(dimensions)
    # A scalar and an unknown rank are both written without <dim>. For an operation with bodies OpenVINO sometimes
    # writes the shape of one iteration.
    if dimensions and not output.node.op.subgraph_names and declared.merge(output.shape) is None:
        raise FormatError(f"{layer}: output {output.index} is declared {declared}, but its shape is {output.shape}")


def _subgraph(
    layer: _Layer, body: Model, nodes: Mapping[int, Node], ports: etree._Element, input_count: int
) -> SubGraph:
    parameters = {node: index for index, node in enumerate(body.parameters)}
    results = {node: index for index, node in enumerate(body.results)}

    def internal(element: etree._Element, name: str, among: Mapping[Node, int], role: str) -> int:
        number = _integer(element, name, layer)
        node = nodes.get(number)
        if node is None or node not in among:
            raise FormatError(f"{layer} (line {element.sourceline}): {number} is not a {role} of its body")
        return among[node]

    def slicing(element: etree._Element) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in ("axis", "start", "end", "stride", "part_size"):
            if element.get(name) is not None:
                values[name] = _integer(element, name, layer, low=-(2**62))
        return values

    inputs = []
    for element in _children(ports, "input"):
        external = _integer(element, "external_port_id", layer, low=-1)
        if external >= input_count:
            raise FormatError(f"{layer}: a port map names input {external} of {input_count}")
        inner = internal(element, "internal_layer_id", parameters, "Parameter")
        inputs.append(InputMap(None if external < 0 else external, inner, **slicing(element)))
    entries = list(_children(ports, "output"))
    numbers = [_integer(element, "external_port_id", layer, low=-1) for element in entries]
    ranks = {number: rank for rank, number in enumerate(sorted({n for n in numbers if n >= 0}))}
    outputs = []
    for element, number in zip(entries, numbers):
        inner = internal(element, "internal_layer_id", results, "Result")
        outputs.append(OutputMap(ranks.get(number), inner, **slicing(element)))
    back = []
    for edge in _children(_child(layer.element, "back_edges"), "edge"):
        back.append(
            (internal(edge, "from-layer", results, "Result"), internal(edge, "to-layer", parameters, "Parameter"))
        )
    return SubGraph(body, tuple(inputs), tuple(outputs), tuple(back))
