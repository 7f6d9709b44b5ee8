"""verify: run the ONNX model and the IR on the same inputs and compare every output by name."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.equivalence.contracts import contracts_of, contracts_text
from converter.equivalence.engines import Engine, engine_for
from converter.equivalence.findings import Findings
from converter.equivalence.inputs import given_inputs
from converter.equivalence.names_by_order import with_reference_names, with_reference_names_of_ports
from converter.equivalence.onnx_engine import is_onnx, onnx_engine
from converter.equivalence.rederivation import check_derivation
from converter.equivalence.references import Reference, reference_for
from converter.equivalence.report import INAPPLICABLE, DerivationCheck, Report
from converter.equivalence.runs import Runs
from converter.equivalence.sides import Sides
from converter.equivalence.statement import Statement, files_of, statement_of, write_statement
from converter.equivalence.tolerances import chosen_by, is_narrow
from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource
from converter.options.conversion import options_from, takes
from converter.options.verification import VerificationOptions
from converter.stages import inform, stage, verbosely
from ir_runtime import FileError, Model, read_model
from ir_runtime.boundary import boundary
from ir_runtime.displayed import display
from ir_runtime.files.whole_files import check_folder, check_writable

if TYPE_CHECKING:
    import onnx


@verbosely
@boundary(error=VerificationError)
@takes(VerificationOptions)
def verify(
    onnx_model: ModelSource | Model,
    ir: Model | str | os.PathLike[str] | onnx.ModelProto,
    *,
    options: VerificationOptions | None = None,
    verbose: bool = False,
    **keywords: Any,
) -> Report:
    """Run both sides on the same inputs and compare every output by name.

    ``onnx_model`` is the reference: an ONNX model, or another IR (``.xml``). ``ir`` may be an ONNX model, too (a path
    that ends in ``.onnx``, or an ``onnx.ModelProto``): then outputs alone are compared. ``options`` are
    :class:`converter.VerificationOptions`, or the keywords are their fields:

    {options}

    Where the IR's weights were compressed, each output may also differ by the effect of their rounding, up to half of
    its largest value: see :mod:`converter.equivalence.rounded_weights`. The outputs of
    quantised models may differ by as much as onnxruntime's own optimised and plain runs do, and by a step where no
    single layer, given right inputs, is wrong. Where outputs differ by more and no layer is wrong, they count as equal
    if the IR is about as close to the result in float64 as onnxruntime is: see :mod:`converter.equivalence.exact`.

    ``verbose`` logs the stages with their times, at INFO, as ``converter``; to stderr where no logging is set up.

    A :class:`ir_runtime.FileError` is raised at once where ``minimise`` or ``report`` cannot be written. If writing
    fails later, ``unwritten`` of the report has the error.

    Raises :class:`converter.VerificationError` where a side cannot be run, and
    :class:`ir_runtime.ModelError` where the IR cannot be read.
    """
    chosen = options_from(VerificationOptions, options, keywords, "verify")
    statement = None if chosen.attestation is None else Statement(chosen.attestation)
    chosen = chosen if statement is None else statement.adopt(chosen)
    report, layers = chosen.report, chosen.layers
    if chosen.minimise is not None:
        check_folder(chosen.minimise)
    for path in (report, chosen.attest):
        if path is not None:
            check_writable(path)
    if chosen.attest is not None or statement is not None:
        files_of(*(side for side in (onnx_model, ir, chosen.inputs, chosen.against) if side is not None))
    ir = os.fspath(ir) if isinstance(ir, os.PathLike) else ir
    if is_onnx(ir):
        _refuse_layers(chosen)
        layers = False
    stored = None if isinstance(ir, Model) or is_onnx(ir) else ir
    with stage("read"):
        if isinstance(onnx_model, os.PathLike):
            onnx_model = os.fspath(onnx_model)
        elif hasattr(onnx_model, "read"):
            onnx_model = onnx_model.read()  # it may be needed more than once
        reference = reference_for(onnx_model)
        bound = chosen.bindings.bound(list(reference.input_names))
        graph = None if reference.oracle is None else reference.oracle.graph
        second = onnx_engine(ir, bound.frozen, graph) if is_onnx(ir) else None
        model = second.model if second is not None else ir if isinstance(ir, Model) else read_model(ir)
    if second is None:
        derivation, unrounded = check_derivation(model, onnx_model, {"input": chosen.input, "freeze": chosen.freeze})
        contracts, states = contracts_of(model), _states_of(model, reference, bound.frozen, bound.outputs)
    else:
        derivation, unrounded = DerivationCheck(INAPPLICABLE, "an ONNX model has no record of its derivation"), None
        contracts, states = (), {}
    if states:
        stored, model = None, _with_states_as_inputs(model, states)
        unrounded = None if unrounded is None else _with_states_as_inputs(unrounded, states)
    notes: list[str] = []
    if second is None:
        named, notes = with_reference_names(model, reference, bound.frozen, bound.outputs)
        stored, model = (stored, model) if named is model else (None, named)
    else:
        second, notes = with_reference_names_of_ports(second, reference, bound.frozen, bound.outputs)
    running = second or engine_for(chosen.engine, model, stored, **chosen.running)
    sides = Sides(
        reference,
        model,
        running,
        chosen_by(chosen.rtol, chosen.atol, "" if graph is not None and is_narrow(graph) else running.precision),
        default_tolerance=chosen.rtol is None and chosen.atol is None,
        frozen=bound.frozen,
        requested_outputs=bound.outputs,
        unrounded=unrounded,
    )
    sides.notes += [*notes, *running.notes]
    sides.check_inputs()
    if states:
        sides.notes.append(f"variables were compared as inputs and outputs: {', '.join(states)}")
    runs = Runs(sides)
    with stage("run"):
        if chosen.inputs is not None:
            runs.compare("given inputs", given_inputs(chosen.inputs, sides.ports))
        else:
            runs.set_values(chosen.values or {})
            runs.random(chosen.seed, max(1, chosen.samples), bound.shapes, bound.batch)
            if chosen.stress:
                runs.stress(chosen.seed)
    if not runs.runs[0].expected:
        raise VerificationError(f"{_name_of(onnx_model)} has no outputs, so that there is nothing to compare")
    for run in runs.runs:
        inform("run on %s %s: %s", run.description, run.shapes, "equal" if run.passed else "different")
    source = b"" if isinstance(onnx_model, Model) else onnx_model
    conversion = {name: getattr(chosen, name) for name in ("input", "freeze", "output", "batch")}
    findings = Findings(runs, source, conversion, derivation)
    outcome = findings.report(
        chosen.seed if chosen.inputs is None else None,
        layers=layers if layers is not None or report is None else True,
        weights=chosen.weights and second is None,
        against=None if chosen.against is None else _other(chosen.against, chosen),
        folder=None if chosen.minimise is None else Path(chosen.minimise),
        histograms=report is not None,
        directed=chosen.stress and layers is not False,
        accept_unproven=chosen.accept_unproven,
    )
    outcome = replace(outcome, contracts=contracts)
    if chosen.attest is not None or statement is not None:
        outcome = _attest(outcome, chosen, statement, onnx_model, ir)
    if report is not None:
        title = f"{_name_of(onnx_model)} and {_name_of(ir)}"
        try:
            with stage("page"):
                display(outcome, "page", model, title, Path(report), None if stored is None else Path(stored))
            outcome = replace(outcome, page=str(report))
        except FileError as error:  # the report must not be lost with the page
            outcome = replace(outcome, unwritten=(*outcome.unwritten, str(error)))
    inform("contracts: %s", contracts_text(contracts))
    inform("%s: %s", outcome.verdict, outcome.reason)
    return outcome


def _refuse_layers(options: VerificationOptions) -> None:
    """Raise :class:`VerificationError` where an option is set that has no meaning for two ONNX models."""
    for name in ("layers", "minimise", "report", "against"):
        if getattr(options, name):
            raise VerificationError(f"{name} cannot be used with two ONNX models, of which outputs alone are compared")


def _attest(outcome: Report, chosen: VerificationOptions, statement: Statement | None, *sides: object) -> Report:
    """Return the report beside the ``statement``, once the one of now is written where that is asked for."""
    with stage("statement"):
        now = statement_of(outcome, chosen, *sides)
    if statement is not None:
        notes = (*outcome.notes, *statement.notes(now))
        outcome = replace(outcome, attestation=statement.mismatches(now), notes=notes)
    if chosen.attest is not None:
        try:
            write_statement(now, chosen.attest)
            outcome = replace(outcome, statement=os.fspath(chosen.attest))
        except FileError as error:  # the report must not be lost with the statement
            outcome = replace(outcome, unwritten=(*outcome.unwritten, str(error)))
    return outcome


def _states_of(
    model: Model, reference: Reference, frozen: Collection[str], outputs: Sequence[str] | None
) -> dict[str, tuple[str, str]]:
    """Return the variables that hold inputs of the reference, which ``model`` has not: their input and output there."""
    available = {*frozen, *(name for node in model.parameters for name in node.end_names)}
    missing = [name for name in reference.required_inputs(outputs) if name not in available]
    variables = {getattr(node.op, "variable_id", "") for node in model.sinks} if missing else set()
    pairs = {start + end: (start, end) for start in missing for end in reference.output_names}
    return {name: pairs[name] for name in variables & pairs.keys()}


def _with_states_as_inputs(model: Model, states: Mapping[str, tuple[str, str]]) -> Model:
    """Return a copy of ``model`` without variables, whose inputs and outputs are those of the reference."""
    from converter.passes.states.stateless import make_stateless  # few models have states

    copy = model.clone()
    make_stateless(copy)
    for node in (*copy.parameters, *copy.results):
        for name, (start, end) in states.items():
            if node.op.role == "parameter" and name in node.end_names:
                node.outputs[0].names = [start]
            elif node.op.role == "result" and f"{name}.next" in node.output_names:
                node.output_names = [end]
    return copy


def _name_of(side: object) -> str:
    return Path(side).name if isinstance(side, (str, os.PathLike)) else "the model"


def _other(against: Model | str | os.PathLike[str], chosen: VerificationOptions) -> Engine:
    model, stored = (against, None) if isinstance(against, Model) else (read_model(against), against)
    return engine_for(chosen.engine, model, stored, **chosen.running)
