"""The page of a conversion: what each ONNX node became, what passes and rules changed, how large it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from converter.report.page import Page, Table, constants_table, layers_of, size_facts
from ir_runtime.graph.model import Model, Origin
from ir_runtime.rewriting.fused_names import fused_names


def write_conversion(
    model: Model,
    title: str,
    target: str,
    passes: Mapping[str, int],
    rules: Mapping[str, int],
    path: Path,
    xml: Path,
) -> None:
    """Write the page of a converted ``model`` to the HTML file ``path``; ``xml`` is where the IR is stored."""
    layers, place = layers_of(model)
    became: dict[Origin, list[str]] = {}
    for part in model.parts():
        for node in part.nodes:
            if node.origin is None:
                continue
            became.setdefault(node.origin, []).append(f"{node.name} ({node.op.type})")
            if node in place:
                layers[place[node]]["o"] = node.origin.node
    counts = Counter(f"{node.op.type}-{node.op.opset}" for part in model.parts() for node in part.nodes)
    facts = [
        ("target", target),
        ("layers replaced by passes", counts_text(passes)),
        ("rules applied", counts_text(rules)),
        ("layers", str(sum(counts.values()))),
        *size_facts(xml),
    ]
    tables = [
        Table(
            "What the ONNX nodes became",
            ("ONNX node", "operator", "layers"),
            [(origin.node, origin.op_type, ", ".join(names)) for origin, names in became.items()],
        ),
        Table(
            "Fused layers",
            ("layer", "operation", "in the place of"),
            [
                (node.name, f"{node.op.type}-{node.op.opset}", ", ".join(fused_names(node)))
                for part in model.parts()
                for node in part.nodes
                if fused_names(node)
            ],
        ),
        Table(
            "Layers by operation",
            ("operation", "count"),
            [(name, str(count)) for name, count in counts.most_common()],
        ),
        constants_table(model, {}),
    ]
    Page(title, "", facts, tables, (), layers).write(path)


def counts_text(counts: Mapping[str, int]) -> str:
    """``gelus (6), tile_dynamic (1)``"""
    return ", ".join(f"{name} ({times})" for name, times in counts.items()) or "none"
