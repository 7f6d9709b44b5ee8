"""The page of a conversion: what each ONNX node became, which rules of the target acted, how large it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from converter.report.page import Page, Table, constants_table, layers_of, size_facts
from ir_runtime.graph import Model

_ORIGIN = re.compile(r"node '(?P<node>.*)' of (?P<type>\S+)$")


def write_conversion(model: Model, title: str, target: str, rules: Mapping[str, int], path: Path, xml: Path) -> None:
    """Write what a conversion made of an ONNX file to the HTML file ``path``; ``xml`` is where the IR is stored."""
    layers, place = layers_of(model)
    became: dict[tuple[str, str], list[str]] = {}
    for part in model.parts():
        for node in part.nodes:
            origin = _ORIGIN.match(node.origin)
            if origin is None:
                continue
            became.setdefault((origin["node"], origin["type"]), []).append(f"{node.name} ({node.op.type})")
            if node in place:
                layers[place[node]]["o"] = origin["node"]
    counts = Counter(f"{node.op.type}-{node.op.opset}" for part in model.parts() for node in part.nodes)
    facts = [
        ("target", target),
        ("rules that acted", ", ".join(f"{name} ({times})" for name, times in rules.items()) or "none"),
        ("layers", str(sum(counts.values()))),
        *size_facts(xml),
    ]
    tables = [
        Table(
            "What the ONNX nodes became",
            ("ONNX node", "operator", "layers"),
            [(node, kind, ", ".join(made)) for (node, kind), made in became.items()],
        ),
        Table(
            "Layers by operation",
            ("operation", "count"),
            [(name, str(count)) for name, count in counts.most_common()],
        ),
        constants_table(model, {}),
    ]
    Page(title, "", facts, tables, (), layers).write(path)
