"""Results as text: what commands print."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from .rows import OUTPUT, RUN, STAGE, output_row, run_rows, stage_rows
from .tables import new_table, say

if TYPE_CHECKING:
    from converter.equivalence import DerivationCheck, Report
    from converter.equivalence.verdict.steps import StepsReport
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
    console.print(new_table(OUTPUT, [output_row(row, report) for row in report.outputs]))
    if report.against:
        say(console, "against the other IR:")
        console.print(new_table(OUTPUT, map(output_row, report.against)))
    for element_type, tolerance in sorted({(row.element_type, row.tolerance) for row in report.outputs}, key=str):
        rounding = f", rounding {tolerance.rounding:.3g}" if tolerance.rounding else ""
        limits = f"relative {tolerance.relative:g}, absolute {tolerance.absolute:g}{rounding}"
        say(console, f"tolerance for {element_type}: {limits}")
    for row in (*report.outputs, *report.against):
        if row.errors is not None:
            say(console, f"errors of '{row.name}' against the result in float64: {row.errors.to_text()}")
    if report.is_of_another_model:
        _print_end(console, report)
        return
    if report.weights:
        counts = ", ".join(f"{times} {name}" for name, times in report.weight_states.items())
        say(console, f"weights: {counts}")
    if report.account is not None:
        say(console, report.account.to_text())
    for check in report.weights:
        if not check.passed:
            where = f"weight '{check.name}' in layer {', '.join(check.layers)}"
            say(console, ("changed", "red"), f": {where}: {check.reason}")
    _print_layers(console, report)
    for note in report.notes:
        say(console, f"note: {note}")
    _print_end(console, report)


def _print_end(console: Console, report: Report) -> None:
    """Print the statement, the written part and the verdict of a report."""
    if report.attestation is not None:
        holds = not report.attestation
        say(console, "the statement holds" if holds else ("the statement does not hold", "red"), "" if holds else ":")
        for mismatch in report.attestation:
            say(console, f"  {mismatch}")
    if report.minimised:
        say(console, report.minimised)
    inputs = "given inputs" if report.seed is None else f"{len(report.samples)} random inputs (seed {report.seed})"
    _print_verdict(console, report, f" on {inputs}")


def draw_steps(report: StepsReport, console: Console) -> None:
    """Print a report of steps: each run, the first wrong layer, the verdict."""
    console.print(new_table(RUN, [row for row, _ in run_rows(report)]))
    if report.layer is not None:
        layer = report.layer
        how = "wrong although its inputs are right" if not layer.local.passed else "different"
        where = f"layer '{layer.layer}' ({layer.type}), tensor '{layer.comparison.name}' of node '{layer.node}'"
        say(console, (f"first layer that is {how}", "red"), f": {where}")
    elif report.layer_problem:
        say(console, f"no layer is named: {report.layer_problem}")
    _print_changes(console, report.derivation)
    _print_verdict(console, report, f" (seed {report.seed})")


def draw_round_trip(trip: RoundTrip, console: Console) -> None:
    """Print what a round trip found: each stage, what the last pass changed, the verdict."""
    console.print(new_table(STAGE, stage_rows(trip)))
    if trip.settled is not None:
        say(console, f"pass {trip.settled} changed nothing")
    else:
        say(console, "the passes do not come to rest; the last one changed:")
        for change in trip.difference.changed[:_SHOWN]:
            say(console, f"  layer '{change.layer}' ({change.type}): {'; '.join(change.what)}")
        difference = trip.difference
        for side, layers in (("only before", difference.only_first), ("only after", difference.only_second)):
            for name, layer_type in layers[:_SHOWN]:
                say(console, f"  {side}: {name} ({layer_type})")
    say(console, ("PASSED", "bold green") if trip.passed else ("FAILED", "bold red"))


def _print_verdict(console: Console, report: Report | StepsReport, inputs: str) -> None:
    colour = {"PASSED": "green", "UNPROVEN": "yellow"}.get(report.headline, "red")
    say(console, (report.headline, f"bold {colour}"), f" against {report.oracle}{inputs}, IR in {report.engine}")
    say(console, f"{report.verdict}: {report.reason}")


def _print_changes(console: Console, derivation: DerivationCheck) -> None:
    changes = derivation.differences
    for change in changes[:_SHOWN]:
        where = f"layer '{change.layer or change.other}' ({change.type})"
        say(console, ("not as derived", "red"), f": {where}: {'; '.join(change.what)}")
    if len(changes) > _SHOWN:
        say(console, f"... and {len(changes) - _SHOWN} more: onnx2ir derive --all shows them")


def _print_layers(console: Console, report: Report) -> None:
    fault, first = report.first_fault, report.first_divergence
    if report.layers:
        wrong = sum(not layer.local.passed for layer in report.layers)
        say(console, f"inner tensors: {len(report.layers)} compared, {wrong} wrong from right inputs")
    if fault is not None:
        more = f" and {len(fault.part) - _MOST_NAMED} more" if len(fault.part) > _MOST_NAMED else ""
        part = f", one of {', '.join(fault.part[:_MOST_NAMED])}{more}" if len(fault.part) > 1 else ""
        where = f"layer '{fault.layer}' ({fault.type}{part}), tensor '{fault.comparison.name}' of node '{fault.node}'"
        say(console, ("first layer that is wrong although its inputs are right", "red"), f": {where}")
        say(console, f"  {fault.local.reason}, the largest difference is {fault.local.max_absolute:.3g}")
    elif first is not None:
        where = f"layer '{first.layer}' ({first.type}), tensor '{first.comparison.name}'"
        say(console, f"first divergence: {where}: {first.comparison.reason}")
        say(console, "  no layer is wrong from right inputs: rounding adds up from layer to layer")
    _print_changes(console, report.derivation)
    if report.layers_problem:
        say(console, f"inner tensors could not be compared: {report.layers_problem}")
