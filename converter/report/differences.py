"""The page of two IRs: the layers that only one of them has, and the differences of the others."""

from __future__ import annotations

from pathlib import Path

from converter.report.page import CHANGED, EQUAL, Page, Table, layers_of, size_facts
from ir_runtime.graph.model import Model
from ir_runtime.graph.model_difference import ModelDifference


def write_difference(found: ModelDifference, first: Model, first_xml: Path, second_xml: Path, path: Path) -> None:
    """Write the differences ``found`` to the HTML file ``path``; the graph is that of ``first``."""
    layers, _ = layers_of(first)
    changed = {change.layer: "; ".join(change.what) for change in found.changed}
    missing = {name for name, _ in found.only_first}
    for layer in layers:
        held = [name for name, _ in layer["w"] if name in changed or name in missing]
        reasons = [changed.get(layer["n"], ""), "only in the first IR" if layer["n"] in missing else ""]
        reasons += [f"{name}: {changed.get(name, 'only in the first IR')}" for name in held]
        layer["r"] = "; ".join(one for one in reasons if one)
        layer["v"] = CHANGED if layer["r"] else EQUAL
    facts = [("layers in both", str(found.paired)), ("changed", str(len(found.changed)))]
    facts += size_facts(first_xml) + size_facts(second_xml)
    tables = [
        Table(
            "Changed layers",
            ("layer", "there", "type", "what"),
            [(one.layer, one.other, one.type, "; ".join(one.what)) for one in found.changed],
        ),
        Table(f"Only in {first_xml}", ("layer", "type"), found.only_first),
        Table(f"Only in {second_xml}", ("layer", "type"), found.only_second),
    ]
    verdict = "PASSED" if found.same else "FAILED"
    Page(f"{first_xml.name} and {second_xml.name}", verdict, facts, tables, (), layers).write(path)
