"""Writes a model as IR v11: the ``.xml`` and, through :mod:`weights`, the ``.bin``."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lxml import etree

from .errors import ModelError
from .graph import Model, Node, Output, PortMap, RuntimeInfo, SubGraph
from .tensor_names import join_names
from .weights import WeightsLayout

# What may not stand in XML is listed, and not what may: the pattern is compiled twenty times as fast.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def write_model(
    model: Model,
    xml: str | os.PathLike[str] | IO[bytes],
    weights: str | os.PathLike[str] | IO[bytes] | None = None,
) -> None:
    """Write ``model`` as IR v11.

    ``xml`` is a path or a binary file object. ``weights`` defaults to the path with ``.bin`` in
    place of the suffix, and must be given for a file object. Files appear complete or not at all.
    Raises :class:`ModelError` for a model the format cannot hold and :class:`OSError` where the disk
    refuses.
    """
    layout = WeightsLayout()
    if not isinstance(xml, (str, os.PathLike)):
        if weights is None or isinstance(weights, (str, os.PathLike)):
            raise ModelError("writing the XML to a file object needs a file object for the weights, too")
        document = _document(model, layout)
        layout.write(weights)
        xml.write(document)
        return
    xml_path = Path(xml)
    if weights is not None and not isinstance(weights, (str, os.PathLike)):
        raise ModelError("writing the XML to a path needs a path for the weights, too")
    bin_path = xml_path.with_suffix(".bin") if weights is None else Path(weights)
    if bin_path == xml_path:
        raise ModelError(f"the XML cannot be called {xml_path.name}: that is the weights' name")
    check_target(xml_path)
    check_target(bin_path)
    document = _document(model, layout)
    _write_pair(xml_path, bin_path, document, layout)


def check_target(path: str | os.PathLike[str]) -> None:
    """Raises :class:`OSError` where something stands in the file's place that is no file: a folder, a device, a pipe.

    Files are written beside their place and then renamed, which would put a file where the device was.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(f"'{path}' exists and is not a regular file: it cannot be written over")


def model_to_bytes(model: Model) -> tuple[bytes, bytes]:
    """The contents of the ``.xml`` and of the ``.bin``."""
    xml, weights = io.BytesIO(), io.BytesIO()
    write_model(model, xml, weights)
    return xml.getvalue(), weights.getvalue()


