"""Text output of commands about models, runs and batches."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from converter.report.rows import MODEL, judged, model_row
from converter.report.tables import out, print_table, say
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from pathlib import Path

    from converter.equivalence.derivation.rederivation import Rederivation
    from converter.folders.pipeline import Pipeline
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
        say(out(), f"preprocessing of {name}: {', '.join(f'{key} {value}' for key, value in steps.items())}")
    for step in summary["derivation"]:
        source = f" from {step['source']}" if "source" in step else ""
        options = f" with {json.dumps(step['options'])}" if "options" in step else ""
        say(out(), f"{step['action']}{source}{options} (onnx2ir {step['version']})")
    if summary["computed_weights"]:
        steps = Counter(", ".join(weights["steps"]) or "renamed" for weights in summary["computed_weights"].values())
        text = "; ".join(f"{steps} ({count})" for steps, count in steps.most_common())
        say(out(), f"weights computed from those of the source: {text}")
    print_counts("layer", summary["layers"])
    say(out(), f"weights: {size_text(summary['weight_bytes'])}")


def print_onnx(summary: dict[str, Any]) -> None:
    """Print what an ONNX model holds."""
    opsets = ", ".join(f"{domain} {version}" for domain, version in summary["opsets"].items())
    say(out(), f"ONNX, IR version {summary['ir_version']}, opset {opsets or 'not declared'}")
    if summary["producer"]:
        say(out(), f"made by {summary['producer']}")
    print_ports(summary)
    print_counts("operator", summary["operators"])
    open_ones = summary["macs_unknown"]
    beside = f", besides {open_ones} nodes with dynamic dimensions" if open_ones else ""
    say(out(), f"parameters: {summary['parameters']:,} ({size_text(summary['weight_bytes'])})")
    say(out(), f"multiplications: {summary['macs']:,}{beside}")
    if summary["functions"]:
        say(out(), f"functions: {', '.join(summary['functions'])}")
    for key, value in summary["metadata"].items():
        say(out(), f"metadata: {key} = {_short(value)}")


def print_pipeline(pipeline: Pipeline) -> None:
    """Print what a folder is recognised as."""
    say(out(), f"{pipeline.task}, run by {pipeline.runtime}")
    rows = [(part.name, str(part.source.relative_to(pipeline.path)), part.target) for part in pipeline.parts]
    for tokenizer in pipeline.tokenizers:
        source = tokenizer.source.relative_to(pipeline.path)
        rows.append(("tokenizer", f"{source}/", str(PurePath(tokenizer.target) / "openvino_tokenizer.xml")))
    print_table(("part", "file", "becomes"), rows)
    if pipeline.call:
        say(out(), pipeline.call)
    if pipeline.other_tasks:
        say(out(), f"--task may also be {', '.join(pipeline.other_tasks)}")


def print_ports(summary: dict[str, Any]) -> None:
    """Print inputs and outputs."""
    rows = []
    for side in ("inputs", "outputs"):
        for port in summary[side]:
            no_tensor = port["shape"] is None and port["type"] in _NO_TENSORS
            rows.append((side[:-1], port["name"], port["type"], "" if no_tensor else shape_text(port["shape"])))
    print_table(("", "name", "type", "shape"), rows)


def print_counts(counted: str, counts: dict[str, int]) -> None:
    """Print how many layers or operators there are of each type."""
    print_table((counted, "count"), [(name, str(count)) for name, count in counts.items()])


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}..."


def shape_text(shape: list[int | str | None] | None) -> str:
    """A shape of the JSON, as tables have it."""
    return "[...]" if shape is None else f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"


def print_figures(rows: Sequence[Sequence[dict[str, Any]]], are_steps: bool) -> None:
    """Print the outputs of a run, of each step where ``are_steps``."""
    lines = []
    for number, outputs in enumerate(rows, 1):
        for row in outputs:
            figures = ["-" if row[key] is None else f"{row[key]:.6g}" for key in ("min", "mean", "max")]
            lines.append([str(number), row["name"], row["type"], str(row["shape"]), *figures])
    headings = ("step", "output", "type", "shape", "min", "mean", "max")
    first = 0 if are_steps else 1
    print_table(headings[first:], [line[first:] for line in lines])


def print_times(times: Profile, layers: bool) -> None:
    """Print the time of a call; with ``layers`` that of each type of layer and of the longest layers."""
    if layers:
        by_type = times.by_type()
        rows = [(row.type, str(row.count), f"{row.seconds * 1e3:.3f}", f"{row.share:.1%}") for row in by_type]
        print_table(("type", "layers", "ms", "share"), rows)
        longest = times.layers[:_LAYERS_SHOWN]
        print_table(
            ("layer", "type", "ms"), [(layer.name, layer.type, f"{layer.seconds * 1e3:.3f}") for layer in longest]
        )
    say(out(), f"{times.seconds * 1e3:.3f} ms a call, mean of {times.calls}")


def print_rows(rows: Sequence[Row], requested_count: int) -> None:
    """The table of all models, the reasons of those that failed, warnings, and how many have which verdict."""
    from converter.workflow.rows import counts

    console = out()
    if rows:
        print_table(MODEL, map(model_row, rows))
    for row in rows:
        if row.reason:
            say(console, (row.name, "yellow" if row.passed else "red"), f": {row.reason}")
        for message in row.messages:
            say(console, (row.name, "yellow"), f": warning: {message}")
    reused = sum(row.reused for row in rows)
    verdicts = ", ".join(f"{times} {verdict}" for verdict, times in counts(rows).items()) or "none is done"
    earlier = f"; {reused} of an earlier run" if reused else ""
    say(console, f"{len(rows)} of {requested_count} models: {verdicts}{earlier}")


def print_rederivation(result: Rederivation, ir: Path, most: int | None) -> None:
    """Print how an IR differs from its derivation: of each list the first ``most`` layers."""
    for note in result.notes:
        say(out(), f"note: {note}")
    if not result.same:
        print_difference(result.difference, ir, "its derivation", most)
    say(out(), (result.verdict, "bold green" if result.same else "bold red"))


def print_difference(difference: ModelDifference, first: object, second: object, most: int | None) -> None:
    """Print how two IRs differ: of each list the first ``most`` layers; None stands for all of them."""
    from ir_runtime.graph.model_difference import types_of

    console = out()
    for path, layers in ((first, difference.only_first), (second, difference.only_second)):
        if not layers:
            continue
        counts_text = ", ".join(f"{count} {type_name}" for type_name, count in types_of(layers).items())
        say(console, (f"only in {path}", "bold"), f": {len(layers)} layers ({counts_text})")
        for name, layer_type in layers[:most]:
            say(console, f"  {name} ({layer_type})")
        if most is not None and len(layers) > most:
            say(console, f"  ... and {len(layers) - most} more: --all shows them")
    for change in difference.changed[:most]:
        also = "" if change.layer == change.other else f", in the other model '{change.other}'"
        say(console, ("changed", "bold"), f": layer '{change.layer}' ({change.type}){also}")
        for sentence in change.what:
            say(console, f"  {sentence}")
    if most is not None and len(difference.changed) > most:
        say(console, f"... and {len(difference.changed) - most} more changed layers: --all shows them")
    verdict = ("the same", "bold green") if difference.same else ("different", "bold red")
    counted = f": {difference.paired} layers are in both, {len(difference.changed)} of them changed"
    say(console, verdict, counted)


def print_operators(needed: Sequence[NeededOperator]) -> None:
    """Print the operators that a model needs."""
    rows = [
        (
            *(entry.op_type, entry.domain or "ai.onnx", str(entry.opset), str(entry.count)),
            judged(f"no: {entry.problem}" if entry.problem else "yes", not entry.problem),
        )
        for entry in needed
    ]
    print_table(("operator", "domain", "opset", "nodes", "supported"), rows)


def print_supported(supported: Sequence[SupportedOperator]) -> None:
    """Print the operators that can be converted."""
    from converter.from_onnx.support import SUPPORT_HEADINGS, support_columns

    print_table(SUPPORT_HEADINGS, map(support_columns, supported))
