"""``onnx2ir inspect``: what an ONNX model or an IR holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.drawing import out, size_text
from converter.command_line.json_output import print_json, shape_list, shape_text
from converter.command_line.program import main
from converter.command_line.state import MODEL_FILE, OUTPUT_FILE, State, guarded
from converter.report.tables import new_table

if TYPE_CHECKING:
    from ir_runtime import Port

_NO_TENSORS = ("sequence", "map", "optional", "opaque", "sparse_tensor", "unknown")
"""Types of ONNX that have no shape."""


@main.command()
@click.argument("file", type=MODEL_FILE)
@click.option("--report", type=OUTPUT_FILE, metavar="FILE", help="Of an IR: write an HTML page with its graph.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def inspect(state: State, file: Path, report: Path | None, as_json: bool) -> None:
    """Show what is in FILE, an ONNX model or an IR (.xml): inputs, outputs, operators or layers, weights.

    Of an ONNX model also its opsets, producer, functions, metadata, and the multiplications (MACs) of products and
    convolutions.

    \b
    Examples:
      onnx2ir inspect model.onnx
      onnx2ir inspect model.xml
      onnx2ir inspect model.xml --report model.html
      onnx2ir inspect model.onnx --json
    """
    from ir_runtime.files.file_kinds import IR, kind_of_path

    is_ir = file.suffix.lower() == ".xml" or kind_of_path(file) is IR
    if report is not None:
        _check_report(report, file, is_ir)
    summary = summary_of(file) if is_ir else _summary_of_onnx(file)
    if as_json:
        print_json(state, summary)
    elif is_ir:
        _print_ports(summary)
        for name, steps in summary.get("preprocessing", {}).items():
            text = ", ".join(f"{key} {value}" for key, value in steps.items())
            out().print(f"preprocessing of {name}: {text}", markup=False)
        _print_counts("layer", summary["layers"])
        out().print(f"weights: {size_text(summary['weight_bytes'])}")
    else:
        _print_onnx(summary)
    if report is not None:
        from converter.report.inspections import write_inspection
        from ir_runtime import read_model

        write_inspection(read_model(file), report, file)
        state.inform(f"Wrote {report}")


def _check_report(report: Path, file: Path, is_ir: bool) -> None:
    from ir_runtime.files.whole_files import check_writable

    if not is_ir:
        raise click.UsageError(f"--report is for an IR (.xml), and {file} is an ONNX model: convert has a --report")
    if report.resolve() in (file.resolve(), file.with_suffix(".bin").resolve()):
        raise click.UsageError(f"--report would overwrite the model {file}")
    check_writable(report)


def _summary_of_onnx(file: Path) -> dict[str, Any]:
    from converter.onnx_file.reader import open_model
    from converter.onnx_file.summary import summary_of_onnx

    return summary_of_onnx(open_model(file))


def _print_onnx(summary: dict[str, Any]) -> None:
    opsets = ", ".join(f"{domain} {version}" for domain, version in summary["opsets"].items())
    lines = [f"ONNX, IR version {summary['ir_version']}, opset {opsets or 'not declared'}"]
    if summary["producer"]:
        lines.append(f"made by {summary['producer']}")
    console = out()
    for line in lines:
        console.print(line, markup=False)
    _print_ports(summary)
    _print_counts("operator", summary["operators"])
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


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:197]}..."


def _print_ports(summary: dict[str, Any]) -> None:
    from rich.markup import escape

    table = new_table("", "name", "type", "shape")
    for side in ("inputs", "outputs"):
        for port in summary[side]:
            no_tensor = port["shape"] is None and port["type"] in _NO_TENSORS
            shape = "" if no_tensor else shape_text(port["shape"])
            table.add_row(side[:-1], escape(port["name"]), port["type"], escape(shape))
    out().print(table)


def _print_counts(what: str, counts: dict[str, int]) -> None:
    from rich.markup import escape

    table = new_table(what, "count")
    for name, count in counts.items():
        table.add_row(escape(name), str(count))
    out().print(table)


def summary_of(ir: Path) -> dict[str, Any]:
    from collections import Counter

    from converter.preprocessing.recorded import Recorded, as_texts
    from ir_runtime import read_model
    from ir_runtime.execution.ports import ports_of

    model = read_model(ir)
    inputs, outputs = ports_of(model)

    def described(ports: list[Port]) -> list[dict[str, Any]]:
        return [
            {"name": port.name, "type": str(port.element_type), "shape": shape_list(port.partial_shape)}
            for port in ports
        ]

    record = Recorded.of(model)
    recorded = {name: as_texts(steps) for name, steps in record.inputs.items()}
    recorded.update((name, as_texts(steps)) for name, steps in record.outputs.items())
    nodes = [node for part in model.all_models() for node in part.nodes()]
    counts = Counter(f"{node.op.type}-{node.op.opset}" for node in nodes)
    return {
        "inputs": described(inputs),
        "outputs": described(outputs),
        **({"preprocessing": recorded} if recorded else {}),
        "layers": dict(sorted(counts.items())),
        "weight_bytes": sum(node.op.data.byte_size for node in nodes if node.op.data is not None),
    }
