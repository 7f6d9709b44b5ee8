"""``onnx2ir verify``: an ONNX file against an IR, and how a report is shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from converter.command_line.drawing import json_text, new_table, out
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, State, guarded

if TYPE_CHECKING:
    from converter.equivalence import Report


@main.command("verify")
@click.argument("model", type=INPUT_FILE)
@click.argument("ir", type=INPUT_FILE)
@click.option("--inputs", type=INPUT_FILE, help="Inputs as .npz (by name) or .npy (for the only one).")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance instead of each type's own.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance instead of each type's own.")
@click.option("--layers/--no-layers", default=None, help="Compare inner tensors; by default where an output fails.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@guarded
def verify_command(
    state: State,
    model: Path,
    ir: Path,
    inputs: Path | None,
    seed: int,
    rtol: float | None,
    atol: float | None,
    layers: bool | None,
    as_json: bool,
) -> None:
    """Compare the ONNX file MODEL with the IR (.xml), output by output.

    \b
    Examples:
      onnx2ir verify model.onnx model.xml
      onnx2ir verify model.onnx model.xml --inputs photo.npz --rtol 1e-4
      onnx2ir verify model.onnx model.xml --layers --json
    """
    from converter.equivalence import verify

    state.say(f"Verifying {ir} against {model}")
    report = verify(model, ir, inputs=inputs, seed=seed, rtol=rtol, atol=atol, layers=layers)
    if as_json:
        click.echo(json_text(report.to_dict()))
    else:
        print_report(report)
    exit_of(report)


def print_report(report: Report) -> None:
    from rich.markup import escape

    table = new_table("output", "type", "shape", "max abs", "max rel", "ULPs", "cosine", "verdict")
    for row in report.outputs:
        agreed = "within the weights' rounding" if row.tolerance.rounding else "equal"
        verdict = f"[green]{agreed}[/]" if row.passed else f"[red]{escape(row.reason)}[/]"
        table.add_row(
            escape(row.name),
            row.element_type,
            str(list(row.shape)),
            f"{row.max_absolute:.3g}",
            f"{row.max_relative:.3g}",
            "-" if row.max_ulps is None else f"{row.max_ulps:.0f}",
            "-" if row.cosine is None else f"{row.cosine:.7f}",
            verdict,
        )
    console = out()
    console.print(table)
    for kind, tolerance in sorted({(row.element_type, row.tolerance) for row in report.outputs}, key=str):
        rounding = f", rounding of weights {tolerance.rounding:.3g}" if tolerance.rounding else ""
        console.print(
            f"tolerance for {kind}: relative {tolerance.relative:g}, absolute {tolerance.absolute:g}{rounding}"
        )
    first = report.first_divergence
    if first is not None:
        where = f"layer '{first.layer}' ({first.type}), tensor '{first.comparison.name}'"
        console.print(f"first divergence: {escape(where)}: {escape(first.comparison.reason)}")
    if report.layers_problem:
        console.print(f"inner tensors could not be compared: {escape(report.layers_problem)}")
    inputs = "given inputs" if report.seed is None else f"random inputs of seed {report.seed}"
    verdict = "[bold green]PASSED[/]" if report.passed else "[bold red]FAILED[/]"
    console.print(f"{verdict} against {escape(report.oracle)} on {inputs}")


def exit_of(report: Report | None) -> None:
    if report is not None and not report.passed:
        click.get_current_context().exit(1)
