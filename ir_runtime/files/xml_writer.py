"""Writes a model as IR v11: the ``.xml`` and, through :mod:`weights`, the ``.bin``."""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import IO

from lxml import etree
from lxml.etree import _Element

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
    """Return the text in parts, one for each layer of the main graph: one tree of all takes ten times the memory."""
    ids = _ids(model)
    infos = etree.Element("rt_info")
    try:
        net = etree.tostring(etree.Element("net", {"name": model.name, "version": "11"}), encoding="UTF-8")
        _add_infos(infos, model.runtime_info)
    except ValueError as error:
        raise _unwritable("the model", error, [model.name]) from error
    return [
        b'<?xml version="1.0"?>\n',
        net.removesuffix(b"/>") + b">\n",
        *_section("layers", [_text(_layer(node, number, layout), 2) for node, number in ids.items()]),
        *_section("edges", [f"\t\t{edge}\n".encode() for edge in _edges(ids)]),
        _text(infos, 1),
        b"</net>\n",
    ]


def _section(tag: str, parts: Sequence[bytes]) -> list[bytes]:
    return [f"\t<{tag}>\n".encode(), *parts, f"\t</{tag}>\n".encode()] if parts else [f"\t<{tag}/>\n".encode()]


def _text(element: _Element, depth: int) -> bytes:
    etree.indent(element, "\t", level=depth)
    return b"\t" * depth + etree.tostring(element, encoding="UTF-8") + b"\n"


def _unwritable(owner: str, error: ValueError, texts: Iterable[str]) -> ModelError:
    """Return the error for names and characters that XML does not allow."""
    match = _NOT_XML.search("".join(texts))
    found = str(error) if match is None else f"the character U+{ord(match[0]):04X}"
    return ModelError(f"{owner} holds what XML cannot carry: {found}")


def _ids(model: Model) -> dict[Node, int]:
    return {node: index for index, node in enumerate(model.nodes())}


def _edges(ids: Mapping[Node, int]) -> Iterator[str]:
    for node, number in ids.items():
        for port, source in enumerate(node.inputs):
            start = f'from-layer="{ids[source.node]}" from-port="{len(source.node.inputs) + source.index}"'
            yield f'<edge {start} to-layer="{number}" to-port="{port}"/>'


def _layer(node: Node, number: int, layout: WeightsLayout) -> _Element:
    op = node.op
    try:
        return _build_layer(node, number, layout)
    except ValueError as error:
        names = [name for output in node.outputs for name in output.names]
        texts = [node.name, *node.output_names, *names, *op.attributes().values()]
        raise _unwritable(f"layer '{node.name}' ({op.type})", error, texts) from error


def _build_layer(node: Node, number: int, layout: WeightsLayout) -> _Element:
    op = node.op
    version = "extension" if op.opset == OUTSIDE_OPSETS else f"opset{op.opset}"
    attributes = {"id": str(number), "name": node.name, "type": op.type, "version": version}
    if node.output_names:
        attributes["output_names"] = join_names(node.output_names)
    layer = etree.Element("layer", attributes)
    data = dict(op.attributes())
    if op.data is not None:
        offset, size = layout.place(op.data)
        data |= {"offset": str(offset), "size": str(size)}
    if data:
        etree.SubElement(layer, "data", data)
    if node.runtime_info:
        _add_infos(etree.SubElement(layer, "rt_info"), node.runtime_info)
    if node.inputs:
        ports = etree.SubElement(layer, "input")
        for index, source in enumerate(node.inputs):
            _add_port(ports, index, source)
    if node.outputs:
        ports = etree.SubElement(layer, "output")
        for output in node.outputs:
            port = _add_port(ports, len(node.inputs) + output.index, output)
            if output.names:
                port.set("names", join_names(output.names))
            if output.runtime_info:
                _add_infos(etree.SubElement(port, "rt_info"), output.runtime_info)
    for (body_name, map_name), subgraph in zip(op.subgraph_names, op.subgraphs):
        _add_subgraph(layer, body_name, map_name, subgraph, len(node.inputs), layout)
    return layer


def _add_port(ports: _Element, number: int, output: Output) -> _Element:
    shape = output.type.shape
    sizes = [dimension.low if dimension.is_static else -1 for dimension in shape.dims] if shape.has_rank else []
    port = copy(_port(output.type.element_type.precision, tuple(sizes)))
    port.set("id", str(number))
    ports.append(port)
    return port


@functools.lru_cache(maxsize=1 << 10)
def _port(precision: str, sizes: tuple[int, ...]) -> _Element:
    """Return a port to copy, which takes half the time of another one."""
    port = etree.Element("port", {"id": "", "precision": precision})
    for size in sizes:
        etree.SubElement(port, "dim").text = str(size)
    return port


def _add_infos(parent: _Element, infos: Sequence[RuntimeInfo]) -> None:
    for item in infos:
        _add_infos(etree.SubElement(parent, item.tag, dict(item.attributes)), item.children)


def _add_subgraph(
    layer: _Element, body_name: str, map_name: str, subgraph: SubGraph, input_count: int, layout: WeightsLayout
) -> None:
    ids = _ids(subgraph.body)
    parameters = [ids[node] for node in subgraph.body.parameters]
    results = [ids[node] for node in subgraph.body.results]
    maps = etree.SubElement(layer, map_name)
    for entry in subgraph.inputs:
        _add_map(maps, "input", entry, entry.external, parameters[entry.parameter], "current_iteration")
    for output in subgraph.outputs:
        external = None if output.external is None else input_count + output.external
        _add_map(maps, "output", output, external, results[output.result], "execution_condition")
    if subgraph.back_edges:
        edges = etree.SubElement(layer, "back_edges")
        for result, parameter in subgraph.back_edges:
            ends = {"from-layer": str(results[result]), "to-layer": str(parameters[parameter])}
            etree.SubElement(edges, "edge", ends)
    body = etree.SubElement(layer, body_name)
    etree.SubElement(body, "layers").extend([_layer(node, number, layout) for node, number in ids.items()])
    body.append(etree.fromstring("".join(["<edges>", *_edges(ids), "</edges>"])))


def _add_map(maps: _Element, tag: str, entry: PortMap, external: int | None, internal: int, purpose: str) -> None:
    attributes = {"external_port_id": str(-1 if external is None else external), "internal_layer_id": str(internal)}
    if external is None:
        attributes["purpose"] = purpose
    if entry.axis is not None:
        attributes |= {name: str(getattr(entry, name)) for name in ("axis", "start", "end", "stride", "part_size")}
    etree.SubElement(maps, tag, attributes)
