"""``onnx2ir export``: from IR to ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.options import check_output, field_options, output_option, read_fields
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, MODEL_FILE, OUTPUT_FILE, State, guarded, print_json
from converter.command_line.verify import report_written
from converter.options.export import ExportOptions, ExternalData
from converter.stages import stage

if TYPE_CHECKING:
    from converter.equivalence.verdict.report import Report


@main.command()
@click.argument("model", type=MODEL_FILE)
@output_option("The .onnx to write, by default beside the model, by its name; or a folder for a language model.")
@field_options(ExportOptions, ExternalData)
@click.option("--verify", "check", is_flag=True, help="Compare the written model, in onnxruntime, with the IR.")
@click.option("--inputs", type=INPUT_FILE, help="With --verify: inputs as .npz or .npy instead of random ones.")
@click.option("--seed", default=0, show_default=True, help="With --verify: seed of the random inputs.")
@click.option(
    "--report", "page", type=OUTPUT_FILE, metavar="FILE", help="With --verify: write an HTML page with what was found."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@guarded
def export(
    state: State,
    model: Path,
    output_model: Path | None,
    check: bool,
    inputs: Path | None,
    seed: int,
    page: Path | None,
    as_json: bool,
    external_data: bool | None,
    **values: Any,
) -> None:
    """Write the IR MODEL (.xml) as an ONNX model, or a folder with a language model as one for onnxruntime-genai.

    \b
    Examples:
      onnx2ir export model.xml
      onnx2ir export model.xml -o model.onnx --verify
      onnx2ir export model.xml --opset 17
      onnx2ir export int4.xml --contrib -o int4.onnx
      onnx2ir export llama-ir/ -o llama-onnx/
    """
    from converter.to_onnx.export import export_graph
    from converter.to_onnx.file import check_onnx_path, write_onnx
    from converter.to_onnx.graph import operators_of
    from ir_runtime import read_model
    from ir_runtime.files.whole_files import check_writable

    options = ExportOptions(**read_fields(ExportOptions, values))
    if model.is_dir():
        refuse_unused("folder")
        _export_folder(state, model, output_model, as_json, options, external_data)
        return
    if not check:
        refuse_unused("unverified")
    target = output_model if output_model is not None else model.with_suffix(".onnx")
    check_onnx_path(target)
    check_output(target, model)
    if page is not None:
        check_writable(page)
    with state.working(f"Exporting {model.name}"):
        with stage("read"):
            read = read_model(model)
        with stage("export"):
            exported = export_graph(read, options)
        with stage("write"):
            files = write_onnx(exported, target, external_data)
    report: Report | None = None
    if check:
        from converter.equivalence.verdict.verification import verify

        with state.working(f"Verifying {target.name}"):
            report = verify(target, model, inputs=inputs, seed=seed, weights=False, report=page)
    count, opset = len(operators_of(exported.graph)), exported.opset
    result = {"onnx": str(target), "opset": opset, "nodes": count}
    report_written(state, as_json, result, files, f": {count} nodes of opset {opset}", report)


def _export_folder(
    state: State,
    folder: Path,
    output: Path | None,
    as_json: bool,
    options: ExportOptions,
    external_data: bool | None,
) -> None:
    """Write a folder for onnxruntime-genai."""
    from converter.folders.export import export_folder

    if output is None:
        raise click.UsageError("the folder to write is required: -o FOLDER")
    with state.working(f"Exporting {folder.name}"):
        exported = export_folder(folder, output, options, external_data)
    if as_json:
        written = [str(path) for path in (exported.model, exported.settings, *exported.files)]
        print_json(state, {"onnx": str(exported.model), "files": written})
    else:
        names = ", ".join(path.name for path in exported.files) or "no other files"
        state.inform(f"Wrote {exported.model} and {exported.settings.name}; copied {names}")
