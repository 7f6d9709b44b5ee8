"""The ``onnx2ir`` command: the only place that prints or exits.

Results go to stdout, messages to stderr. Exit codes: 0 done, 1 the check failed or the model cannot
be converted, 2 wrong usage.
"""

from __future__ import annotations

import atexit
import gc
import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

# Everything else comes with the command that needs it, so that --help and --version answer at once.
if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from converter.equivalence import Report
    from converter.passes.weight_compression import WeightCompression
    from ir_runtime import Port
    from ir_runtime.profile import Profile

_INPUT_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)


def _out() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


class _State:
    """What the options of the whole command say."""

    def __init__(self, quiet: bool, verbose: bool) -> None:
        self.quiet = quiet
        self.verbose = verbose

    def say(self, message: str) -> None:
        if not self.quiet:
            click.echo(message, err=True)


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every expected error becomes one message and exit code 1; a traceback only with --verbose."""

    @click.pass_context
    def wrapper(context: click.Context, /, *args: Any, **kwargs: Any) -> Any:
        from converter.errors import ConversionError
        from ir_runtime import ModelError

        state: _State = context.obj
        try:
            return function(state, *args, **kwargs)
        except (ConversionError, ModelError, OSError, MemoryError) as error:
            if state.verbose:
                _print_traceback()
            click.echo(f"{click.style('error:', fg='red', bold=True)} {str(error) or type(error).__name__}", err=True)
            context.exit(1)

    return update_wrapper(wrapper, function)


def _print_traceback() -> None:
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print_exception()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-q", "--quiet", is_flag=True, help="Print results and errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Print details, and tracebacks of errors.")
@click.version_option(package_name="onnx2ir")
@click.pass_context
def main(context: click.Context, quiet: bool, verbose: bool) -> None:
    """Convert ONNX models to OpenVINO IR and prove that both compute the same.

    \b
    Examples:
      onnx2ir convert model.onnx -o model.xml --verify
      onnx2ir verify model.onnx model.xml
      onnx2ir ops model.onnx
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other")
    import logging

    level = logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s", force=True)
    context.obj = _State(quiet, verbose)


