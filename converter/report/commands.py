"""Text output of commands about models, runs and batches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from converter.report.tables import new_table, out
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from pathlib import Path

    from converter.equivalence.rederivation import Rederivation
    from converter.folders.pipelines.pipeline import Pipeline
    from converter.from_onnx.support import NeededOperator, SupportedOperator
    from converter.workflow.rows import Row
    from ir_runtime.execution.profile import Profile
    from ir_runtime.graph.model_difference import ModelDifference

_NO_TENSORS = ("sequence", "map", "optional", "opaque", "sparse_tensor", "unknown")
"""Types of ONNX that have no shape."""

_LAYERS_SHOWN = 20


def print_ir(summary: dict[str, Any]) -> None:
    """Print what an IR holds."""
    print_ports(summary)
    for name, steps in summary.get("preprocessing", {}).items():
        text = ", ".join(f"{key} {value}" for key, value in steps.items())
        out().print(f"preprocessing of {name}: {text}", markup=False)
    for step in summary["derivation"]:
        source = f" from {step['source']}" if "source" in step else ""
        options = f" with {json.dumps(step['options'])}" if "options" in step else ""
        out().print(f"{step['action']}{source}{options} (onnx2ir {step['version']})", markup=False)
    if summary["computed_weights"]:
        steps = Counter(", ".join(weights["steps"]) or "renamed" for weights in summary["computed_weights"].values())
        text = "; ".join(f"{steps} ({count})" for steps, count in steps.most_common())
        out().print(f"weights computed from those of the source: {text}", markup=False)
    print_counts("layer", summary["layers"])
    out().print(f"weights: {size_text(summary['weight_bytes'])}")


def print_onnx(summary: dict[str, Any]) -> None:
    """Print what an ONNX model holds."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in summary["opsets"].items())
    lines = [f"ONNX, IR version {summary['ir_version']}, opset {opsets or 'not declared'}"]
    if summary["producer"]:
        lines.append(f"made by {summary['producer']}")
    console = out()
    for line in lines:
        console.print(line, markup=False)
    print_ports(summary)
    print_counts("operator", summary["operators"])
    open_ones = summary["macs_unknown"]
    beside = f", besides {open_ones} nodes with dynamic dimensions" if open_ones else ""
    lines = [
        f"parameters: {summary['parameters']:,} ({size_text(summary['weight_bytes'])})",
        f"multiplications: {summary['macs']:,}{beside}",
    ]
    if summary["functions"]:
        lines.append(f"functions: {', '.join(summary['functions'])}")
    lines += [f"metadata: {key} = {_short(value)}" for key, value in summary["metadata"].items()]
    for line in lines:
        console.print(line, markup=False)


def print_pipeline(pipeline: Pipeline) -> None:
    """Print what a folder is recognised as."""
    from rich.markup import escape

    console = out()
    console.print(f"{pipeline.task}, run by {pipeline.runtime}", markup=False)
    table = new_table("part", "file", "becomes")
    for part in pipeline.parts:
        table.add_row(part.name, escape(str(part.source.relative_to(pipeline.path))), escape(part.target))
    for tokenizer in pipeline.tokenizers:
        source = str(tokenizer.source.relative_to(pipeline.path))
        table.add_row(
            "tokenizer", escape(f"{source}/"), escape(str(PurePath(tokenizer.target) / "openvino_tokenizer.xml"))
        )
    console.print(table)
    if pipeline.call:
        console.print(pipeline.call, markup=False)
    if pipeline.other_tasks:
        console.print(f"--task may also be {', '.join(pipeline.other_tasks)}", markup=False)


def print_ports(summary: dict[str, Any]) -> None:
    """Print inputs and outputs."""
    from rich.markup import escape

    table = new_table("", "name", "type", "shape")
    for side in ("inputs", "outputs"):
        for port in summary[side]:
            no_tensor = port["shape"] is None and port["type"] in _NO_TENSORS
            shape = "" if no_tensor else shape_text(port["shape"])
            table.add_row(side[:-1], escape(port["name"]), port["type"], escape(shape))
    out().print(table)


def print_counts(counted: str, counts: dict[str, int]) -> None:
    """Print how many layers or operators there are of each type."""
    from rich.markup import escape

    table = new_table(counted, "count")
    for name, count in counts.items():
        table.add_row(escape(name), str(count))
    out().print(table)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}..."


def shape_text(shape: list[int | str | None] | None) -> str:
    """A shape of the JSON, as tables have it."""
    return (
        "[...]"
        if shape is None
        else f"[{','.join('?' if dimension is None else str(dimension) for dimension in shape)}]"
    )


