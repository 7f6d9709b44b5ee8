"""Writes a model as IR v11: the ``.xml`` and, through :mod:`weights`, the ``.bin``."""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from ..boundary import boundary
from ..errors import ModelError
from ..graph import Model, Node, Output, RuntimeInfo, SubGraph, Tensor
from ..graph.model import PortMap
from ..graph.operation import OUTSIDE_OPSETS
from .tensor_names import join_names
from .weights import Progress, WeightsLayout
from .whole_files import check_target, write_pair

# The forbidden characters are listed and not the allowed ones: this pattern compiles twenty times as fast.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


_XML_NAME = re.compile(r"[^\W\d][\w.-]*")
_MAX_LINES = 1 << 12
"""More lines than this are joined to one part of the text."""
_PLAIN = re.compile(r"[A-Za-z0-9_/.:;,+ ()\[\]-]*")
_ENTITIES = {
    ord(character): f"&{entity};"
    for character, entity in {
        "&": "amp", "<": "lt", ">": "gt", '"': "quot", "\t": "#9", "\n": "#10", "\r": "#13"
    }.items()
}  # fmt: skip


@boundary(error=ModelError)
def write_model(
    model: Model,
    xml: str | os.PathLike[str] | IO[bytes],
    weights: str | os.PathLike[str] | IO[bytes] | None = None,
    progress: Progress | None = None,
) -> None:
    """Write ``model`` as IR v11.

    ``xml`` is a path or a binary file object. ``weights`` defaults to the path with ``.bin`` in
    place of the suffix, and must be given for a file object. Files appear complete or not at all.
    ``progress`` is called with the share of the weights that is written, between 0 and 1.
    Raises :class:`ModelError` for a model the format cannot hold and :class:`FileError`, which is an
    :class:`OSError`, too, where the disk refuses.
    """
    if not isinstance(model, Model):
        raise ModelError(f"a Model is required, but got an object of type {type(model).__name__}")
    layout = WeightsLayout()
    if not isinstance(xml, (str, os.PathLike)):
        if not callable(getattr(xml, "write", None)):
            raise ModelError(f"the XML needs a path or a binary file object, but got a {type(xml).__name__}")
        if weights is None or isinstance(weights, (str, os.PathLike)) or not hasattr(weights, "write"):
            raise ModelError("writing the XML to a file object needs a file object for the weights, too")
        parts = _document(model, layout)
        layout.write(weights, progress)
        for part in parts:
            xml.write(part)
        return
    xml_path = Path(xml)
    if not xml_path.name:
        raise ModelError(f"the XML needs the name of a file, but got {os.fspath(xml)!r}")
    if weights is not None and not isinstance(weights, (str, os.PathLike)):
        raise ModelError("writing the XML to a path needs a path for the weights, too")
    bin_path = xml_path.with_suffix(".bin") if weights is None else Path(weights)
    if bin_path == xml_path:
        raise ModelError(f"the XML cannot be called {xml_path.name}: that is the weights' name")
    check_destination(model, xml_path, bin_path)
    for tensor in _constants(model):
        layout.place(tensor)
    write_pair(xml_path, lambda: _document(model, layout), bin_path, lambda file: layout.write(file, progress))


def check_destination(model: Model, xml: Path, weights: Path | None = None) -> None:
    """Raises :class:`ModelError` where ``model`` may not be written to ``xml`` and ``weights`` (``.bin`` beside it).

    The weights may not replace a file that ``model`` was made from, such as the external data of an ONNX model. An IR
    may be written over itself, because its XML is replaced, too.
    """
    if xml.suffix.lower() != ".xml":
        raise ModelError(f"the IR's path must end in .xml, but is {os.fspath(xml)!r}")
    weights = xml.with_suffix(".bin") if weights is None else weights
    check_target(xml)
    check_target(weights)
    if not weights.exists():
        return
    from .file_kinds import IR, kind_of_path  # imported here: most files are new

    if kind_of_path(xml) is IR:
        return
    for path in {tensor.file.path for tensor in _constants(model) if tensor.file is not None}:
        if os.path.exists(path) and os.path.samefile(path, weights):
            raise ModelError(f"the weights would overwrite {weights}, which the model was made from: use another name")


@boundary(error=ModelError)
def model_to_bytes(model: Model) -> tuple[bytes, bytes]:
    """The contents of the ``.xml`` and of the ``.bin``."""
    xml, weights = io.BytesIO(), io.BytesIO()
    write_model(model, xml, weights)
    return xml.getvalue(), weights.getvalue()


