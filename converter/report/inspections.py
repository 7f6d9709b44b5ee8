"""The page of one IR: its graph, its layers by operation, its constants."""

from __future__ import annotations

from pathlib import Path

from converter.report.changes import fusions_drawing
from converter.report.conversions import layer_counts, model_tables
from converter.report.graph_data import GraphData
from converter.report.markup import Table
from converter.report.page import Page, size_facts
from ir_runtime.execution.ports import ports_of
from ir_runtime.graph import Model


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
        Table("Inputs and outputs", ("name", "side", "type", "shape"), ports, is_open=True),
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