def print_figures(rows: Sequence[Sequence[dict[str, Any]]], are_steps: bool) -> None:
    """Print the outputs of a run, of each step where ``are_steps``."""
    from rich.markup import escape

    table = new_table(*(["step"] if are_steps else []), "output", "type", "shape", "min", "mean", "max")
    for number, outputs in enumerate(rows, 1):
        for row in outputs:
            figures = ["-" if row[key] is None else f"{row[key]:.6g}" for key in ("min", "mean", "max")]
            first = [str(number)] if are_steps else []
            table.add_row(*first, escape(row["name"]), row["type"], str(row["shape"]), *figures)
    out().print(table)


def print_times(times: Profile, layers: bool) -> None:
    """Print the time of a call; with ``layers`` that of each type of layer and of the longest layers."""
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


def print_rows(rows: Sequence[Row], requested_count: int) -> None:
    """The table of all models, the reasons of those that failed, warnings, and how many have which verdict."""
    from rich.markup import escape

    from converter.workflow.rows import counts

    console = out()
    table = new_table("model", "verdict", "layers", "size", "convert", "verify", "max abs")
    for row in rows:
        colour = "green" if row.passed else "red"
        table.add_row(
            escape(row.name),
            f"[{colour}]{row.verdict}[/]",
            str(row.layers or "-"),
            size_text(row.xml_bytes + row.bin_bytes) if row.xml_bytes else "-",
            f"{row.convert_seconds:.2f} s",
            f"{row.verify_seconds:.2f} s" if row.verify_seconds else "-",
            "-" if row.max_absolute is None else f"{row.max_absolute:.3g}",
        )
    if rows:
        console.print(table)
    for row in rows:
        if row.reason:
            console.print(f"[{'yellow' if row.passed else 'red'}]{escape(row.name)}[/]: {escape(row.reason)}")
        for message in row.messages:
            console.print(f"[yellow]{escape(row.name)}[/]: warning: {escape(message)}")
    reused = sum(row.reused for row in rows)
    verdicts = ", ".join(f"{times} {verdict}" for verdict, times in counts(rows).items()) or "none is done"
    earlier = f"; {reused} of an earlier run" if reused else ""
    console.print(f"{len(rows)} of {requested_count} models: {verdicts}{earlier}")


def print_rederivation(result: Rederivation, ir: Path, most: int | None) -> None:
    """Print how an IR differs from its derivation: of each list the first ``most`` layers."""
    console = out()
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    if not result.same:
        print_difference(result.difference, ir, "its derivation", most)
    console.print(result.verdict, markup=False, style="bold green" if result.same else "bold red")


def print_difference(difference: ModelDifference, first: object, second: object, most: int | None) -> None:
    """Print how two IRs differ: of each list the first ``most`` layers; None stands for all of them."""
    from rich.markup import escape

    from ir_runtime.graph.model_difference import types_of

    console = out()
    for path, layers in ((first, difference.only_first), (second, difference.only_second)):
        if not layers:
            continue
        counts_text = ", ".join(f"{count} {type_name}" for type_name, count in types_of(layers).items())
        console.print(f"[bold]only in {escape(str(path))}[/]: {len(layers)} layers ({escape(counts_text)})")
        for name, layer_type in layers[:most]:
            console.print(f"  {escape(name)} ({layer_type})")
        if most is not None and len(layers) > most:
            console.print(f"  ... and {len(layers) - most} more: --all shows them")
    for change in difference.changed[:most]:
        also = "" if change.layer == change.other else f", in the other model '{change.other}'"
        console.print(f"[bold]changed[/]: layer '{escape(change.layer)}' ({change.type}){escape(also)}")
        for sentence in change.what:
            console.print(f"  {escape(sentence)}")
    if most is not None and len(difference.changed) > most:
        console.print(f"... and {len(difference.changed) - most} more changed layers: --all shows them")
    verdict = "[bold green]the same[/]" if difference.same else "[bold red]different[/]"
    console.print(f"{verdict}: {difference.paired} layers are in both, {len(difference.changed)} of them changed")


def print_operators(needed: Sequence[NeededOperator]) -> None:
    """Print the operators that a model needs."""
    from rich.markup import escape

    table = new_table("operator", "domain", "opset", "nodes", "supported")
    for entry in needed:
        verdict = f"[red]no: {escape(entry.problem)}[/]" if entry.problem else "[green]yes[/]"
        table.add_row(
            escape(entry.op_type), escape(entry.domain or "ai.onnx"), str(entry.opset), str(entry.count), verdict
        )
    out().print(table)


def print_supported(supported: Sequence[SupportedOperator]) -> None:
    """Print the operators that can be converted."""
    from rich.markup import escape

    from converter.from_onnx.support import SUPPORT_HEADINGS, support_columns

    table = new_table(*SUPPORT_HEADINGS)
    for operator in supported:
        table.add_row(*(escape(column) for column in support_columns(operator)))
    out().print(table)