def _constants(model: Model) -> Iterator[Tensor]:
    """The data of every constant, in the order of the layers in the document."""
    for node in model.nodes():
        if node.op.data is not None:
            yield node.op.data
        for subgraph in node.op.subgraphs:
            yield from _constants(subgraph.body)


def _document(model: Model, layout: WeightsLayout) -> list[bytes]:
    """The text, in parts."""
    document = _Document()
    document.parts.append(b'<?xml version="1.0"?>\n')
    document.begin("net", {"name": _text(model.name, "the model"), "version": "11"})
    _add_graph(document, model, layout)
    _add_infos(document, model.runtime_info, always=True)
    document.end("net")
    document.flush()
    return document.parts


class _Document:
    """Elements as lines, each indented by its depth. Building a tree first takes several times as long.

    Lines are joined to ``parts`` from time to time: as single strings they take four times the memory.
    """

    def __init__(self, depth: int = 0) -> None:
        self.parts: list[bytes] = []
        self.lines: list[str] = []
        self._indent = "\t" * depth

    @property
    def depth(self) -> int:
        return len(self._indent)

    def begin(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.lines.append(f"{self._indent}<{tag}{_attributes(attributes) if attributes else ''}>")
        self._indent += "\t"

    def deeper(self, levels: int) -> None:
        """Indent what follows by further ``levels``, whose tags were written as text."""
        self._indent += "\t" * levels

    def end(self, tag: str) -> None:
        self._indent = self._indent[:-1]
        self.lines.append(f"{self._indent}</{tag}>")

    def leaf(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.lines.append(f"{self._indent}<{tag}{_attributes(attributes)}/>")

    def raw(self, lines: Iterable[str]) -> None:
        """Add elements without children, given as text."""
        indent = self._indent
        self.lines.extend([f"{indent}{line}" for line in lines])
        if len(self.lines) > _MAX_LINES:
            self.flush()

    def flush(self) -> None:
        """Join the lines to one part of the text."""
        if self.lines:
            self.parts.append("\n".join(self.lines).encode() + b"\n")
            self.lines = []

    def append(self, other: _Document) -> None:
        """Add the text of another document of the same depth."""
        self.flush()
        other.flush()
        self.parts += other.parts


def _attributes(attributes: Mapping[str, str]) -> str:
    return "".join([f' {_name(name)}="{_escape(value)}"' for name, value in attributes.items()])


def _escape(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return value.translate(_ENTITIES)


@functools.cache
def _name(name: str) -> str:
    """The name of an element or an attribute. Raises :class:`ModelError` for what XML does not allow as one."""
    if not _XML_NAME.fullmatch(name):
        raise ModelError(f"XML has no elements and attributes called {name!r}")
    return name


def _value(value: str, owner: str) -> str:
    """The text of an attribute. Raises :class:`ModelError` for characters that XML cannot carry."""
    return value if _PLAIN.fullmatch(value) else _text(value, owner).translate(_ENTITIES)


def _text(value: str, owner: str) -> str:
    match = _NOT_XML.search(value)
    if match:
        raise ModelError(f"{owner} holds the character U+{ord(match[0]):04X}, which XML cannot carry")
    return value


def _add_graph(document: _Document, model: Model, layout: WeightsLayout) -> dict[Node, int]:
    ids = {node: index for index, node in enumerate(model.nodes())}
    edges = _Document(document.depth + 1)
    _begin_if(document, "layers", ids)
    for node, number in ids.items():
        _add_layer(document, node, number, layout)
        edges.raw(
            f'<edge from-layer="{ids[source.node]}" from-port="{len(source.node.inputs) + source.index}" '
            f'to-layer="{number}" to-port="{port}"/>'
            for port, source in enumerate(node.inputs)
        )
    _end_if(document, "layers", ids)
    edges.flush()
    _begin_if(document, "edges", edges.parts)
    document.append(edges)
    _end_if(document, "edges", edges.parts)
    return ids


def _begin_if(document: _Document, tag: str, content: Collection[object]) -> None:
    """An element without content is a leaf."""
    if content:
        document.begin(tag, {})
    else:
        document.leaf(tag, {})


def _end_if(document: _Document, tag: str, content: Collection[object]) -> None:
    if content:
        document.end(tag)


def _add_layer(document: _Document, node: Node, number: int, layout: WeightsLayout) -> None:
    op = node.op
    owner = f"layer '{node.name}' ({op.type})"
    attributes = f'id="{number}" name="{_value(node.name, owner)}"{_type(op.type, op.opset)}'
    if node.output_names:
        attributes += f' output_names="{_value(join_names(node.output_names), owner)}"'
    data = "".join([f' {_name(name)}="{_value(value, owner)}"' for name, value in op.attributes().items()])
    if op.data is not None:
        offset, size = layout.place(op.data)
        data += f' offset="{offset}" size="{size}"'
    if not (data or node.runtime_info or node.inputs or node.outputs or op.subgraphs):
        document.raw([f"<layer {attributes}/>"])
        return
    document.raw([f"<layer {attributes}>"])
    document.deeper(1)
    if data:
        document.raw([f"<data{data}/>"])
    _add_infos(document, node.runtime_info)
    if node.inputs:
        document.begin("input", {})
        for index, source in enumerate(node.inputs):
            _add_port(document, index, source, owner, named=False)
        document.end("input")
    if node.outputs:
        document.begin("output", {})
        for output in node.outputs:
            _add_port(document, len(node.inputs) + output.index, output, owner, named=True)
        document.end("output")
    for (body_name, map_name), subgraph in zip(op.subgraph_names, op.subgraphs):
        _add_subgraph(document, body_name, map_name, subgraph, len(node.inputs), layout)
    document.end("layer")


@functools.cache
def _type(type: str, opset: int) -> str:
    return _attributes({"type": type, "version": "extension" if opset == OUTSIDE_OPSETS else f"opset{opset}"})


def _add_port(document: _Document, number: int, output: Output, owner: str, named: bool) -> None:
    tensor_type = output.type
    attributes = f'id="{number}" precision="{tensor_type.element_type.precision}"'
    if named and (names := join_names(output.names)):
        attributes += f' names="{_value(names, owner)}"'
    dimensions = tensor_type.shape.dims if tensor_type.shape.has_rank else ()
    infos = output.runtime_info if named else ()
    if not dimensions and not infos:
        document.raw([f"<port {attributes}/>"])
        return
    lines = [f"\t<dim>{dimension.low if dimension.is_static else -1}</dim>" for dimension in dimensions]
    document.raw([f"<port {attributes}>", *lines])
    document.deeper(1)
    _add_infos(document, infos)
    document.end("port")


def _add_infos(document: _Document, infos: Sequence[RuntimeInfo], *, always: bool = False) -> None:
    if infos:
        document.begin("rt_info", {})
        for item in infos:
            _add_info(document, item)
        document.end("rt_info")
    elif always:
        document.leaf("rt_info", {})


def _add_info(document: _Document, item: RuntimeInfo) -> None:
    tag = _name(item.tag)
    attributes = {key: _text(value, "rt_info") for key, value in item.attributes}
    if not item.children:
        document.leaf(tag, attributes)
        return
    document.begin(tag, attributes)
    for child in item.children:
        _add_info(document, child)
    document.end(tag)


def _add_subgraph(
    document: _Document,
    body_name: str,
    map_name: str,
    subgraph: SubGraph,
    input_count: int,
    layout: WeightsLayout,
) -> None:
    # The body comes last, but the port maps before it refer to its layers.
    body = _Document(document.depth)
    body.begin(body_name, {})
    ids = _add_graph(body, subgraph.body, layout)
    body.end(body_name)
    parameters = [ids[node] for node in subgraph.body.parameters]
    results = [ids[node] for node in subgraph.body.results]
    entries = [*subgraph.inputs, *subgraph.outputs]
    _begin_if(document, map_name, entries)
    for entry in subgraph.inputs:
        _add_map(document, "input", entry, entry.external, parameters[entry.parameter], "current_iteration")
    for output in subgraph.outputs:
        external = None if output.external is None else input_count + output.external
        _add_map(document, "output", output, external, results[output.result], "execution_condition")
    _end_if(document, map_name, entries)
    if subgraph.back_edges:
        document.begin("back_edges", {})
        for result, parameter in subgraph.back_edges:
            document.leaf("edge", {"from-layer": str(results[result]), "to-layer": str(parameters[parameter])})
        document.end("back_edges")
    document.append(body)


def _add_map(
    document: _Document,
    tag: str,
    entry: PortMap,
    external: int | None,
    internal: int,
    purpose: str,
) -> None:
    attributes = {"external_port_id": str(-1 if external is None else external), "internal_layer_id": str(internal)}
    if external is None:
        attributes["purpose"] = purpose
    if entry.axis is not None:
        attributes |= {name: str(getattr(entry, name)) for name in ("axis", "start", "end", "stride", "part_size")}
    document.leaf(tag, attributes)
