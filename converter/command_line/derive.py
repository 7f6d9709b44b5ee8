"""``onnx2ir derive``: an IR beside its derivation from the source."""

from __future__ import annotations

from pathlib import Path

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, State, guarded, print_json

_SHOWN = 40


@main.command()
@click.argument("ir", type=INPUT_FILE)
@click.option(
    "--from", "source", type=INPUT_FILE, required=True, help="The ONNX model, or the IR, that it was converted from."
)
@click.option(
    "--input",
    "input_texts",
    multiple=True,
    metavar="TEXT",
    help="Shapes and values of inputs, as convert takes them, for the first step.",
)
@click.option(
    "--extension", "extensions", multiple=True, type=INPUT_FILE, help="A Python file with translators of operators."
)
@click.option("--all", "everything", is_flag=True, help=f"Show every difference, not the first {_SHOWN} of a kind.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def derive(
    state: State,
    ir: Path,
    source: Path,
    input_texts: tuple[str, ...],
    extensions: tuple[Path, ...],
    everything: bool,
    as_json: bool,
) -> None:
    """Derive IR (.xml) again from its source, in the steps that it records, and compare both bit by bit.

    Exit code 1 where they differ. Constant values of inputs and extensions are not recorded: give them again.

    \b
    Examples:
      onnx2ir derive model.xml --from model.onnx
      onnx2ir derive model.xml --from model.onnx --json
    """
    from converter.equivalence.derivation.rederivation import derive as derive_again

    if as_json:
        refuse_unused("json")
    result = derive_again(ir, source, input=",".join(input_texts) or None, extensions=extensions)
    if as_json:
        print_json(state, result.to_dict())
    else:
        from converter.report.commands import print_rederivation

        print_rederivation(result, ir, None if everything else _SHOWN)
    if not result.same:
        click.get_current_context().exit(1)
