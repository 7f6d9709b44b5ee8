"""``onnx2ir run``: an IR executed in NumPy, and where the time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, MODEL_FILE, OUTPUT_FILE, State, guarded, print_json
from converter.report.commands import print_figures, print_times
from converter.stages import stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from ir_runtime import InferenceResult, Port, Session
    from ir_runtime.graph import Array


@main.command()
@click.argument("ir", type=MODEL_FILE)
@click.option(
    "--inputs",
    type=INPUT_FILE,
    multiple=True,
    help="Inputs as .npz (by name) or .npy (for the only one). Several files are those of the first steps.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("-o", "--output", type=OUTPUT_FILE, help="Save the outputs as .npz; of steps, as NAME/1, NAME/2 ...")
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Execute so many steps, between which the model's variables (states) keep their values.",
)
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
    inputs: tuple[Path, ...],
    seed: int,
    output: Path | None,
    steps: int | None,
    repeat: int | None,
    profile: bool,
    as_json: bool,
) -> None:
    """Execute the IR (.xml) in NumPy.

    A model with variables, such as a language model with a cache, is executed step by step with --steps. Each step gets
    the same inputs, unless there are several files: then the first step gets the first one, and so on, and the steps
    after the last file its inputs. With a single file, an array of one dimension more than its input has one part for
    each step.

    \b
    Examples:
      onnx2ir run model.xml
      onnx2ir run model.xml --inputs photo.npz -o result.npz
      onnx2ir run model.xml --repeat 20 --profile
      onnx2ir run decoder.xml --inputs prompt.npz --inputs token.npz -o logits.npz
      onnx2ir run gru.xml --inputs frames.npz --steps 100
    """
    from ir_runtime import compile_model, read_model
    from ir_runtime.files.whole_files import check_target

    if steps is None and len(inputs) > 1:
        steps = len(inputs)
    if len(inputs) > (steps or 1):
        raise click.UsageError(f"there are {len(inputs)} files of inputs, but only {steps} steps")
    if steps is not None:
        refuse_unused("steps")
    if inputs:
        refuse_unused("given")
    if output is not None:
        check_target(output)
    with state.working(f"Reading {ir.name}"):
        with stage("read"):
            model = read_model(ir)
        with stage("compile"):
            compiled = compile_model(model)
    feeds = _inputs_of_steps(compiled.inputs, inputs, seed, steps)
    with state.working(f"Running {ir.name}"), stage("run"):
        results = [compiled(feeds[0])] if steps is None else _results_of_steps(compiled.session(), feeds)
    if output is not None:
        _save(output, results, steps is not None)
        state.inform(f"Wrote {output}")
    rows = [[_figures(port, value) for port, value in zip(compiled.outputs, result.to_list())] for result in results]
    times = None
    if profile or repeat is not None:
        with state.working(f"Timing {ir.name}"), stage("time"):
            times = (
                compiled.profile(feeds[0], repeat=repeat or 1) if steps is None else compiled.session().profile(feeds)
            )
    if as_json:
        record: dict[str, Any] = (
            {"outputs": rows[0]} if steps is None else {"steps": [{"outputs": row} for row in rows]}
        )
        if times is not None:
            timed = times.to_dict()
            record.update(timed if profile else {key: timed[key] for key in ("calls", "milliseconds")})
        print_json(state, record)
        return
    print_figures(rows, steps is not None)
    if times is not None:
        print_times(times, profile)


def _inputs_of_steps(
    ports: Sequence[Port], files: Sequence[Path], seed: int, steps: int | None
) -> list[dict[str, Array]]:
    """The inputs of each step; of a single call where ``steps`` is None."""
    from converter.equivalence.inputs.arrays import given_inputs, random_inputs

    inputs_of_files = [given_inputs(path, ports) for path in files] or [random_inputs(ports, seed)]
    if steps is None or len(inputs_of_files) > 1:
        return inputs_of_files + inputs_of_files[-1:] * ((steps or 1) - len(inputs_of_files))
    return [
        {port.name: _part(port, inputs_of_files[0][port.name], step, steps) for port in ports} for step in range(steps)
    ]


def _part(port: Port, value: Array, step: int, steps: int) -> Array:
    """A step's part of a value that has one dimension more than the input; otherwise the value."""
    from ir_runtime import ExecutionError

    if port.shape is None or value.ndim != len(port.shape) + 1:
        return value
    if len(value) != steps:
        raise ExecutionError(
            f"the values of input '{port.name}' are those of {len(value)} steps, but there are {steps}"
        )
    part: Array = value[step]
    return part


def _results_of_steps(session: Session, feeds: Sequence[dict[str, Array]]) -> list[InferenceResult]:
    from ir_runtime import ExecutionError, ModelError

    results = []
    for number, feeds_of_step in enumerate(feeds, 1):
        try:
            results.append(session(feeds_of_step))
        except ModelError as error:
            raise ExecutionError(f"step {number}: {error}") from error
    return results


def _save(path: Path, results: Sequence[InferenceResult], are_steps: bool) -> None:
    import numpy as np

    from ir_runtime.files.whole_files import write_whole

    arrays: dict[str, Any] = {}
    for number, result in enumerate(results, 1):
        for name, value in zip(result, result.to_list()):
            arrays[f"{name}/{number}" if are_steps else name] = value
    write_whole(path, lambda file: np.savez(file, **arrays))


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
