"""``onnx2ir verify``: an ONNX model or IR compared with an IR, and how a report is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.options import field_options, verification_options
from converter.command_line.program import main
from converter.command_line.several import Outcome, finish_several, for_each
from converter.command_line.state import MODEL_FILE, State, guarded, print_json
from converter.options.verification import VerificationOptions
from converter.report.tables import out
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from converter.equivalence import Report
    from converter.equivalence.verdict.steps import StepsReport
    from converter.folders.pipeline import Pipeline
    from ir_runtime.displayed import Printed


@main.command("verify")
@click.argument("files", nargs=-1, type=MODEL_FILE, metavar="MODEL IR")
@field_options(VerificationOptions)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    help="Compare a language model and its stateful IR step by step: a prompt, then N tokens, batches and beams.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@guarded
def verify_command(state: State, files: tuple[Path, ...], as_json: bool, steps: int | None, **values: Any) -> None:
    """Compare the ONNX file MODEL, or another IR, with the IR (.xml), output by output and weight by weight.

    The verdict is derived or equal (exit code 0), unproven or different (1). With --steps both may be folders with a
    language model. Several models are compared in pairs, or with the IRs of
    their names in a folder that comes last.

    \b
    Examples:
      onnx2ir verify model.onnx model.xml
      onnx2ir verify model.onnx model.xml --inputs photo.npz --rtol 1e-4
      onnx2ir verify model.onnx model.xml --layers --json
      onnx2ir verify model.onnx model.xml --values "image=0..1" --stress --engine openvino
      onnx2ir verify model.onnx model.xml --device AUTO --config PERFORMANCE_HINT=LATENCY
      onnx2ir verify model.onnx model.xml --minimise fault/ --report fault.html
      onnx2ir verify model.onnx ours.xml --against theirs.xml
      onnx2ir verify model.onnx model.xml before.xml after.xml
      onnx2ir verify model.onnx other.onnx ir/
      onnx2ir verify llama-onnx/ llama-ir/ --steps 16
    """
    pairs = _pairs(files, by_steps=steps is not None)
    branches = {
        "several": len(pairs) > 1,
        "steps": steps is not None,
        "given": values["inputs"] is not None,
    }
    refuse_unused(*[name for name, is_taken in branches.items() if is_taken])
    options = verification_options(values)
    if len(pairs) == 1:
        ((model, ir),) = pairs
        result, report = _verify_one(state, model, ir, options, steps, as_json)
        if as_json:
            print_json(state, result)
        exit_of(report)
        return
    irs = dict(pairs)
    outcomes = for_each(state, list(irs), lambda model: _verify_one(state, model, irs[model], options, steps, as_json))
    finish_several(state, outcomes, as_json)


def _pairs(files: Sequence[Path], *, by_steps: bool) -> list[tuple[Path, Path]]:
    """Models and their IRs: two and two, or models and then the folder with the IRs of their names."""
    if len(files) < 2:
        raise click.UsageError("a MODEL and its IR are needed")
    *models, folder = files
    if folder.is_dir() and not by_steps and not any(model.is_dir() for model in models):
        irs = [folder / f"{model.stem}.xml" for model in models]
        missing = [str(ir) for ir in irs if not ir.is_file()]
        if not missing:
            return list(zip(models, irs))
        if len(models) > 1:
            raise click.UsageError(f"there is no {missing[0]}")
    if len(files) % 2:
        raise click.UsageError(f"{len(files)} files are no pairs of MODEL and IR, and the last one is no folder of IRs")
    pairs = list(zip(files[::2], files[1::2]))
    if len(dict(pairs)) < len(pairs):
        raise click.UsageError("a model is given twice: --against compares two IRs with one model")
    return pairs


def _verify_one(
    state: State, model: Path, ir: Path, options: VerificationOptions, steps: int | None, as_json: bool
) -> Outcome:
    """Compare a pair; its JSON, which is not printed here, and the report."""
    if steps is not None:
        names = ("rtol", "atol", "seed", "engine", "device", "config", "accept_unproven")
        return _verify_steps(state, model, ir, as_json, steps=steps, **{name: getattr(options, name) for name in names})
    from converter.equivalence.verdict.verification import verify

    for path in (model, ir):
        if path.is_dir():
            raise click.UsageError(f"{path} is a folder: a language model in a folder is compared with --steps N")
    state.inform(f"Verifying {ir} against {model}")
    with state.working(f"Verifying {ir.name}"):
        report = verify(model, ir, options=options)
    if not as_json:
        print_report(report)
    if options.report is not None and not report.unwritten:
        state.inform(f"Wrote {options.report}")
    if report.statement:
        state.inform(f"Wrote {report.statement}")
    return report.to_dict(), report


def _verify_steps(state: State, model: Path, ir: Path, as_json: bool, **options: Any) -> Outcome:
    from converter.equivalence.verdict.steps import verify_steps
    from converter.folders.recognition import recognise
    from converter.folders.source import MODEL

    model = decoder_of(recognise(model), "--steps") if model.is_dir() else model
    ir = ir / MODEL if ir.is_dir() else ir
    state.inform(f"Verifying {ir} against {model}")
    with state.working(f"Verifying {ir.name}"):
        report = verify_steps(model, ir, **options)
    if not as_json:
        print_report(report)
    return report.to_dict(), report


def decoder_of(pipeline: Pipeline, option: str) -> Path:
    """The decoder in a folder, for ``option``, which compares it step by step; no other model can be."""
    from converter.folders.language import ENCODER

    folder = pipeline.path
    if pipeline.is_decoder:
        return pipeline.parts[0].source
    first = pipeline.parts[0]
    if first.target == ENCODER:
        raise click.UsageError(
            f"{option} cannot be used with {folder}: steps are of decoders alone, but this model has an encoder. "
            f"Converting has compared the first call of the decoder; 'onnx2ir verify {first.source.name} "
            f"{ENCODER}' compares the encoder"
        )
    raise click.UsageError(
        f"{option} cannot be used with {folder}, which is for {pipeline.task}: steps are of decoders alone. "
        f"'onnx2ir verify {first.source.relative_to(pipeline.path)} {first.target}' compares a part"
    )


def print_report(report: Printed | None) -> None:
    """Print a report to stdout, where there is one."""
    if report is not None:
        report.draw(out())


def report_written(
    state: State, as_json: bool, result: dict[str, Any], files: Sequence[Path], text: str, report: Report | None = None
) -> None:
    """Print ``result`` with the sizes of the files that were written, or these and ``text``; end as the report says."""
    if as_json:
        verification = {} if report is None else {"verification": report.to_dict()}
        print_json(state, {**result, "files": {str(path): path.stat().st_size for path in files}, **verification})
    else:
        state.inform("Wrote " + ", ".join(f"{path} ({size_text(path.stat().st_size)})" for path in files) + text)
        print_report(report)
    exit_of(report)


def exit_of(report: Report | StepsReport | None) -> None:
    """Exit code 1 where a report did not pass, or what was asked for could not be written."""
    unwritten = () if report is None else getattr(report, "unwritten", ())
    for problem in unwritten:
        click.echo(f"error: {problem}", err=True)
    if report is not None and (not report.passed or unwritten):
        click.get_current_context().exit(1)
