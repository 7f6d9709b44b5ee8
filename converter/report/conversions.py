"""The page of a conversion: what each ONNX node became, what passes and rules changed, how large it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from converter.conversion.convert import Conversion
from converter.passes.registry import passes as pass_pipeline
from converter.report.changes import Applied, changes_drawing, fusions_drawing
from converter.report.graph_data import GraphData
from converter.report.markup import Table
from converter.report.page import Page, constants_table, size_facts
from converter.targets.registry import RULES
from ir_runtime.graph import Model
from ir_runtime.report import layer_counts
from ir_runtime.rewriting.fused_names import fused_names
from ir_runtime.rewriting.pipeline import Pipeline
from ir_runtime.rewriting.trace import Trace

_LAYERS_LISTED = 5


def write_conversion(conversion: Conversion, model: Model, title: str, target: str, path: Path, xml: Path) -> None:
    """Write the page of a ``conversion`` for ``target`` to the HTML file ``path``.

    ``model`` is what was stored in ``xml``. Layers tell which passes and rules made them, and a table has the layers
    that these left, with the reasons.
    """
    passes, rules = conversion.passes, conversion.rules
    counts = layer_counts(model)
    facts = [
        ("target", target),
        ("layers replaced by passes", counts_text(passes)),
        ("rules applied", counts_text(rules)),
        ("layers", f"{sum(counts.values()):,}"),
        *size_facts(xml),
    ]
    replaced, applied = sum(passes.values()), sum(rules.values())
    sentence = (
        f"Converted for {target}: {sum(counts.values()):,} layers. Passes replaced {replaced:,} layers"
        f"{f', rules for {target} changed {applied:,}' if applied else ''}."
    )
    done = [*_applied(passes, "pass", [pass_pipeline]), *_applied(rules, "rule", RULES)]
    graph = GraphData(model)
    _note_passes(graph, conversion.trace)
    tables = [_left_table(conversion.trace), became_table(model), *model_tables(model, counts)]
    advice = f"Compare it with the ONNX file: onnx2ir verify {title} {xml.name} --report verified.html"
    drawings = [changes_drawing(done), fusions_drawing(model, graph.place)]
    Page(title, sentence, facts, tables, graph, actions=[advice], drawings=drawings).write(path)


def _note_passes(graph: GraphData, trace: Trace) -> None:
    """Note which passes and rules replaced what stood in the place of each layer."""
    places = {layer["n"]: layer for layer in graph.layers}
    for name, statistics in trace.passes.items():
        for replaced in dict.fromkeys(statistics.replaced):
            if replaced in places:
                places[replaced].setdefault("p", []).append(name)


def _left_table(trace: Trace) -> Table:
    """The layers that passes and rules looked at and did not replace, by reason."""
    rows = [
        (
            name,
            reason,
            str(len(names)),
            ", ".join(names[:_LAYERS_LISTED]) + (" ..." if len(names) > _LAYERS_LISTED else ""),
        )
        for name, statistics in trace.passes.items()
        for reason, names in statistics.reasons.items()
    ]
    return Table("What passes and rules left, and why", ("pass or rule", "reason", "layers", "the first of them"), rows)


def became_table(model: Model) -> Table:
    """The layers of each ONNX node."""
    rows = [
        (node.origin.node, node.origin.op_type, f"{node.name} ({node.op.type})")
        for part in model.parts()
        for node in part.nodes
        if node.origin is not None
    ]
    return Table("What the ONNX nodes became", ("ONNX node", "operator", "layers"), rows).merged()


def model_tables(model: Model, counts: Counter[str]) -> list[Table]:
    """The tables of one model: fused layers, layers by operation, constants."""
    fused = [
        (node.name, f"{node.op.type}-{node.op.opset}", ", ".join(fused_names(node)))
        for part in model.parts()
        for node in part.nodes
        if fused_names(node)
    ]
    return [
        Table("Fused layers", ("layer", "operation", "in the place of"), fused).merged(),
        Table("Layers by operation", ("operation", "count"), [(name, str(n)) for name, n in counts.most_common()]),
        constants_table(model, {}),
    ]


def counts_text(counts: Mapping[str, int]) -> str:
    """Return ``gelus (6), tile_dynamic (1)``."""
    return ", ".join(f"{name} ({times})" for name, times in counts.items()) or "none"


def _applied(counts: Mapping[str, int], category: str, pipelines: Sequence[Pipeline]) -> list[Applied]:
    registered = {name: entry for pipeline in pipelines for name, entry in pipeline.registered.items()}
    texts = {name: (entry.run.__doc__ or "").strip() for name, entry in registered.items()}
    return [Applied(name, category, times, texts.get(name, "").split("\n\n")[0]) for name, times in counts.items()]
