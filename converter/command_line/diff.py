"""``onnx2ir diff``: the differences of two IRs."""

from __future__ import annotations

from pathlib import Path

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.drawing import out
from converter.command_line.json_output import print_json
from converter.command_line.program import main
from converter.command_line.state import INPUT_FILE, OUTPUT_FILE, State, guarded

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
    """List the differences of the IRs FIRST and SECOND (.xml): layers, attributes, shapes, weights.

    Ids and the order in the file do not count. Exit code 1 where they differ.

    \b
    Examples:
      onnx2ir diff ours.xml theirs.xml
      onnx2ir diff before.xml after.xml --json
      onnx2ir diff before.xml after.xml --report diff.html
    """
    from rich.markup import escape

    from ir_runtime import read_model
    from ir_runtime.files.whole_files import check_writable
    from ir_runtime.graph.model_difference import compare_models, types_of

    if as_json:
        refuse_unused("json")
    if report is not None:
        check_writable(report)
    model = read_model(first)
    found = compare_models(model, read_model(second))
    if not as_json:
        console = out()
        most = None if everything else _SHOWN
        for path, layers in ((first, found.only_first), (second, found.only_second)):
            if not layers:
                continue
            kinds = ", ".join(f"{count} {kind}" for kind, count in types_of(layers).items())
            console.print(f"[bold]only in {escape(str(path))}[/]: {len(layers)} layers ({escape(kinds)})")
            for name, kind in layers[:most]:
                console.print(f"  {escape(name)} ({kind})")
            if most is not None and len(layers) > most:
                console.print(f"  ... and {len(layers) - most} more: --all shows them")
        for change in found.changed[:most]:
            also = "" if change.layer == change.other else f", there '{change.other}'"
            console.print(f"[bold]changed[/]: layer '{escape(change.layer)}' ({change.type}){escape(also)}")
            for what in change.what:
                console.print(f"  {escape(what)}")
        if most is not None and len(found.changed) > most:
            console.print(f"... and {len(found.changed) - most} more changed layers: --all shows them")
        verdict = "[bold green]the same[/]" if found.same else "[bold red]different[/]"
        console.print(f"{verdict}: {found.paired} layers are in both, {len(found.changed)} of them changed")
    if report is not None:
        from converter.report.differences import write_difference

        write_difference(found, model, first, second, report)
        state.inform(f"Wrote {report}")
    if as_json:
        print_json(state, found.to_dict())
    if not found.same:
        click.get_current_context().exit(1)
