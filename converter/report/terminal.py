"""Results as text: what commands print."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from .tables import new_table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from converter.equivalence import Comparison, DerivationCheck, Report
    from converter.equivalence.steps import StepsReport
    from converter.workflow.round_trips import RoundTrip

_WIDTH = 120
_SHOWN = 20
"""Maximum number of listed layers that the last pass of a round trip changed, or that are not as derived."""


_MOST_NAMED = 8
"""Layers of a part that are named: a tree ensemble becomes 180."""


def plain_text(draw: Callable[[Console], None]) -> str:
    """Return the text that ``draw`` prints to a console, without colours."""
    text = io.StringIO()
    # In a notebook rich would display the lines instead of writing them.
    plain = Console(file=text, width=_WIDTH, highlight=False, soft_wrap=True, color_system=None, force_jupyter=False)
    draw(plain)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def draw_report(report: Report, console: Console) -> None:
    """Print a report: outputs, weights, the first wrong layer, the verdict."""
    console.print(_outputs_table(report.outputs, report.unproven, report.shown_by_layers))
    if report.against:
        console.print("against the other IR:")
        console.print(_outputs_table(report.against))
    for element_type, tolerance in sorted({(row.element_type, row.tolerance) for row in report.outputs}, key=str):
        rounding = f", rounding {tolerance.rounding:.3g}" if tolerance.rounding else ""
        console.print(
            f"tolerance for {element_type}: relative {tolerance.relative:g}, absolute {tolerance.absolute:g}{rounding}"
        )
    for row in (*report.outputs, *report.against):
        if row.errors is not None:
            console.print(f"errors of '{escape(row.name)}' against the result in float64: {row.errors.to_text()}")
    if report.is_of_another_model:
        _print_end(console, report)
        return
    if report.weights:
        counts = ", ".join(f"{times} {name}" for name, times in report.weight_states.items())
        console.print(f"weights: {counts}")
    if report.account is not None:
        console.print(report.account.to_text())
    if report.weights:
        for check in report.weights:
            if not check.passed:
                where = f"weight '{check.name}' in layer {', '.join(check.layers)}"
                console.print(f"[red]changed[/]: {escape(where)}: {escape(check.reason)}")
    _print_layers(console, report)
    for note in report.notes:
        console.print(f"note: {escape(note)}")
    _print_end(console, report)


def _print_end(console: Console, report: Report) -> None:
    """Print the statement, the written part and the verdict of a report."""
    if report.attestation is not None:
        console.print("[red]the statement does not hold[/]:" if report.attestation else "the statement holds")
        for mismatch in report.attestation:
            console.print(f"  {escape(mismatch)}")
    if report.minimised:
        console.print(escape(report.minimised))
    inputs = "given inputs" if report.seed is None else f"{len(report.samples)} random inputs (seed {report.seed})"
    _print_verdict(console, report, f" on {inputs}")


def draw_steps(report: StepsReport, console: Console) -> None:
    """Print a report of steps: each run, the first wrong layer, the verdict."""
    table = new_table("run", "steps", "max abs", "max rel", "verdict")
    for run in dict.fromkeys(step.run for step in report.steps):
        steps = [step for step in report.steps if step.run == run]
        wrong = next((step for step in steps if not step.comparison.passed), None)
        verdict = "[green]equal[/]" if wrong is None else f"[red]step {wrong.number} of row {wrong.row} differs[/]"
        furthest = max(steps, key=lambda step: step.comparison.max_absolute).comparison
        table.add_row(run, str(len(steps)), f"{furthest.max_absolute:.3g}", f"{furthest.max_relative:.3g}", verdict)
    console.print(table)
    if report.layer is not None:
        layer = report.layer
        how = "wrong although its inputs are right" if not layer.local.passed else "different"
        where = f"layer '{layer.layer}' ({layer.type}), tensor '{layer.comparison.name}' of node '{layer.node}'"
        console.print(f"[red]first layer that is {how}[/]: {escape(where)}")
    elif report.layer_problem:
        console.print(f"no layer is named: {escape(report.layer_problem)}")
    _print_changes(console, report.derivation)
    _print_verdict(console, report, f" (seed {report.seed})")


def draw_round_trip(trip: RoundTrip, console: Console) -> None:
    """Print what a round trip found: each stage, what the last pass changed, the verdict."""
    table = new_table("stage", "numbers")
    for name, report in trip.reports.items():
        table.add_row(name, "[green]equal[/]" if report.passed else "[bold red]different[/]")
    console.print(table)
    if trip.settled is not None:
        console.print(f"pass {trip.settled} changed nothing")
    else:
        console.print("the passes do not come to rest; the last one changed:")
        for change in trip.difference.changed[:_SHOWN]:
            console.print(f"  layer '{change.layer}' ({change.type}): {'; '.join(change.what)}", markup=False)
        for side, layers in (
            ("only before", trip.difference.only_first),
            ("only after", trip.difference.only_second),
        ):
            for name, layer_type in layers[:_SHOWN]:
                console.print(f"  {side}: {name} ({layer_type})", markup=False)
    console.print("[bold green]PASSED[/]" if trip.passed else "[bold red]FAILED[/]")


def _print_verdict(console: Console, report: Report | StepsReport, inputs: str) -> None:
    colour = {"PASSED": "green", "UNPROVEN": "yellow"}.get(report.headline, "red")
    engines = f"against {escape(report.oracle)}{inputs}, IR in {escape(report.engine)}"
    console.print(f"[bold {colour}]{report.headline}[/] {engines}")
    console.print(f"{report.verdict}: {escape(report.reason)}")


def _print_changes(console: Console, derivation: DerivationCheck) -> None:
    changes = derivation.differences
    for change in changes[:_SHOWN]:
        where = f"layer '{change.layer or change.other}' ({change.type})"
        console.print(f"[red]not as derived[/]: {escape(where)}: {escape('; '.join(change.what))}")
    if len(changes) > _SHOWN:
        console.print(f"... and {len(changes) - _SHOWN} more: onnx2ir derive --all shows them")


def _print_layers(console: Console, report: Report) -> None:
    fault, first = report.first_fault, report.first_divergence
    if report.layers:
        wrong = sum(not layer.local.passed for layer in report.layers)
        console.print(f"inner tensors: {len(report.layers)} compared, {wrong} wrong from right inputs")
    if fault is not None:
        more = f" and {len(fault.part) - _MOST_NAMED} more" if len(fault.part) > _MOST_NAMED else ""
        part = f", one of {', '.join(fault.part[:_MOST_NAMED])}{more}" if len(fault.part) > 1 else ""
        where = f"layer '{fault.layer}' ({fault.type}{part}), tensor '{fault.comparison.name}' of node '{fault.node}'"
        console.print(f"[red]first layer that is wrong although its inputs are right[/]: {escape(where)}")
        console.print(f"  {escape(fault.local.reason)}, the largest difference is {fault.local.max_absolute:.3g}")
    elif first is not None:
        where = f"layer '{first.layer}' ({first.type}), tensor '{first.comparison.name}'"
        console.print(f"first divergence: {escape(where)}: {escape(first.comparison.reason)}")
        console.print("  no layer is wrong from right inputs: rounding adds up from layer to layer")
    _print_changes(console, report.derivation)
    if report.layers_problem:
        console.print(f"inner tensors could not be compared: {escape(report.layers_problem)}")


def _outputs_table(
    rows: Sequence[Comparison], unproven: Sequence[str] = (), shown_by_layers: Sequence[str] = ()
) -> Table:
    table = new_table("output", "type", "shape", "max abs", "max rel", "ULPs", "cosine", "verdict")
    for row in rows:
        agreed = "within rounding" if row.tolerance.rounding else "equal"
        if row.errors is not None:
            agreed = "equal (errors alike)"
        if row.name in unproven:
            agreed = "proves nothing"
        elif row.name in shown_by_layers:
            agreed = "shown by its layers"
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
    return table
