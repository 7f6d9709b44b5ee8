"""``onnx2ir convert`` for language models: a folder in and a folder out, and the way back from variables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.json_output import print_json
from converter.command_line.state import State
from converter.command_line.verify import decoder_in, exit_of, print_report
from converter.options import STEPS
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from converter.options import ConversionOptions, SavingOptions


def convert_to_stateless(
    state: State,
    model: Path,
    target: Path | None,
    as_json: bool,
    saving: SavingOptions,
) -> None:
    """Write the stateful IR ``model`` with inputs and outputs in place of its variables."""
    from converter.conversion import save
    from converter.states.stateless import make_stateless
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
    options: ConversionOptions,
    saving: SavingOptions,
) -> None:
    """Convert the language model in ``folder``."""
    from converter.language_models.convert import convert_language_model

    if output is None:
        raise click.UsageError("the folder to write is required: -o FOLDER")
    reference = None if check_seed is None else decoder_in(folder, "--verify")
    state.inform(f"Converting {folder}")
    with state.working(f"Converting {folder.name}"):
        made = convert_language_model(folder, output, options=options, saving=saving)
    report = None
    if reference is not None and check_seed is not None:
        from converter.equivalence.steps import verify_steps

        with state.working(f"Verifying {made.model.name}"):
            report = verify_steps(reference, made.model, steps=STEPS, seed=check_seed)
    weights = made.model.with_suffix(".bin")
    if as_json:
        result: dict[str, Any] = {
            "xml": str(made.model),
            "bin": str(weights),
            "encoder": None if made.encoder is None else str(made.encoder),
            "files": [str(file) for file in made.files],
            "tokenizer": {"written": made.tokenizers.written, "why_not": made.tokenizers.why_not},
            "without_paged_attention": list(made.without_paged_attention),
            "target": options.target,
        }
        if report is not None:
            result["verification"] = report.to_dict()
        print_json(state, result)
        exit_of(report)
        return
    for xml in (made.encoder, made.model):
        if xml is not None:
            part = xml.with_suffix(".bin")
            state.inform(f"Wrote {xml} and {part} ({size_text(part.stat().st_size)})")
    for reason in made.without_paged_attention:
        state.inform(f"Paged attention (ATTENTION_BACKEND=PA) cannot run the model: {reason}")
    if not made.tokenizers.written:
        state.inform(f"The tokenizer was not written: {made.tokenizers.why_not}")
        if made.tokenizers.command:
            state.inform(f"This command writes it: {made.tokenizers.command}")
    print_report(report)
    exit_of(report)
