"""``onnx2ir diff``: the differences of two models."""

from __future__ import annotations

from pathlib import Path

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, OUTPUT_FILE, State, guarded, print_json
from converter.report.commands import print_difference

_SHOWN = 40


@main.command()
@click.argument("first", type=INPUT_FILE)
@click.argument("second", type=INPUT_FILE)
@click.option("--all", "everything", is_flag=True, help=f"Show every difference, not the first {_SHOWN} of a kind.")
@click.option(
    "--report", type=OUTPUT_FILE, metavar="FILE", help="Write an HTML page with all differences and the graph."
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@guarded
def diff(state: State, first: Path, second: Path, everything: bool, report: Path | None, as_json: bool) -> None:
    """List the differences of FIRST and SECOND, IRs (.xml) or ONNX models: layers, attributes, shapes, weights.

    Ids and the order in the file do not count, nor do the names of inner tensors: layers belong together by their
    weights and places. An ONNX model beside an IR is converted as the IR records. Exit code 1 where they differ.

    \b
    Examples:
      onnx2ir diff model.onnx other.onnx
      onnx2ir diff model.onnx model.xml
      onnx2ir diff ours.xml theirs.xml
      onnx2ir diff before.xml after.xml --json
      onnx2ir diff before.xml after.xml --report diff.html
    """
    from converter.equivalence.derivation.rederivation import compare_files
    from ir_runtime.files.whole_files import check_writable

    if as_json:
        refuse_unused("json")
    if report is not None:
        check_writable(report)
    difference, model = compare_files(first, second)
    if not as_json:
        print_difference(difference, first, second, None if everything else _SHOWN)
    if report is not None:
        from converter.report.differences import write_difference

        write_difference(difference, model, first, second, report)
        state.inform(f"Wrote {report}")
    if as_json:
        print_json(state, difference.to_dict())
    if not difference.same:
        click.get_current_context().exit(1)
