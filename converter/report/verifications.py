"""The page of a verification: the verdict, the differences of all layers, the state of all weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from converter.equivalence.comparison.compare import Comparison, Errors
from converter.equivalence.comparison.layers import LayerDifference
from converter.equivalence.derivation.contracts import AppliedContract, contracts_text
from converter.equivalence.derivation.rederivation import DERIVED, DIFFERENT, INAPPLICABLE
from converter.equivalence.verdict.report import EQUAL, UNPROVEN, Report
from converter.equivalence.weights.checks import WeightCheck
from converter.report.graph_data import CHANGED, DRIFTED, WRONG, GraphData
from converter.report.graph_data import EQUAL as SAME
from converter.report.markup import Table, format_count
from converter.report.page import Finding, Page, constants_table, size_facts
from converter.report.rows import OUTPUT, output_row
from ir_runtime.graph import Model

_TONES = {"PASSED": "good", "UNPROVEN": "mark", "FAILED": "bad"}
_COLUMNS = tuple(column for column in OUTPUT if column != "ULPs")


def write_verification(report: Report, model: Model, title: str, path: Path, xml: Path | None = None) -> None:
    """Write ``report`` on ``model`` to the HTML file ``path``; ``xml`` is where the IR is stored."""
    graph = GraphData(model)
    for difference in report.layers:
        _note_difference(graph, difference)
    for check in report.weights:
        for name in () if check.passed else check.layers:
            _mark(graph, name, f"its weight '{check.name}' is changed: {check.reason}")
    for change in report.derivation.differences:
        _mark(graph, change.layer, f"'{change.layer}' is not as derived: {'; '.join(change.what)}")
    states = {name: _state(check) for check in report.weights for name in check.layers}
    graph.set_states(states)
    page = Page(
        title,
        _sentence(report),
        _facts(report, xml),
        [*_tables(report), constants_table(model, states)],
        graph,
        verdict=report.headline,
        tone=_TONES[report.headline],
        notes=[*report.notes, *([report.layers_problem] if report.layers_problem else [])],
        findings=[Finding(text, next(iter(places), None)) for text, places in _faults(report, graph)],
        actions=_actions(report),
    )
    page.write(path)


def _note_difference(graph: GraphData, difference: LayerDifference) -> None:
    places = _places(graph, difference)
    if not places:
        return
    layer = graph.layers[places[0]]
    verdict = WRONG if not difference.local.passed else SAME if difference.comparison.passed else DRIFTED
    reason = difference.local.reason or difference.comparison.reason
    if verdict >= layer["v"]:
        layer["v"] = verdict
        if reason or "r" not in layer:
            layer["r"] = reason
    layer["e"] = max(difference.comparison.max_absolute, layer.get("e", 0.0))
    layer["l"] = max(difference.local.max_absolute, layer.get("l", 0.0))
    layer["o"] = difference.node
    if difference.histogram is not None:
        layer.setdefault("h", []).append([difference.comparison.name, *difference.histogram])


def _places(graph: GraphData, difference: LayerDifference) -> list[int]:
    """The places of a wrong layer; of one in a body those of the layer that has the body."""
    return graph.find(difference.layer) or [place for name in difference.part[-1:] for place in graph.find(name)]


def _mark(graph: GraphData, name: str, reason: str) -> None:
    """Mark a layer that is changed, or the layers that read a constant that is; a wrong one keeps that verdict."""
    for place in graph.find(name):
        layer = graph.layers[place]
        if layer["v"] != WRONG:
            layer["v"] = CHANGED
        layer["r"] = "; ".join(filter(None, (layer.get("r"), reason)))


def _sentence(report: Report) -> str:
    if report.attestation:
        return f"The statement does not hold: {report.attestation[0]}. Now: {report.verdict}, {report.reason}."
    if report.verdict in (UNPROVEN, DIFFERENT):
        return f"{report.verdict.capitalize()}: {report.reason}."
    runs, outputs = format_count(len(report.samples), "run"), format_count(len(report.outputs), "output")
    agree = "agrees" if len(report.outputs) == 1 else "agree"
    how = f"{outputs} {agree} with {report.oracle} in {runs}; {_largest(report)}"
    return f"{report.verdict.capitalize()}: {how}; {report.derivation.reason}."


def _largest(report: Report) -> str:
    worst = max(report.outputs, key=lambda comparison: comparison.max_absolute, default=None)
    if worst is None or not worst.max_absolute:
        return "there is no difference"
    return f"the largest difference is {worst.max_absolute:.3g}, in '{worst.name}'"


def _faults(report: Report, graph: GraphData) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield the faults, each with the places of its layers: wrong layers first, then weights, then outputs."""
    for layer in report.layers:
        if not layer.local.passed:
            text = f"Layer {layer.layer} ({layer.type}) is wrong although its inputs are right: {layer.local.reason}"
            yield text, _places(graph, layer)
    for check in report.weights:
        if not check.passed:
            places = [place for name in check.layers for place in graph.find(name)]
            read = f", read by layer {graph.layers[places[0]]['n']}," if places else ""
            yield f"Weight {check.name}{read} is changed: {check.reason}", places
    for change in report.derivation.differences:
        text = f"Layer {change.layer or change.other} ({change.type}) is not as derived: {'; '.join(change.what)}"
        yield text, graph.find(change.layer)
    for name in () if report.account is None else report.account.missing:
        yield f"Constant {name} is not accounted for", graph.find(name)
    for name in report.unproven:
        yield f"Output {name} proves nothing", graph.find_tensor(name)
    for mismatch in report.attestation or ():
        yield f"The statement does not hold: {mismatch}", ()
    for output in (*report.outputs, *report.against):
        if not output.passed:
            yield f"Output {output.name}: {output.reason}", graph.find_tensor(output.name)


