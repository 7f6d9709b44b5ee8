"""``onnx2ir convert`` for a folder in and a folder out, and the way back from variables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.state import State, print_json
from converter.command_line.verify import decoder_of, exit_of, print_report
from converter.options.conversion import STEPS
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from converter.options.conversion import ConversionOptions, FolderOptions, SavingOptions


def convert_to_stateless(
    state: State,
    model: Path,
    target: Path | None,
    as_json: bool,
    saving: SavingOptions,
) -> None:
    """Write the stateful IR ``model`` with inputs and outputs in place of its variables."""
    from converter.conversion.convert import save
    from converter.passes.states.stateless import make_stateless
    from ir_runtime import read_model

    if target is None:
        raise click.UsageError("the .xml to write is required: -o PATH")
    state.inform(f"Reading {model}")
    read = read_model(model)
    count = make_stateless(read)
    target.parent.mkdir(parents=True, exist_ok=True)
    save(read, target, saving)
    if as_json:
        print_json(state, {"xml": str(target), "bin": str(target.with_suffix(".bin")), "variables": count})
        return
    state.inform(f"Wrote {target}: {count} variables are inputs and outputs")


def convert_folder(
    state: State,
    folder: Path,
    output: str | None,
    as_json: bool,
    check_seed: int | None,
    reading: FolderOptions,
    options: ConversionOptions,
    saving: SavingOptions,
) -> None:
    """Convert the models in ``folder``."""
    from converter.folders.convert import convert_pipeline
    from converter.folders.recognition import recognise

    pipeline = recognise(folder, reading.task, reading.variant)  # whose error says more than that of a missing -o
    if output is None:
        raise click.UsageError("the folder to write is required: -o FOLDER")
    reference = None if check_seed is None else decoder_of(pipeline, "--verify")
    state.inform(f"Converting {folder}")
    with state.working(f"Converting {folder.name}"):
        written = convert_pipeline(pipeline, Path(output), options, saving, prepares_images=reading.preprocess_images)
    report = None
    if reference is not None and check_seed is not None:
        from converter.equivalence.verdict.steps import verify_steps

        with state.working(f"Verifying {written.models[-1].name}"):
            report = verify_steps(reference, written.models[-1], steps=STEPS, seed=check_seed)
    if as_json:
        result: dict[str, Any] = {
            "task": pipeline.task,
            "pipeline": pipeline.runtime,
            "models": [
                {"part": part.name, "xml": str(xml), "bin": str(xml.with_suffix(".bin"))}
                for part, xml in zip(pipeline.parts, written.models)
            ],
            "files": [str(file) for file in written.files],
            "tokenizers": [
                {"written": entry.written, "why_not": entry.why_not, "command": entry.command}
                for entry in written.tokenizers
            ],
            "without_paged_attention": list(written.without_paged_attention),
            "target": options.target,
        }
        if report is not None:
            result["verification"] = report.to_dict()
        print_json(state, result)
        exit_of(report)
        return
    others = f"; --task may also be {', '.join(pipeline.other_tasks)}" if pipeline.other_tasks else ""
    state.inform(f"Recognised as {pipeline.task}, for {pipeline.runtime}{others}")
    for xml in written.models:
        weights = xml.with_suffix(".bin")
        state.inform(f"Wrote {xml} and {weights} ({size_text(weights.stat().st_size)})")
    for reason in written.without_paged_attention:
        state.inform(f"Paged attention (ATTENTION_BACKEND=PA) cannot run the model: {reason}")
    for tokenizer in written.tokenizers:
        if not tokenizer.written:
            state.inform(f"The tokenizer was not written: {tokenizer.why_not}")
            if tokenizer.command:
                state.inform(f"This command writes it: {tokenizer.command}")
    if pipeline.call:
        state.inform(f"Python runs it with {pipeline.call.replace('FOLDER', repr(str(output)))}")
    print_report(report)
    exit_of(report)
