"""``onnx2ir ops``: the operators that can be converted, and those that a model needs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import click

from converter.command_line.program import main
from converter.command_line.state import MODEL_FILE, State, guarded, print_json
from converter.report.commands import print_operators, print_supported


@main.command()
@click.argument("model", type=MODEL_FILE, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def ops(state: State, model: Path | None, as_json: bool) -> None:
    """List all operators: what they become, how many of ONNX's test cases pass, and what is not supported.

    With a MODEL (.onnx), list those that it needs.

    The exit code is 1 where the model needs one that cannot be converted.

    \b
    Examples:
      onnx2ir ops
      onnx2ir ops model.onnx
    """
    from converter.from_onnx.support import needed_operators, support_table, supported_operators

    if model is None:
        supported = supported_operators()
        if as_json:
            print_json(state, {"operators": [asdict(operator) for operator in supported]})
            return
        if not sys.stdout.isatty():
            click.echo(support_table())
            return
        print_supported(supported)
        return
    needed = needed_operators(model)
    if as_json:
        print_json(state, {"operators": [asdict(operator) for operator in needed]})
    else:
        print_operators(needed)
    if any(entry.problem for entry in needed):
        click.get_current_context().exit(1)
