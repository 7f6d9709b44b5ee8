"""verify: run the ONNX model and the IR on the same inputs and compare every output by name."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from converter.equivalence.comparison.runs import Runs
from converter.equivalence.comparison.sides import Sides
from converter.equivalence.comparison.tolerances import chosen_by
from converter.equivalence.derivation.contracts import AppliedContract, contracts_of, contracts_text
from converter.equivalence.derivation.rederivation import INAPPLICABLE, DerivationCheck, check_derivation
from converter.equivalence.inputs.arrays import given_inputs
from converter.equivalence.reference.engines import Engine, engine_for
from converter.equivalence.reference.names_by_order import with_reference_names, with_reference_names_of_ports
from converter.equivalence.reference.onnx_engine import is_onnx, onnx_engine
from converter.equivalence.reference.references import OnnxReference, Reference, reference_for
from converter.equivalence.verdict.decoders import pair_variables
from converter.equivalence.verdict.findings import Findings
from converter.equivalence.verdict.report import Report
from converter.equivalence.verdict.statement import Statement, files_of, statement_of, write_statement
from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource
from converter.options.conversion import options_from, takes
from converter.options.inputs import Bindings
from converter.options.verification import VerificationOptions
from converter.stages import inform, stage, verbosely
from ir_runtime import FileError, Model, read_model
from ir_runtime.boundary import boundary
from ir_runtime.displayed import display
from ir_runtime.files.whole_files import check_folder, check_writable
from ir_runtime.records import record

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
    its largest value: see :mod:`converter.equivalence.comparison.rounded_weights`. The outputs of
    quantised models may differ by as much as onnxruntime's own optimised and plain runs do, and by a step where no
    single layer, given right inputs, is wrong. Where outputs differ by more and no layer is wrong, they count as equal
    if the IR is about as close to the result in float64 as onnxruntime is: see
    :mod:`converter.equivalence.comparison.exact`.

    ``verbose`` logs the stages with their times, at INFO, as ``converter``; to stderr where no logging is set up.

    A :class:`ir_runtime.FileError` is raised at once where ``minimise`` or ``report`` cannot be written. If writing
    fails later, ``unwritten`` of the report has the error.

    Raises :class:`converter.VerificationError` where a side cannot be run, and
    :class:`ir_runtime.ModelError` where the IR cannot be read.
    """
    chosen = options_from(VerificationOptions, options, keywords, "verify")
    statement = None if chosen.attestation is None else Statement(chosen.attestation)
    chosen = chosen if statement is None else statement.adopt(chosen)
    _check_files(chosen, onnx_model, ir)
    ir = os.fspath(ir) if isinstance(ir, os.PathLike) else ir
    with stage("read"):
        if isinstance(onnx_model, os.PathLike):
            onnx_model = os.fspath(onnx_model)
        elif hasattr(onnx_model, "read"):
            onnx_model = onnx_model.read()  # it may be needed more than once
        reference = reference_for(onnx_model)
        bound = chosen.bindings.bound(list(reference.input_names))
    if is_onnx(ir):
        _refuse_layers(chosen)
        subject, findings_of = _onnx_subject(ir, reference, bound), replace(chosen, layers=False, weights=False)
    else:
        subject, findings_of = _ir_subject(ir, onnx_model, reference, chosen, bound), chosen
    runs = Runs(_sides(reference, subject, chosen, bound))
    with stage("run"):
        if chosen.inputs is not None:
            runs.compare("given inputs", given_inputs(chosen.inputs, runs.sides.ports))
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
    against = None if chosen.against is None else _other(chosen.against, chosen)
    outcome = Findings(runs, findings_of, source, subject.derivation).report(against)
    outcome = replace(outcome, contracts=subject.contracts)
    if chosen.attest is not None or statement is not None:
        outcome = _attest(outcome, chosen, statement, onnx_model, ir)
    if chosen.report is not None:
        outcome = _show(outcome, chosen.report, subject, f"{_name_of(onnx_model)} and {_name_of(ir)}")
    inform("contracts: %s", contracts_text(subject.contracts))
    inform("%s: %s", outcome.verdict, outcome.reason)
    return outcome


def _check_files(chosen: VerificationOptions, *sides: object) -> None:
    """Raise an error for files that cannot be written, or that a statement cannot name, before anything is run."""
    if chosen.minimise is not None:
        check_folder(chosen.minimise)
    for path in (chosen.report, chosen.attest):
        if path is not None:
            check_writable(path)
    if chosen.attest is not None or chosen.attestation is not None:
        files_of(*(side for side in (*sides, chosen.inputs, chosen.against) if side is not None))


@record
class _Subject:
    """What is compared with the reference, ready to run, and what is known of its origin."""

    engine: Engine
    derivation: DerivationCheck
    notes: Sequence[str]
    unrounded: Model | None = None
    contracts: tuple[AppliedContract, ...] = ()
    stored: str | None = None
    """The path of the IR where it was read from one, and is compared as it is."""


def _onnx_subject(source: object, reference: Reference, bound: Bindings) -> _Subject:
    with stage("read"):
        engine = onnx_engine(source, bound.frozen, reference)
    engine, notes = with_reference_names_of_ports(engine, reference, bound.frozen, bound.outputs)
    derivation = DerivationCheck(INAPPLICABLE, "an ONNX model has no record of its derivation")
    return _Subject(engine, derivation, [*notes, *engine.notes])


def _ir_subject(
    ir: Any, source: ModelSource | Model, reference: Reference, chosen: VerificationOptions, bound: Bindings
) -> _Subject:
    with stage("read"):
        model, stored = (ir, None) if isinstance(ir, Model) else (read_model(ir), ir)
    derivation, unrounded = check_derivation(model, source, {"input": chosen.input, "freeze": chosen.freeze})
    contracts, states = contracts_of(model), _states_of(model, reference, bound.frozen, bound.outputs)
    if states:
        stored, model = None, _with_states_as_inputs(model, states)
        unrounded = None if unrounded is None else _with_states_as_inputs(unrounded, states)
    named, notes = with_reference_names(model, reference, bound.frozen, bound.outputs)
    stored = stored if named is model else None
    engine = engine_for(chosen.engine, named, stored, **chosen.running)
    notes += engine.notes
    notes += [f"variables were compared as inputs and outputs: {', '.join(states)}"] if states else []
    return _Subject(engine, derivation, notes, unrounded, contracts, stored)


def _sides(reference: Reference, subject: _Subject, chosen: VerificationOptions, bound: Bindings) -> Sides:
    is_narrow = isinstance(reference, OnnxReference) and reference.graph.is_narrow
    sides = Sides(
        reference,
        subject.engine.model,
        subject.engine,
        chosen_by(chosen.rtol, chosen.atol, "" if is_narrow else subject.engine.precision),
        default_tolerance=chosen.rtol is None and chosen.atol is None,
        frozen=bound.frozen,
        requested_outputs=bound.outputs,
        unrounded=subject.unrounded,
        notes=[*subject.notes],
    )
    sides.check_inputs()
    return sides


def _show(outcome: Report, path: str | os.PathLike[str], subject: _Subject, title: str) -> Report:
    """Return the report beside its page."""
    stored = None if subject.stored is None else Path(subject.stored)
    try:
        with stage("page"):
            display(outcome, "page", subject.engine.model, title, Path(path), stored)
        return replace(outcome, page=str(path))
    except FileError as error:  # the report must not be lost with the page
        return replace(outcome, unwritten=(*outcome.unwritten, str(error)))


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
    pairs = pair_variables(missing, list(reference.output_names))
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
