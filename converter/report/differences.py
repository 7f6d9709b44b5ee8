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


def write_difference(difference: ModelDifference, first: Model, first_xml: Path, second_xml: Path, path: Path) -> None:
    """Write the differences ``difference`` to the HTML file ``path``; the graph is that of ``first``."""
    graph = GraphData(first)
    other_types = _other_types(difference)
    rows = [(change.layer, change.other, change.type, "; ".join(change.what)) for change in difference.changed]
    rows += [
        (name, name, f"{layer_type} where the other model has {there}", "the type")
        for name, (layer_type, there) in other_types.items()
    ]
    only_first = [layer for layer in difference.only_first if layer[0] not in other_types]
    only_second = [layer for layer in difference.only_second if layer[0] not in other_types]
    changed = {change.layer: "; ".join(change.what) for change in difference.changed}
    changed.update(
        (name, f"it is {layer_type} where the other model has {there}")
        for name, (layer_type, there) in other_types.items()
    )
    changed.update((name, f"only in {first_xml.name}") for name, _ in only_first)
    for constant in graph.constants:
        if constant["n"] in changed:
            constant["v"] = f"changed: {changed[constant['n']]}"
    for layer in graph.layers:
        held = [graph.constants[place]["n"] for place in layer["w"]]
        reasons = [changed.get(layer["n"], ""), *(f"{name}: {changed[name]}" for name in held if name in changed)]
        layer["r"] = "; ".join(reason for reason in reasons if reason)
        layer["v"] = CHANGED if layer["r"] else EQUAL
    facts = [("layers in both", str(difference.paired + len(other_types))), ("changed", str(len(rows)))]
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
    counts_text = ", ".join(f"{count:,} {noun}" for noun, count in counts.items() if count)
    sentence = (
        f"The IRs differ in layers: {counts_text}."
        if counts_text
        else f"All {difference.paired:,} layers are the same."
    )
    verdict = "THE SAME" if difference.same else "DIFFERENT"
    title = f"{first_xml.name} and {second_xml.name}"
    tone = "good" if difference.same else "mark"
    Page(title, sentence, facts, tables, graph, verdict=verdict, tone=tone, findings=findings).write(path)


def _other_types(difference: ModelDifference) -> dict[str, tuple[str, str]]:
    """The layers that both IRs have once under one name, with another type in each: both types by the name."""
    first, second = _once(difference.only_first), _once(difference.only_second)
    return {name: (layer_type, second[name]) for name, layer_type in first.items() if name in second}


def _once(layers: Sequence[_Layer]) -> dict[str, str]:
    counts = Counter(name for name, _ in layers)
    return {name: layer_type for name, layer_type in layers if name and counts[name] == 1}