def _write_pair(xml_path: Path, bin_path: Path, document: bytes, layout: WeightsLayout) -> None:
    with _temporary(bin_path) as (bin_file, bin_temporary), _temporary(xml_path) as (xml_file, xml_temporary):
        layout.write(bin_file)
        xml_file.write(document)
        for file in (bin_file, xml_file):
            file.flush()
            os.fsync(file.fileno())
            file.close()
        # An old XML must never be seen beside new weights. The XML comes last: it is what makes a pair.
        xml_path.unlink(missing_ok=True)
        os.replace(bin_temporary, bin_path)
        os.replace(xml_temporary, xml_path)
    _sync_folder(xml_path.parent)


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[tuple[IO[bytes], str]]:
    """A file beside ``path`` that is gone afterwards unless it was renamed."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            os.chmod(name, 0o666 & ~_umask())
            yield file, name
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _document(model: Model, layout: WeightsLayout) -> bytes:
    net = etree.Element("net", name=_text(model.name, "the model"), version="11")
    _add_graph(net, model, layout)
    info = etree.SubElement(net, "rt_info")
    for item in model.runtime_info:
        _add_info(info, item)
    etree.indent(net, space="\t")
    return b'<?xml version="1.0"?>\n' + etree.tostring(net, encoding="utf-8") + b"\n"


def _text(value: str, owner: str) -> str:
    found = _NOT_XML.search(value)
    if found:
        raise ModelError(f"{owner} holds the character U+{ord(found[0]):04X}, which XML cannot carry")
    return value


def _add_graph(parent: etree._Element, model: Model, layout: WeightsLayout) -> dict[Node, int]:
    ids = {node: index for index, node in enumerate(model.nodes())}
    layers = etree.SubElement(parent, "layers")
    edges = etree.SubElement(parent, "edges")
    for node, number in ids.items():
        _add_layer(layers, node, number, layout)
        for port, source in enumerate(node.inputs):
            etree.SubElement(
                edges,
                "edge",
                {
                    "from-layer": str(ids[source.node]),
                    "from-port": str(len(source.node.inputs) + source.index),
                    "to-layer": str(number),
                    "to-port": str(port),
                },
            )
    return ids


def _add_layer(layers: etree._Element, node: Node, number: int, layout: WeightsLayout) -> None:
    op = node.op
    owner = f"layer '{node.name}' ({op.type})"
    layer = etree.SubElement(
        layers,
        "layer",
        {"id": str(number), "name": _text(node.name, owner), "type": op.type, "version": f"opset{op.opset}"},
    )
    if node.output_names:
        layer.set("output_names", _text(join_names(node.output_names), owner))
    attributes = {name: _text(value, owner) for name, value in op.attributes().items()}
    if op.data is not None:
        offset, size = layout.place(op.data)
        attributes |= {"offset": str(offset), "size": str(size)}
    if attributes:
        etree.SubElement(layer, "data", attributes)
    if node.runtime_info:
        info = etree.SubElement(layer, "rt_info")
        for item in node.runtime_info:
            _add_info(info, item)
    if node.inputs:
        ports = etree.SubElement(layer, "input")
        for index, source in enumerate(node.inputs):
            _add_port(ports, index, source, owner, named=False)
    if node.outputs:
        ports = etree.SubElement(layer, "output")
        for output in node.outputs:
            _add_port(ports, len(node.inputs) + output.index, output, owner, named=True)
    for (body_name, map_name), subgraph in zip(op.subgraph_names, op.subgraphs):
        _add_subgraph(layer, body_name, map_name, subgraph, len(node.inputs), layout)


def _add_port(ports: etree._Element, number: int, output: Output, owner: str, named: bool) -> None:
    port = etree.SubElement(ports, "port", id=str(number), precision=output.element_type.precision)
    names = join_names(output.names) if named else ""
    if names:
        port.set("names", _text(names, owner))
    if output.shape.has_rank:
        for extent in output.shape:
            etree.SubElement(port, "dim").text = str(extent.value if extent.is_static else -1)
    if named and output.runtime_info:
        info = etree.SubElement(port, "rt_info")
        for item in output.runtime_info:
            _add_info(info, item)


def _add_info(parent: etree._Element, item: RuntimeInfo) -> None:
    attributes = {key: _text(value, "rt_info") for key, value in item.attributes}
    element = etree.SubElement(parent, item.tag, attributes)
    for child in item.children:
        _add_info(element, child)


def _add_subgraph(
    layer: etree._Element,
    body_name: str,
    map_name: str,
    subgraph: SubGraph,
    input_count: int,
    layout: WeightsLayout,
) -> None:
    body = etree.Element(body_name)
    ids = _add_graph(body, subgraph.body, layout)
    parameters = [ids[node] for node in subgraph.body.parameters]
    results = [ids[node] for node in subgraph.body.results]
    ports = etree.SubElement(layer, map_name)
    for entry in subgraph.inputs:
        _add_map(ports, "input", entry, entry.external, parameters[entry.parameter], "current_iteration")
    for output in subgraph.outputs:
        external = None if output.external is None else input_count + output.external
        _add_map(ports, "output", output, external, results[output.result], "execution_condition")
    if subgraph.back_edges:
        edges = etree.SubElement(layer, "back_edges")
        for result, parameter in subgraph.back_edges:
            etree.SubElement(
                edges, "edge", {"from-layer": str(results[result]), "to-layer": str(parameters[parameter])}
            )
    layer.append(body)


def _add_map(
    ports: etree._Element,
    tag: str,
    entry: PortMap,
    external: int | None,
    internal: int,
    purpose: str,
) -> None:
    element = etree.SubElement(
        ports,
        tag,
        external_port_id=str(-1 if external is None else external),
        internal_layer_id=str(internal),
    )
    if external is None:
        element.set("purpose", purpose)
    if entry.axis is not None:
        for name in ("axis", "start", "end", "stride", "part_size"):
            element.set(name, str(getattr(entry, name)))
