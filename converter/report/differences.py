"""The page of two IRs: the layers that only one of them has, and the differences of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from converter.report.graph_data import CHANGED, EQUAL, GraphData
from converter.report.markup import Table
from converter.report.page import Finding, Page, size_facts
from ir_runtime.graph import Model
from ir_runtime.graph.model_difference import ModelDifference

_Layer = tuple[str, str]
"""The name and the type of a layer."""


def write_difference(found: ModelDifference, first: Model, first_xml: Path, second_xml: Path, path: Path) -> None:
    """Write the differences ``found`` to the HTML file ``path``; the graph is that of ``first``."""
    graph = GraphData(first)
    other_types = _other_types(found)
    rows = [(one.layer, one.other, one.type, "; ".join(one.what)) for one in found.changed]
    rows += [(name, name, f"{kind}, there {there}", "the type") for name, (kind, there) in other_types.items()]
    only_first = [layer for layer in found.only_first if layer[0] not in other_types]
    only_second = [layer for layer in found.only_second if layer[0] not in other_types]
    changed = {change.layer: "; ".join(change.what) for change in found.changed}
    changed.update((name, f"it is {kind}, there {there}") for name, (kind, there) in other_types.items())
    changed.update((name, f"only in {first_xml.name}") for name, _ in only_first)
    for constant in graph.constants:
        if constant["n"] in changed:
            constant["v"] = f"changed: {changed[constant['n']]}"
    for layer in graph.layers:
        held = [graph.constants[place]["n"] for place in layer["w"]]
        reasons = [changed.get(layer["n"], ""), *(f"{name}: {changed[name]}" for name in held if name in changed)]
        layer["r"] = "; ".join(one for one in reasons if one)
        layer["v"] = CHANGED if layer["r"] else EQUAL
    facts = [("layers in both", str(found.paired + len(other_types))), ("changed", str(len(rows)))]
    facts += size_facts(first_xml, "first") + size_facts(second_xml, "second")
    tables = [
        Table("Changed layers", ("layer", "there", "type", "what"), rows, is_open=True).merged(),
        Table(f"Only in {first_xml}", ("layer", "type"), only_first, is_open=True).merged(),
        Table(f"Only in {second_xml}", ("layer", "type"), only_second, is_open=True).merged(),
    ]
    findings = [
        Finding(f"{layer['n']} ({layer['t']}): {layer['r']}", place)
        for place, layer in enumerate(graph.layers)
        if layer["r"]
    ]
    counts = {"changed": len(rows), f"only in {first_xml}": len(only_first), f"only in {second_xml}": len(only_second)}
    listed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    sentence = f"The IRs differ in layers: {listed}." if listed else f"All {found.paired:,} layers are the same."
    verdict = "THE SAME" if found.same else "DIFFERENT"
    title = f"{first_xml.name} and {second_xml.name}"
    tone = "good" if found.same else "mark"
    Page(title, verdict, tone, sentence, facts, tables, (), graph, findings).write(path)


def _other_types(found: ModelDifference) -> dict[str, tuple[str, str]]:
    """The layers that both IRs have once under one name, with another type in each: both types by the name."""
    first, second = _once(found.only_first), _once(found.only_second)
    return {name: (kind, second[name]) for name, kind in first.items() if name in second}


def _once(layers: Sequence[_Layer]) -> dict[str, str]:
    counts = Counter(name for name, _ in layers)
    return {name: kind for name, kind in layers if name and counts[name] == 1}