def _actions(report: Report) -> list[str]:
    """List the steps that a reader may take next."""
    if report.verdict in (DERIVED, EQUAL) and not report.attestation:
        return []
    fault = report.first_fault
    actions = []
    if report.attestation:
        actions.append("Compare the files that the statement is about, or have these attested (--attest).")
    if report.unproven:
        actions.append("Give inputs (--inputs) or values (--values) for which these outputs are not always the same.")
    if report.derivation.differences:
        actions.append("Convert the model again: the IR was changed after its conversion.")
    if report.account is not None and report.account.missing and report.derivation.state == INAPPLICABLE:
        actions.append("Compare with an IR that records its derivation, as onnx2ir convert writes it.")
    if any(not check.passed for check in report.weights):
        actions.append(
            "The IR does not hold the weights of this ONNX file. Convert the file again, or compare with the file that "
            "the IR was made from."
        )
    if fault is not None:
        actions.append(
            f"Look at layer {fault.layer} first: everything before it is right. With --minimise FOLDER verify writes "
            f"this part alone, as a model that can be run."
        )
    if report.only_adds_up:
        actions.append("If rounding of this size is good enough, allow it with --rtol or --atol.")
    elif fault is None and any(not comparison.passed for comparison in report.outputs):
        if report.engine == "NumPy":
            actions.append("Compare inner tensors (--layers) to see where the difference begins.")
        else:
            actions.append(f"Verify in NumPy, too (--engine numpy): it shows whether {report.engine} alone differs.")
    if report.against and any(not comparison.passed for comparison in report.against):
        actions.append("List what differs between the two IRs with onnx2ir diff.")
    return actions


def _facts(report: Report, xml: Path | None) -> list[tuple[str, str]]:
    facts = [("reference", report.oracle), ("engine", report.engine), *size_facts(xml)]
    fault = report.first_fault
    if fault is not None:
        facts.append(("first wrong layer", f"{fault.layer} ({fault.type}), tensor {fault.comparison.name}"))
    facts.append(("derivation", report.derivation.reason))
    if report.weights:
        counts = ", ".join(f"{count} {state}" for state, count in report.weight_states.items())
        facts.append(("weights of the ONNX file", counts))
    if report.account is not None:
        facts.append(("values of the IR", report.account.to_text()))
    return facts


def _tables(report: Report) -> list[Table]:
    return [
        Table("Outputs", _COLUMNS, [_row(comparison, report) for comparison in report.outputs], is_open=True),
        Table(
            "Errors against the result in float64",
            ("output", "IR", "IR, greatest", "reference", "reference, greatest", "ties", "ties, greatest"),
            [
                (comparison.name, *(f"{error:.3g}" for error in _errors(comparison.errors)))
                for comparison in report.outputs
                if comparison.errors is not None
            ],
            is_open=True,
        ),
        Table("Against the other IR", _COLUMNS, [_row(comparison) for comparison in report.against], is_open=True),
        Table(
            "Runs",
            ("run", "inputs", "verdict"),
            [
                (sample.description, _shapes(sample.inputs), "passed" if sample.passed else "FAILED")
                for sample in report.samples
            ],
            is_open=True,
        ),
        Table(
            "Layers that are wrong from right inputs",
            ("layer", "type", "ONNX node", "tensor", "max abs", "reason"),
            [
                (
                    layer.layer,
                    layer.type,
                    layer.node,
                    layer.comparison.name,
                    f"{layer.local.max_absolute:.3g}",
                    layer.local.reason,
                )
                for layer in report.layers
                if not layer.local.passed
            ],
            is_open=True,
        ).merged(),
        Table(
            "Layers that are not as derived",
            ("layer", "type", "difference"),
            [
                (change.layer or change.other, change.type, "; ".join(change.what))
                for change in report.derivation.differences
            ],
            is_open=True,
        ).merged(),
        Table(
            "Weights of the ONNX file",
            ("tensor", "state", "form", "greatest error", "layers", "reason"),
            [
                (weight.name, weight.state, weight.form, f"{weight.error:.3g}", ", ".join(weight.layers), weight.reason)
                for weight in sorted(report.weights, key=lambda check: check.passed)
            ],
        ).merged(),
        Table(
            "Contracts of passes and rules",
            ("pass or rule", "layers", "contract", "holds for", "why"),
            [_contract_row(applied) for applied in report.contracts],
            note=f"How far each may change results: {contracts_text(report.contracts)}.",
        ),
        Table(
            "What the ONNX nodes became",
            ("ONNX node", "tensor", "layers"),
            [(layer.node, layer.comparison.name, ", ".join(layer.part)) for layer in report.layers],
        ).merged(),
    ]


def _contract_row(applied: AppliedContract) -> tuple[str, ...]:
    contract = applied.contract
    columns = ("unknown", "", "") if contract is None else (contract.to_text(), contract.domain, contract.reason)
    return (applied.name, str(applied.layers), *columns)


def _errors(errors: Errors) -> tuple[float, ...]:
    return (
        *(errors.ir, errors.ir_greatest),
        *(errors.reference, errors.reference_greatest),
        *(errors.ties, errors.ties_greatest),
    )


def _shapes(inputs: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in inputs.items()) or "none"


def _state(check: WeightCheck) -> str:
    return f"{check.state} ({check.form})" if check.form else check.state


def _row(comparison: Comparison, report: Report | None = None) -> tuple[str, ...]:
    cells = zip(OUTPUT, output_row(comparison, report))
    return tuple(cell if isinstance(cell, str) else cell[0] for column, cell in cells if column in _COLUMNS)
