"""``onnx2ir run``: an IR executed in NumPy, and where the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.drawing import json_text, new_table, out
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, MODEL_FILE, OUTPUT_FILE, State, guarded

if TYPE_CHECKING:
    import numpy as np

    from ir_runtime import Port
    from ir_runtime.execution.profile import Profile


@main.command()
@click.argument("ir", type=MODEL_FILE)
@click.option("--inputs", type=INPUT_FILE, help="Inputs as .npz (by name) or .npy (for the only one).")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("-o", "--output", type=OUTPUT_FILE, help="Save the outputs as .npz.")
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    help="Execute so many times, after one call to warm up, and print the mean time.",
)
@click.option("--profile", is_flag=True, help="Show where the time goes, by type of layer and by layer.")
@click.option("--json", "as_json", is_flag=True, help="Print the outputs' figures (and times) as JSON.")
@guarded
def run(
    state: State,
    ir: Path,
    inputs: Path | None,
    seed: int,
    output: Path | None,
    repeat: int | None,
    profile: bool,
    as_json: bool,
) -> None:
    """Execute the IR (.xml) in NumPy.

    \b
    Examples:
      onnx2ir run model.xml
      onnx2ir run model.xml --inputs photo.npz -o result.npz
      onnx2ir run model.xml --repeat 20 --profile
    """
    from rich.markup import escape

    from converter.equivalence.inputs import given_inputs, random_inputs
    from ir_runtime import compile_model, read_model
    from ir_runtime.files.whole_files import check_target, write_whole

    if output is not None:
        check_target(output)
    with state.working(f"Reading {ir.name}"):
        compiled = compile_model(read_model(ir))
    feeds = random_inputs(compiled.inputs, seed) if inputs is None else given_inputs(inputs, compiled.inputs)
    with state.working(f"Running {ir.name}"):
        result = compiled(feeds)
    if output is not None:
        import numpy as np

        arrays: dict[str, Any] = {port.name: value for port, value in zip(compiled.outputs, result.to_list())}
        write_whole(output, lambda file: np.savez(file, **arrays))
        state.inform(f"Wrote {output}")
    rows = [_figures(port, value) for port, value in zip(compiled.outputs, result.to_list())]
    times = None
    if profile or repeat is not None:
        with state.working(f"Timing {ir.name}"):
            times = compiled.profile(feeds, repeat=repeat or 1)
    if as_json:
        found: dict[str, Any] = {"outputs": rows}
        if times is not None:
            timed = times.to_dict()
            found.update(timed if profile else {key: timed[key] for key in ("calls", "milliseconds")})
        click.echo(json_text(found))
        return
    table = new_table("output", "type", "shape", "min", "mean", "max")
    for row in rows:
        figures = [row["min"], row["mean"], row["max"]]
        table.add_row(
            escape(row["name"]), row["type"], str(row["shape"]), *["-" if f is None else f"{f:.6g}" for f in figures]
        )
    out().print(table)
    if times is not None:
        _print_times(times, profile)


_LAYERS_SHOWN = 20


def _print_times(times: Profile, layers: bool) -> None:
    from rich.markup import escape

    if layers:
        by_type = new_table("type", "layers", "ms", "share")
        for row in times.by_type():
            by_type.add_row(escape(row.type), str(row.count), f"{row.seconds * 1e3:.3f}", f"{row.share:.1%}")
        out().print(by_type)
        longest = new_table("layer", "type", "ms")
        for layer in times.layers[:_LAYERS_SHOWN]:
            longest.add_row(escape(layer.name), escape(layer.type), f"{layer.seconds * 1e3:.3f}")
        out().print(longest)
    out().print(f"{times.seconds * 1e3:.3f} ms a call, mean of {times.calls}")


def _figures(port: Port, value: np.ndarray[Any, Any]) -> dict[str, Any]:
    import numpy as np

    numeric = value.dtype.kind not in "OUST" and value.size > 0
    as_float = value.astype(np.float64) if numeric else None
    return {
        "name": port.name,
        "type": str(port.element_type),
        "shape": list(value.shape),
        "min": None if as_float is None else float(as_float.min()),
        "mean": None if as_float is None else float(as_float.mean()),
        "max": None if as_float is None else float(as_float.max()),
    }
