"""The page of a verification: verdicts, the differences of all layers, the state of all weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from converter.equivalence.compare import Comparison
from converter.equivalence.report import Report
from converter.report.page import DRIFTED, EQUAL, WRONG, Page, Table, constants_table, layers_of, size_facts
from ir_runtime.graph.model import Model

_COLUMNS = ("output", "type", "shape", "max abs", "max rel", "cosine", "verdict")


def write_verification(report: Report, model: Model, title: str, path: Path, xml: Path | None = None) -> None:
    """Write ``report`` on ``model`` to the HTML file ``path``; ``xml`` is where the IR is stored."""
    layers, place = layers_of(model)
    by_name = {node.name: index for node, index in place.items()}
    for found in report.layers:
        index = by_name.get(found.layer)
        if index is None:
            continue
        layer = layers[index]
        layer["v"] = max(layer["v"], WRONG if not found.local.passed else EQUAL if found.comparison.passed else DRIFTED)
        layer["e"], layer["l"] = found.comparison.max_absolute, found.local.max_absolute
        layer["o"] = found.node
        layer["r"] = found.local.reason or found.comparison.reason
        if found.histogram is not None:
            layer["h"] = found.histogram
    states = {name: _state(check) for check in report.weights for name in check.layers}
    for layer in layers:
        layer["w"] = [[name, f"{kind} {states.get(name, '')}".strip()] for name, kind in layer["w"]]
    facts = [
        ("reference", report.oracle),
        ("engine", report.engine),
        ("runs", "; ".join(f"{one.description}: {'passed' if one.passed else 'FAILED'}" for one in report.samples)),
        *size_facts(xml),
    ]
    facts.append(("verdict", report.verdict))
    fault = report.first_fault
    if fault is not None:
        facts.append(("first wrong layer", f"{fault.layer} ({fault.type}), tensor {fault.comparison.name}"))
    facts += [("suspect", suspect) for suspect in report.suspects]
    if report.weights:
        counts = ", ".join(f"{count} {state}" for state, count in report.weight_states.items())
        facts.append(("weights", counts))
    tables = [
        Table("Outputs", _COLUMNS, [_row(one, report.unproven) for one in report.outputs]),
        Table("Against the other IR", _COLUMNS, [_row(one) for one in report.against]),
        Table(
            "Layers that are wrong from right inputs",
            ("layer", "type", "ONNX node", "tensor", "max abs", "reason"),
            [
                (one.layer, one.type, one.node, one.comparison.name, f"{one.local.max_absolute:.3g}", one.local.reason)
                for one in report.layers
                if not one.local.passed
            ],
        ),
        Table(
            "Weights of the ONNX file",
            ("tensor", "state", "form", "greatest error", "layers", "reason"),
            [
                (one.name, one.state, one.form, f"{one.error:.3g}", ", ".join(one.layers), one.reason)
                for one in sorted(report.weights, key=lambda check: check.passed)
            ],
        ),
        Table(
            "What the ONNX nodes became",
            ("ONNX node", "tensor", "layers"),
            [(one.node, one.comparison.name, ", ".join(one.part)) for one in report.layers],
        ),
        constants_table(model, states),
    ]
    notes = [*report.notes, *([report.layers_problem] if report.layers_problem else [])]
    Page(title, "PASSED" if report.passed else "FAILED", facts, tables, notes, layers).write(path)


def _state(check: object) -> str:
    state, form = getattr(check, "state", ""), getattr(check, "form", "")
    return f"{state} ({form})" if form else state


def _row(one: Comparison, unproven: Sequence[str] = ()) -> tuple[str, ...]:
    cosine = "-" if one.cosine is None else f"{one.cosine:.7f}"
    verdict = one.reason or ("proves nothing" if one.name in unproven else "equal")
    figures = (f"{one.max_absolute:.3g}", f"{one.max_relative:.3g}", cosine)
    return (one.name, one.element_type, str(list(one.shape)), *figures, verdict)
