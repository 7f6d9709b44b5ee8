"""Results in notebooks: of ``verify`` the verdict, a row for each output, a bar for its error; round trips."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from ir_runtime.report import Cell, cell, table, titled

if TYPE_CHECKING:
    from converter.equivalence import Comparison, Report
    from converter.equivalence.steps import Step, StepsReport
    from converter.workflow.round_trips import RoundTrip

_ERROR = "error in parts of the tolerance"
_HEADINGS = ("output", "type", "shape", "max abs", "max rel", _ERROR, "verdict")
_STEPS = ("run", "steps", "max abs", "max rel", _ERROR, "verdict")
_RIGHT, _WRONG = "#1a7f37", "#cf222e"


def html_of(report: Report) -> str:
    """The report as HTML that needs no style of the page around it."""
    rows = [_row(comparison, report) for comparison in report.outputs]
    weights = ", ".join(f"{times} {state}" for state, times in report.weight_states.items())
    more = f"<p>weights: {escape(weights)}</p>" if weights else ""
    more += "" if report.account is None else f"<p>{escape(report.account.to_text())}</p>"
    more += "".join(
        f"<p>errors of '{escape(comparison.name)}' against the result in float64: "
        f"{escape(comparison.errors.to_text())}</p>"
        for comparison in report.outputs
        if comparison.errors is not None
    )
    more += "".join(f"<p>note: {escape(note)}</p>" for note in report.notes)
    if report.page:
        more += f'<p><a href="{escape(quote(report.page))}" target="_blank">{escape(report.page)}</a></p>'
    return f"{_verdict(report)}{table(_HEADINGS, rows)}{more}</div>"


def html_of_steps(report: StepsReport) -> str:
    """The report of steps as HTML: a row for each run."""
    runs: dict[str, list[Step]] = {}
    for step in report.steps:
        runs.setdefault(step.run, []).append(step)
    rows = []
    for run, steps in runs.items():
        wrong = next((step for step in steps if not step.comparison.passed), None)
        furthest = max(steps, key=lambda step: step.comparison.max_absolute).comparison
        verdict = "equal" if wrong is None else f"step {wrong.number} of row {wrong.row} differs"
        rows.append((run, len(steps), *_error(furthest), cell(verdict, f"color:{_colour(wrong is None)}")))
    return f"{_verdict(report)}{table(_STEPS, rows)}</div>"


def html_of_round_trip(trip: RoundTrip) -> str:
    """The round trip as HTML: its stages and the verdict."""
    rows = [(name, "equal" if stage_report.passed else "different") for name, stage_report in trip.reports.items()]
    return titled(f"Round trip: {trip.verdict}", table(("stage", "numbers"), rows))


def _verdict(report: Report | StepsReport) -> str:
    return (
        f'<div><p><b style="color:{_colour(report.passed)}">{report.headline}</b> against {escape(report.oracle)}, '
        f"IR in {escape(report.engine)}</p><p>{report.verdict}: {escape(report.reason)}</p>"
    )


def _row(comparison: Comparison, report: Report) -> tuple[object, ...]:
    agreed = "equal" if comparison.errors is None else "equal (errors alike)"
    if comparison.name in report.unproven:
        agreed = "proves nothing"
    elif comparison.name in report.shown_by_layers:
        agreed = "shown by its layers"
    verdict = cell(agreed if comparison.passed else comparison.reason, f"color:{_colour(comparison.passed)}")
    return comparison.name, comparison.element_type, list(comparison.shape), *_error(comparison), verdict


def _error(comparison: Comparison) -> tuple[str, str, Cell]:
    return (
        f"{comparison.max_absolute:.3g}",
        f"{comparison.max_relative:.3g}",
        (_bar(comparison, _colour(comparison.passed)), ""),
    )


def _colour(passed: bool) -> str:
    return _RIGHT if passed else _WRONG


def _bar(comparison: Comparison, colour: str) -> str:
    """Return a bar for the used part of the absolute or the relative tolerance, whichever allows more."""
    limits = (
        (comparison.max_absolute, comparison.tolerance.absolute),
        (comparison.max_relative, comparison.tolerance.relative),
    )
    parts = [error / limit if limit else math.inf * bool(error) for error, limit in limits if not math.isnan(error)]
    part = min(parts, default=1.0)
    width = 100 if not math.isfinite(part) else round(100 * min(part, 1.0))
    box = "display:inline-block;width:100px;height:9px;border:1px solid #8c959f"
    return (
        f'<span style="{box}"><span style="display:block;width:{width}px;height:9px;background:{colour}"></span></span>'
    )
