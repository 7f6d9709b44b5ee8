"""``onnx2ir optimize``: from ONNX to ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.options import check_output, field_options, output_option, read_fields
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, MODEL_FILE, State, guarded
from converter.command_line.verify import report_written
from converter.options.export import ExternalData
from converter.options.optimization import OptimizationOptions
from converter.stages import stage

if TYPE_CHECKING:
    from converter.equivalence.verdict.report import Report


@main.command("optimize")
@click.argument("model", type=MODEL_FILE)
@output_option("The .onnx to write, by default beside the model: model.optimized.onnx.")
@field_options(OptimizationOptions, ExternalData)
@click.option("--verify", "check", is_flag=True, help="Compare both models in onnxruntime.")
@click.option("--inputs", type=INPUT_FILE, help="With --verify: inputs as .npz or .npy instead of random ones.")
@click.option("--seed", default=0, show_default=True, help="With --verify: seed of the random inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@guarded
def optimize_command(
    state: State,
    model: Path,
    output_model: Path | None,
    check: bool,
    inputs: Path | None,
    seed: int,
    as_json: bool,
    external_data: bool | None,
    **values: Any,
) -> None:
    """Optimize the ONNX file MODEL: fewer nodes, or another opset, and the same results.

    Nodes that the IR cannot carry stay as they are. The result has never more nodes than the file.

    \b
    Examples:
      onnx2ir optimize model.onnx -o small.onnx --verify
      onnx2ir optimize model.onnx --opset 13
      onnx2ir optimize model.onnx --input "image[1,3,224,224]"
      onnx2ir optimize model.onnx --target onnxruntime --json
      onnx2ir optimize model.onnx --fp16 --fp16-except ReduceMean --verify
    """
    from converter.editing.optimize import optimize
    from converter.to_onnx.file import check_onnx_path

    if not check:
        refuse_unused("unverified")
    if not values["float16"]:
        refuse_unused("float32")
    target = output_model if output_model is not None else model.with_suffix(".optimized.onnx")
    check_onnx_path(target)
    check_output(target, model)
    options = OptimizationOptions(**read_fields(OptimizationOptions, values))
    State.keep_objects()
    with state.working(f"Optimizing {model.name}"):
        result = optimize(model, options=options)
        with stage("write"):
            files = result.save(target, external_data=external_data)
    report: Report | None = None
    if check:
        from converter.equivalence.verdict.verification import verify

        with state.working(f"Verifying {target.name}"):
            report = verify(model, target, input=options.input, batch=options.batch, inputs=inputs, seed=seed)
    nodes = f": {result.nodes_before} nodes became {result.nodes}, of opset {result.opset}"
    stay = f"; {len(result.kept)} stay as they are" if result.kept else ""
    wide = f"; {len(result.float32)} compute in float32 (--json lists them)" if result.float32 else ""
    report_written(state, as_json, {"onnx": str(target), **result.to_dict()}, files, f"{nodes}{stay}{wide}", report)