@main.command()
@click.argument("model", type=_INPUT_FILE)
@click.option("-o", "--output-model", type=_OUTPUT_FILE, help="The .xml to write; by default the model's name.")
@click.option(
    "--compress-to-fp16/--no-compress-to-fp16",
    default=False,
    show_default=True,
    help="Store float weights as float16.",
)
@click.option(
    "--compress",
    type=click.Choice(["int8", "int4"]),
    help="Store weights of products, look-ups and convolutions in 8 or 4 bits.",
)
@click.option(
    "--group-size",
    type=int,
    metavar="N",
    help="With --compress: weights of a channel that share a scale; -1 for all [int8: -1, int4: 128].",
)
@click.option(
    "--symmetric/--asymmetric",
    default=None,
    help="With --compress: codes without or with a zero point [int8: asymmetric, int4: symmetric].",
)
@click.option(
    "--input",
    "input_text",
    default="",
    metavar="TEXT",
    help='Shapes and frozen values: "a[1,3,224,224],b[?,16],c[1..8]", "sr=16000", "mask=mask.npy".',
)
@click.option("--output", "outputs", multiple=True, metavar="NAMES", help='Tensors to return: "a,b"; can be repeated.')
@click.option("--batch", type=click.IntRange(min=1), help="The first dimension of every input.")
@click.option(
    "--static",
    is_flag=True,
    help="Decide now what follows from the inputs' shapes: smallest, but for these shapes alone.",
)
@click.option(
    "--target",
    "runtime",
    default="cpu",
    show_default=True,
    metavar="NAME",
    help='What the IR is for: "cpu" (OpenVINO\'s CPU plug-in), "cpu@2024.6" (a release), "any" (plain layers).',
)
@click.option("--extension", "extensions", multiple=True, type=_INPUT_FILE, help="Python file with operators.")
@click.option("--verify", "check", is_flag=True, help="Compare the written IR with the model.")
@click.option("--inputs", type=_INPUT_FILE, help="With --verify: inputs as .npz or .npy instead of random ones.")
@click.option("--seed", default=0, show_default=True, help="With --verify: seed of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@_guarded
def convert(
    state: _State,
    model: Path,
    output_model: Path | None,
    compress_to_fp16: bool,
    compress: str | None,
    group_size: int | None,
    symmetric: bool | None,
    input_text: str,
    outputs: tuple[str, ...],
    batch: int | None,
    static: bool,
    runtime: str,
    extensions: tuple[Path, ...],
    check: bool,
    inputs: Path | None,
    seed: int,
    as_json: bool,
) -> None:
    """Convert MODEL (.onnx) to OpenVINO IR (.xml and .bin).

    \b
    Examples:
      onnx2ir convert model.onnx
      onnx2ir convert model.onnx -o ir/model.xml --verify
      onnx2ir convert model.onnx --compress-to-fp16
      onnx2ir convert model.onnx --compress int4 --group-size 64
      onnx2ir convert model.onnx --input "image[1,3,?,?],rate=16000" --output logits
    """
    # What a conversion makes lives until its end: looking for cycles in it, and again in all of it when the process
    # ends, takes a fifth of the time.
    gc.disable()
    atexit.register(gc.freeze)

    from converter import conversion
    from converter.options import parse_inputs
    from ir_runtime.xml_writer import check_target

    if not check and inputs is not None:
        raise click.UsageError("--inputs is of use with --verify only")
    packing = _packing(compress, group_size, symmetric)
    target = output_model or model.with_suffix(".xml")
    if target.suffix.lower() == ".bin":
        raise click.UsageError("the output must not end in .bin, which is the weights' name")
    if target.resolve() == model.resolve() or target.with_suffix(".bin").resolve() == model.resolve():
        raise click.UsageError(f"the output would overwrite the model {model}")
    if not target.parent.is_dir():
        raise click.UsageError(f"the folder {target.parent} does not exist")
    for path in (target, target.with_suffix(".bin")):
        check_target(path)
    state.say(f"Converting {model}")
    shapes, frozen = parse_inputs(input_text)
    kept = [name.strip() for names in outputs for name in names.split(",")] or None
    converted = conversion.convert(
        model,
        input=shapes,
        freeze=frozen,
        output=kept,
        batch=batch,
        extensions=extensions,
        static=static,
        target=runtime,
    )
    stored = conversion.compressed(converted.model, packing, compress_to_fp16)
    conversion.save_model(stored.model, target)
    report = None
    if check:
        from converter.equivalence import verify

        report = verify(model, target, inputs=inputs, seed=seed, freeze=frozen, output=kept)
    weights = target.with_suffix(".bin")
    if as_json:
        result: dict[str, Any] = {"xml": str(target), "bin": str(weights), **_summary(target)}
        result.update(target=runtime, rules=dict(converted.rules))
        if stored.weights is not None:
            result["compressed"] = {"weights": dict(stored.weights.count), "kept": dict(stored.weights.kept)}
        if stored.half is not None:
            result["float16"] = {"constants": stored.half.count, "kept": dict(stored.half.kept)}
        if report is not None:
            result["verification"] = report.to_dict()
        click.echo(_json(result))
    else:
        count = len(stored.model.nodes())
        state.say(f"Wrote {target} ({count} layers) and {weights} ({_size(weights.stat().st_size)})")
        if stored.weights is not None:
            ways = ", ".join(f"{times} {way}" for way, times in stored.weights.count.items())
            state.say(f"Compressed weights: {ways or 'none'}" + _but_not(stored.weights.kept))
        if stored.half is not None:
            state.say(f"{stored.half.count} constants are float16" + _but_not(stored.half.kept))
        if converted.rules:
            acted = ", ".join(f"{name} ({times})" for name, times in converted.rules.items())
            state.say(f"Rules for {runtime}: {acted}")
        if report is not None:
            _print_report(report)
    _exit_of(report)


def _packing(compress: str | None, group_size: int | None, symmetric: bool | None) -> WeightCompression | None:
    if compress is None:
        if group_size is not None or symmetric is not None:
            raise click.UsageError("--group-size, --symmetric and --asymmetric are of use with --compress only")
        return None
    from converter.errors import ConversionError
    from converter.passes.weight_compression import WeightCompression

    try:
        return WeightCompression.named(compress, group_size, symmetric)
    except ConversionError as error:
        raise click.UsageError(str(error)) from error


def _but_not(kept: Mapping[str, int]) -> str:
    stayed = ", ".join(f"{times} that {reason}" for reason, times in kept.items())
    return f", but not {stayed}" if stayed else ""


@main.command("verify")
@click.argument("model", type=_INPUT_FILE)
@click.argument("ir", type=_INPUT_FILE)
@click.option("--inputs", type=_INPUT_FILE, help="Inputs as .npz (by name) or .npy (for the only one).")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance instead of each type's own.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance instead of each type's own.")
@click.option("--layers/--no-layers", default=None, help="Compare inner tensors; by default where an output fails.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@_guarded
def verify_command(
    state: _State,
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
        click.echo(_json(report.to_dict()))
    else:
        _print_report(report)
    _exit_of(report)


@main.command()
@click.argument("ir", type=_INPUT_FILE)
@click.option("--inputs", type=_INPUT_FILE, help="Inputs as .npz (by name) or .npy (for the only one).")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@click.option("-o", "--output", type=_OUTPUT_FILE, help="Save the outputs as .npz.")
@click.option(
    "--repeat", type=click.IntRange(min=1), help="Execute as often, after one call to warm up, and say how long."
)
@click.option("--profile", is_flag=True, help="Show where the time goes, by type of layer and by layer.")
@click.option("--json", "as_json", is_flag=True, help="Print the outputs' figures (and times) as JSON.")
@_guarded
def run(
    state: _State,
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
    from ir_runtime.xml_writer import check_target

    if output is not None:
        check_target(output)
    compiled = compile_model(read_model(ir))
    feeds = random_inputs(compiled.inputs, seed) if inputs is None else given_inputs(inputs, compiled.inputs)
    result = compiled(feeds)
    if output is not None:
        import numpy as np

        arrays: dict[str, Any] = {port.name: value for port, value in zip(compiled.outputs, result.to_list())}
        with output.open("wb") as file:
            np.savez(file, **arrays)
        state.say(f"Wrote {output}")
    rows = [_figures(port, value) for port, value in zip(compiled.outputs, result.to_list())]
    times = compiled.profile(feeds, repeat=repeat or 1) if profile or repeat is not None else None
    if as_json:
        found: dict[str, Any] = {"outputs": rows}
        if times is not None:
            timed = times.to_dict()
            found.update(timed if profile else {key: timed[key] for key in ("calls", "milliseconds")})
        click.echo(_json(found))
        return
    table = _table("output", "type", "shape", "min", "mean", "max")
    for row in rows:
        figures = [row["min"], row["mean"], row["max"]]
        table.add_row(
            escape(row["name"]), row["type"], str(row["shape"]), *["-" if f is None else f"{f:.6g}" for f in figures]
        )
    _out().print(table)
    if times is not None:
        _print_times(times, profile)


_LAYERS_SHOWN = 20


def _print_times(times: Profile, layers: bool) -> None:
    from rich.markup import escape

    if layers:
        by_type = _table("type", "layers", "ms", "share")
        for row in times.by_type():
            by_type.add_row(escape(row.type), str(row.count), f"{row.seconds * 1e3:.3f}", f"{row.share:.1%}")
        _out().print(by_type)
        longest = _table("layer", "type", "ms")
        for layer in times.layers[:_LAYERS_SHOWN]:
            longest.add_row(escape(layer.name), escape(layer.type), f"{layer.seconds * 1e3:.3f}")
        _out().print(longest)
    _out().print(f"{times.seconds * 1e3:.3f} ms a call, mean of {times.calls}")


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


@main.command()
@click.argument("ir", type=_INPUT_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@_guarded
def inspect(state: _State, ir: Path, as_json: bool) -> None:
    """Show inputs, outputs, layers and weights of the IR (.xml).

    \b
    Example:
      onnx2ir inspect model.xml
    """
    summary = _summary(ir)
    if as_json:
        click.echo(_json(summary))
        return
    from rich.markup import escape

    table = _table("", "name", "type", "shape")
    for side in ("inputs", "outputs"):
        for port in summary[side]:
            table.add_row(side[:-1], escape(port["name"]), port["type"], port["shape"])
    _out().print(table)
    layers = _table("layer", "count")
    for name, count in summary["layers"].items():
        layers.add_row(name, str(count))
    _out().print(layers)
    _out().print(f"weights: {_size(summary['weight_bytes'])}")


def _summary(ir: Path) -> dict[str, Any]:
    from collections import Counter

    from ir_runtime import read_model
    from ir_runtime.executor import ports_of

    model = read_model(ir)
    inputs, outputs = ports_of(model)

    def described(ports: list[Port]) -> list[dict[str, str]]:
        return [{"name": port.name, "type": str(port.element_type), "shape": str(port.partial_shape)} for port in ports]

    nodes = [node for part in model.all_models() for node in part.nodes()]
    counts = Counter(f"{node.op.type}-{node.op.opset}" for node in nodes)
    return {
        "inputs": described(inputs),
        "outputs": described(outputs),
        "layers": dict(sorted(counts.items())),
        "weight_bytes": sum(node.op.data.byte_size for node in nodes if node.op.data is not None),
    }


@main.command()
@click.argument("model", type=_INPUT_FILE, required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@_guarded
def ops(state: _State, model: Path | None, as_json: bool) -> None:
    """List all operators: what they become, how many of ONNX's test cases pass, and what is not supported.

    With a MODEL (.onnx), list those that it needs.

    The exit code is 1 where that is one that cannot be converted.

    \b
    Examples:
      onnx2ir ops
      onnx2ir ops model.onnx
    """
    from dataclasses import asdict

    from rich.markup import escape

    from converter.support import (
        SUPPORT_HEADINGS,
        needed_operators,
        support_columns,
        support_table,
        supported_operators,
    )

    if model is None:
        supported = supported_operators()
        if as_json:
            click.echo(_json([asdict(operator) for operator in supported]))
            return
        if not sys.stdout.isatty():
            click.echo(support_table())
            return
        table = _table(*SUPPORT_HEADINGS)
        for operator in supported:
            table.add_row(*(escape(column) for column in support_columns(operator)))
        _out().print(table)
        return
    needed = needed_operators(model)
    if as_json:
        click.echo(_json([asdict(operator) for operator in needed]))
    else:
        table = _table("operator", "domain", "opset", "nodes", "supported")
        for entry in needed:
            verdict = f"[red]no: {escape(entry.problem)}[/]" if entry.problem else "[green]yes[/]"
            table.add_row(
                escape(entry.op_type), escape(entry.domain or "ai.onnx"), str(entry.opset), str(entry.count), verdict
            )
        _out().print(table)
    if any(entry.problem for entry in needed):
        click.get_current_context().exit(1)


def _print_report(report: Report) -> None:
    from rich.markup import escape

    table = _table("output", "type", "shape", "max abs", "max rel", "ULPs", "cosine", "verdict")
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
    console = _out()
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


def _exit_of(report: Report | None) -> None:
    if report is not None and not report.passed:
        click.get_current_context().exit(1)


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _json(value: Any) -> str:
    # NaN and infinity are no JSON: they become texts.
    return json.dumps(_plain(value), indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
