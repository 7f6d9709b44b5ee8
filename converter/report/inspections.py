"""The pages of an IR (its graph, its layers by operation, its constants) and of an ONNX model (what it holds)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from converter.report.changes import fusions_drawing
from converter.report.commands import shape_text
from converter.report.conversions import layer_counts, model_tables
from converter.report.graph_data import GraphData
from converter.report.markup import Table
from converter.report.page import Page, size_facts
from ir_runtime.execution.ports import ports_of
from ir_runtime.graph import Model
from ir_runtime.report import size_text

_PORTS = ("name", "side", "type", "shape")


def write_inspection(model: Model, path: Path, xml: Path) -> None:
    """Write the page of ``model``, which was read from ``xml``, to the HTML file ``path``."""
    counts = layer_counts(model)
    inputs, outputs = ports_of(model)
    ports = [
        (port.name, side, str(port.element_type), str(port.partial_shape))
        for side, listed in (("input", inputs), ("output", outputs))
        for port in listed
    ]
    sentence = (
        f"{len(inputs)} input{'s' * (len(inputs) != 1)}, {len(outputs)} output{'s' * (len(outputs) != 1)}, "
        f"{sum(counts.values()):,} layers of {len(counts):,} operations."
    )
    tables = [
        Table("Inputs and outputs", _PORTS, ports, is_open=True),
        *model_tables(model, counts),
    ]
    graph = GraphData(model)
    page = Page(
        xml.name,
        "",
        "none",
        sentence,
        size_facts(xml),
        tables,
        (),
        graph,
        drawings=[fusions_drawing(model, graph.place)],
    )
    page.write(path)


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
    opsets = ", ".join(f"{domain} {version}" for domain, version in summary["opsets"].items())
    facts = {
        "file": f"{model} ({model.stat().st_size:,} bytes)",
        "opsets": opsets,
        "IR version of ONNX": str(summary["ir_version"]),
        "producer": summary["producer"],
        "parameters": f"{summary['parameters']:,} ({size_text(summary['weight_bytes'])})",
        "multiplications": f"{summary['macs']:,}",
        "not counted": f"{summary['macs_unknown']:,} nodes of dynamic dimensions" if summary["macs_unknown"] else "",
        "functions": ", ".join(summary["functions"]),
    }
    inputs, outputs = len(summary["inputs"]), len(summary["outputs"])
    sentence = (
        f"{inputs} input{'s' * (inputs != 1)}, {outputs} output{'s' * (outputs != 1)}, "
        f"{sum(operators.values()):,} nodes of {len(operators):,} operators."
    )
    tables = [
        Table("Inputs and outputs", _PORTS, ports, is_open=True),
        Table("Nodes by operator", ("operator", "count"), [(n, f"{c:,}") for n, c in operators.items()], is_open=True),
        Table("Metadata", ("key", "value"), list(summary["metadata"].items())),
    ]
    shown = [(name, text) for name, text in facts.items() if text]
    Page(model.name, "", "none", sentence, shown, tables, (), GraphData(graph)).write(path)
