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
    from converter.round_trips import RoundTrip

_ERROR = "error in parts of the tolerance"
_HEADINGS = ("output", "type", "shape", "max abs", "max rel", _ERROR, "verdict")
_STEPS = ("run", "steps", "max abs", "max rel", _ERROR, "verdict")
_RIGHT, _WRONG = "#1a7f37", "#cf222e"


def html_of(report: Report) -> str:
    """The report as HTML that needs no style of the page around it."""
    rows = [_row(one, report) for one in report.outputs]
    weights = ", ".join(f"{times} {state}" for state, times in report.weight_states.items())
    more = f"<p>weights: {escape(weights)}</p>" if weights else ""
    more += "" if report.account is None else f"<p>{escape(report.account.to_text())}</p>"
    more += "".join(
        f"<p>errors of '{escape(one.name)}' against the result in float64: {escape(one.errors.to_text())}</p>"
        for one in report.outputs
        if one.errors is not None
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


def html_of_round_trip(found: RoundTrip) -> str:
    """The round trip as HTML: its stages and the verdict."""
    rows = [(name, "equal" if one.passed else "different") for name, one in found.reports.items()]
    return titled(f"Round trip: {found.verdict}", table(("stage", "numbers"), rows))


def _verdict(report: Report | StepsReport) -> str:
    return (
        f'<div><p><b style="color:{_colour(report.passed)}">{report.headline}</b> against {escape(report.oracle)}, '
        f"IR in {escape(report.engine)}</p><p>{report.verdict}: {escape(report.reason)}</p>"
    )


def _row(one: Comparison, report: Report) -> tuple[object, ...]:
    agreed = "equal" if one.errors is None else "equal (errors alike)"
    if one.name in report.unproven:
        agreed = "proves nothing"
    elif one.name in report.shown_by_layers:
        agreed = "shown by its layers"
    verdict = cell(agreed if one.passed else one.reason, f"color:{_colour(one.passed)}")
    return one.name, one.element_type, list(one.shape), *_error(one), verdict


def _error(one: Comparison) -> tuple[str, str, Cell]:
    return f"{one.max_absolute:.3g}", f"{one.max_relative:.3g}", (_bar(one, _colour(one.passed)), "")


def _colour(passed: bool) -> str:
    return _RIGHT if passed else _WRONG


def _bar(one: Comparison, colour: str) -> str:
    """How much of the absolute or the relative tolerance is used up, whichever allows more; full from all of it on."""
    limits = (one.max_absolute, one.tolerance.absolute), (one.max_relative, one.tolerance.relative)
    parts = [error / limit if limit else math.inf * bool(error) for error, limit in limits if not math.isnan(error)]
    part = min(parts, default=1.0)
    width = 100 if not math.isfinite(part) else round(100 * min(part, 1.0))
    box = "display:inline-block;width:100px;height:9px;border:1px solid #8c959f"
    return (
        f'<span style="{box}"><span style="display:block;width:{width}px;height:9px;background:{colour}"></span></span>'
    )
