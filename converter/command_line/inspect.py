"""``onnx2ir inspect``: what an ONNX model or an IR holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.json_output import shape_list
from converter.command_line.program import main
from converter.command_line.state import MODEL_FILE, OUTPUT_FILE, State, guarded, print_json
from converter.report.commands import print_ir, print_onnx, print_pipeline
from ir_runtime.report import layer_counts

if TYPE_CHECKING:
    from ir_runtime.graph import Model


@main.command()
@click.argument("file", type=MODEL_FILE)
@click.option("--report", type=OUTPUT_FILE, metavar="FILE", help="Write an HTML page with the graph.")
@click.option("--nodes", is_flag=True, help="Print a line for each node or layer and each weight, for text tools.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def inspect(state: State, file: Path, report: Path | None, nodes: bool, as_json: bool) -> None:
    """Show what is in FILE, an ONNX model or an IR (.xml): inputs, outputs, operators or layers, weights.

    Of a folder: what it is recognised as, the models that ``convert`` reads, and the pipeline that runs them.
    Of an IR also the conversions that it was derived by, with their options, where it records them.
    Of an ONNX model also its opsets, producer, functions, metadata, and the multiplications (MACs) of products and
    convolutions.

    \b
    Examples:
      onnx2ir inspect model.onnx
      onnx2ir inspect model.xml
      onnx2ir inspect model.xml --report model.html
      onnx2ir inspect model.onnx --json
      onnx2ir inspect model.onnx --nodes
      onnx2ir inspect llama-onnx/
    """
    from converter.onnx_file.reader import open_model
    from converter.onnx_file.summary import summary_of_onnx
    from converter.passes.derivation import Derivation
    from ir_runtime import read_model
    from ir_runtime.files.file_kinds import IR, kind_of_path

    if nodes:
        refuse_unused("nodes")
        _print_nodes(file)
        return
    if file.is_dir():
        _inspect_folder(state, file, report, as_json)
        return
    is_ir = file.suffix.lower() == ".xml" or kind_of_path(file) is IR
    if report is not None:
        _check_report(report, file)
    if is_ir:
        model = read_model(file)
        summary = {**summary_of(model), **Derivation.of(model).to_dict()}
    else:
        summary = summary_of_onnx(open_model(file))
    if as_json:
        print_json(state, summary)
    elif is_ir:
        print_ir(summary)
    else:
        print_onnx(summary)
    if report is not None:
        from converter.report.inspections import write_inspection, write_onnx_inspection

        if is_ir:
            write_inspection(model, report, file)
        else:
            write_onnx_inspection(summary, _graph_of_onnx(file), report, file)
        state.inform(f"Wrote {report}")


def _print_nodes(file: Path) -> None:
    from converter.conversion.from_ir import is_ir
    from converter.report.model_text import model_lines
    from ir_runtime import read_model

    # What git hands over has no external data beside it.
    model = read_model(file) if is_ir(file) else _graph_of_onnx(file)
    for line in model_lines(model):
        click.echo(line)


def _graph_of_onnx(file: Path) -> Model:
    from converter.onnx_file.declared_types import set_types
    from converter.onnx_file.model import OnnxModel

    model = OnnxModel(file, is_shown=True, is_partial=True)
    set_types(model)
    return model.graph


def _inspect_folder(state: State, folder: Path, report: Path | None, as_json: bool) -> None:
    from converter.folders.recognition import recognise

    if report is not None:
        raise click.UsageError(f"--report is for a model, and {folder} is a folder")
    pipeline = recognise(folder)
    if as_json:
        print_json(state, pipeline.to_dict())
    else:
        print_pipeline(pipeline)


def _check_report(report: Path, file: Path) -> None:
    from ir_runtime.files.whole_files import check_writable

    if report.resolve() in (file.resolve(), file.with_suffix(".bin").resolve()):
        raise click.UsageError(f"--report would overwrite the model {file}")
    check_writable(report)


def summary_of(model: Model) -> dict[str, Any]:
    """Return what an IR holds, as JSON."""
    from converter.passes.preprocessing.recorded import Recorded, as_texts
    from ir_runtime.execution.ports import ports_of

    sides = [
        [{"name": p.name, "type": str(p.element_type), "shape": shape_list(p.partial_shape)} for p in ports]
        for ports in ports_of(model)
    ]
    record = Recorded.of(model)
    recorded = {name: as_texts(steps) for name, steps in record.inputs.items()}
    recorded |= {name: as_texts(steps) for name, steps in record.outputs.items()}
    constants = [node.op.data for part in model.parts() for node in part.nodes if node.op.data is not None]
    return {
        **dict(zip(("inputs", "outputs"), sides)),
        **({"preprocessing": recorded} if recorded else {}),
        "layers": dict(sorted(layer_counts(model).items())),
        "weight_bytes": sum(data.byte_size for data in constants),
    }
