"""``onnx2ir edit``: cuts, renames, joins and changes models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from converter.command_line.options import check_output, field_options, output_option
from converter.command_line.program import main
from converter.command_line.state import MODEL_FILE, State, guarded
from converter.command_line.verify import report_written
from converter.options.conversion import on_command_line, parameter_of
from converter.options.editing import LISTS, EditOptions, SplitData
from converter.options.export import ExternalData
from converter.stages import stage


@main.command("edit")
@click.argument("model", type=MODEL_FILE)
@output_option("The .onnx or .xml to write, by default beside the model: model.edited.onnx.")
@field_options(EditOptions, ExternalData, SplitData)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@guarded
def edit_command(
    state: State,
    model: Path,
    output_model: Path | None,
    external_data: bool | None,
    split_size: str | None,
    as_json: bool,
    **values: Any,
) -> None:
    """Edit MODEL, an ONNX file or an IR (.xml): cut, rename, join, insert, replace; file to file.

    Edits are done in the order of the options below, with the names of the file. In a name \\:, \\, and \\= stand for
    signs that would divide it.

    \b
    Examples:
      onnx2ir edit model.onnx --cut :hidden -o backbone.onnx
      onnx2ir edit model.onnx --set-dim n=1 --rename image=pixels
      onnx2ir edit model.onnx --insert-after "logits=Softmax(axis=-1)"
      onnx2ir edit model.onnx --split-size 1GB
      onnx2ir edit model.xml --add-output hidden
    """
    from converter.editing.edit import edit

    target = output_model if output_model is not None else model.with_suffix(f".edited{model.suffix}")
    check_output(target, model)
    read = {entry.name: values[parameter_of(entry)] for entry in on_command_line(EditOptions)}
    options = EditOptions(**{**read, **{name: ",".join(read[name]) if read[name] else () for name in LISTS}})
    with state.working(f"Editing {model.name}"):
        result = edit(model, options=options)
        with stage("write"):
            files = result.save(target, external_data=external_data, split_size=split_size)
    for note in result.notes:
        state.inform(f"note: {note}")
    report_written(state, as_json, {"notes": list(result.notes), "options": options.to_dict()}, files, "")
