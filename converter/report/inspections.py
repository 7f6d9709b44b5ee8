"""The pages of an IR (its graph, its layers by operation, its constants) and of an ONNX model (what it holds)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from converter.report.changes import fusions_drawing
from converter.report.commands import shape_text
from converter.report.conversions import model_tables
from converter.report.graph_data import GraphData
from converter.report.markup import Table, format_count
from converter.report.page import Page, size_facts
from ir_runtime.execution.ports import ports_of
from ir_runtime.graph import Model
from ir_runtime.report import layer_counts, size_text

_PORTS = ("name", "side", "type", "shape")


def write_inspection(model: Model, path: Path, xml: Path) -> None:
    """Write the page of ``model``, which was read from ``xml``, to the HTML file ``path``."""
    counts = layer_counts(model)
    ports = [
        (port.name, side, str(port.element_type), str(port.partial_shape))
        for side, listed in zip(("input", "output"), ports_of(model))
        for port in listed
    ]
    tables = [Table("Inputs and outputs", _PORTS, ports, is_open=True), *model_tables(model, counts)]
    graph = GraphData(model)
    drawings = [fusions_drawing(model, graph.place)]
    sentence = _sentence(ports, counts, "layers", "operations")
    Page(xml.name, sentence, size_facts(xml), tables, graph, drawings=drawings).write(path)


def _sentence(ports: Sequence[tuple[str, str, str, str]], counts: Mapping[str, int], noun: str, types: str) -> str:
    sides = [side for _, side, _, _ in ports]
    ends = ", ".join(format_count(sides.count(side), side) for side in ("input", "output"))
    return f"{ends}, {sum(counts.values()):,} {noun} of {len(counts):,} {types}."


def write_onnx_inspection(summary: Mapping[str, Any], graph: Model, path: Path, model: Path) -> None:
    """Write the page of an ONNX model to the HTML file ``path``.

    ``summary`` is that of ``onnx_file.summary``, and ``graph`` the model's.
    """
    ports = [
        (port["name"], side, port["type"], shape_text(port["shape"]))
        for side in ("input", "output")
        for port in summary[f"{side}s"]
    ]
    operators = summary["operators"]
    facts = {
        "file": f"{model} ({model.stat().st_size:,} bytes)",
        "opsets": ", ".join(f"{domain} {version}" for domain, version in summary["opsets"].items()),
        "IR version of ONNX": str(summary["ir_version"]),
        "producer": summary["producer"],
        "parameters": f"{summary['parameters']:,} ({size_text(summary['weight_bytes'])})",
        "multiplications": f"{summary['macs']:,}",
        "not counted": f"{summary['macs_unknown']:,} nodes of dynamic dimensions" if summary["macs_unknown"] else "",
        "functions": ", ".join(summary["functions"]),
    }
    tables = [
        Table("Inputs and outputs", _PORTS, ports, is_open=True),
        Table("Nodes by operator", ("operator", "count"), [(n, f"{c:,}") for n, c in operators.items()], is_open=True),
        Table("Metadata", ("key", "value"), list(summary["metadata"].items())),
    ]
    shown = [(name, text) for name, text in facts.items() if text]
    sentence = _sentence(ports, operators, "nodes", "operators")
    Page(model.name, sentence, shown, tables, GraphData(graph)).write(path)
