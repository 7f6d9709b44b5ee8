"""A model as text, a line for each input, constant, layer and output: for ``diff`` and for people."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ir_runtime.graph import Model, Node, Output, RuntimeInfo

_MOST_VALUES = 8
"""Constants of so few values are shown as these, others by a digest."""


def model_lines(model: Model) -> Iterator[str]:
    """Yield the lines of a model; ids, and the order in which constants lie in the file, do not count."""
    for info in model.runtime_info:
        yield from _info_lines(info, "")
    yield from _graph_lines(model, "")


def _info_lines(info: RuntimeInfo, indent: str) -> Iterator[str]:
    values = dict(info.attributes)
    name, value = values.pop("name", info.tag), " ".join(values.values())
    yield f"{indent}{name}: {value}" if value else f"{indent}{name}"
    for child in info.children:
        yield from _info_lines(child, f"{indent}  ")


def _graph_lines(model: Model, indent: str) -> Iterator[str]:
    for node in model.nodes():
        yield f"{indent}{_line(node)}"
        for sub in node.op.subgraphs:
            yield f"{indent}  body"
            yield from _graph_lines(sub.body, f"{indent}    ")


def _line(node: Node) -> str:
    names = ", ".join(map(_name, node.outputs))
    attributes = "".join(f" {name}={value}" for name, value in node.op.attributes().items())
    inputs = ", ".join(map(_name, node.inputs))
    if node.op.data is not None:
        return f"constant {names}: {node.outputs[0].type} {_contents(node)}"
    if node.op.role == "result":
        return f"output {', '.join(node.end_names)} = {inputs}{attributes}"
    if node.op.role == "parameter":
        return f"input {names}{attributes}"
    return f"{names} = {node.op.type}({inputs}){attributes}"


def _name(value: Output) -> str:
    """The tensor's name, or the layer's with the number of the output."""
    return value.names[0] if value.names else f"{value.node.name}.{value.index}"


def _contents(node: Node) -> str:
    data = node.op.data
    assert data is not None
    if data.size <= _MOST_VALUES:
        return str(data.array().tolist())
    digest = hashlib.sha256()
    for chunk in data.chunks():
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()[:16]}"
