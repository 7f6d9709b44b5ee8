"""``onnx2ir roundtrip``: there and back, and what changed on the way."""

from __future__ import annotations

from pathlib import Path

import click

from converter.command_line.program import main
from converter.command_line.state import MODEL_FILE, State, guarded, print_json
from converter.report.tables import out


@main.command()
@click.argument("model", type=MODEL_FILE)
@click.option("--opset", type=int, metavar="N", help="As for export: the version of ONNX's operators.")
@click.option("--contrib", is_flag=True, help="As for export: use onnxruntime's own operators, too.")
@click.option("--target", "runtime", default="any", show_default=True, metavar="NAME", help="As for convert.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@guarded
def roundtrip(
    state: State, model: Path, opset: int | None, contrib: bool, runtime: str, seed: int, as_json: bool
) -> None:
    """Take MODEL (.onnx or .xml) to the other format, back, and again: numbers stay, and then every layer does.

    Exit code 1 where numbers differ, or where the second pass still changes a layer, an attribute or a weight.

    \b
    Examples:
      onnx2ir roundtrip model.onnx
      onnx2ir roundtrip model.xml --opset 17 --json
    """
    from converter.workflow.round_trips import round_trip

    with state.working(f"Going round with {model.name}"):
        trip = round_trip(model, opset=opset, contrib=contrib, target=runtime, seed=seed)
    if as_json:
        print_json(state, trip.to_dict())
    else:
        trip.draw(out())
    if not trip.passed:
        click.get_current_context().exit(1)
