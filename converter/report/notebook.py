"""Results in notebooks: of ``verify`` the verdict, a row for each output, a bar for its error; round trips."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from converter.report.rows import OUTPUT, RUN, STAGE, output_row, run_rows, stage_rows
from converter.report.tables import Cell as Styled
from ir_runtime.report import Cell, cell, table, titled

if TYPE_CHECKING:
    from converter.equivalence import Comparison, Report
    from converter.equivalence.verdict.steps import StepsReport
    from converter.workflow.round_trips import RoundTrip

_ERROR = "error in parts of the tolerance"
_HEADINGS = (*OUTPUT[:5], _ERROR, OUTPUT[-1])
_COLOURS = {"green": "#1a7f37", "red": "#cf222e"}


def html_of(report: Report) -> str:
    """The report as HTML that needs no style of the page around it."""
    columns = [index for index, column in enumerate(OUTPUT) if column not in ("ULPs", "cosine")]
    outputs = [(output_row(comparison, report), comparison) for comparison in report.outputs]
    rows = [_with_bar([row[index] for index in columns], comparison) for row, comparison in outputs]
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
    rows = [_with_bar(row, furthest) for row, furthest in run_rows(report)]
    return f"{_verdict(report)}{table((*RUN[:-1], _ERROR, RUN[-1]), rows)}</div>"


def html_of_round_trip(trip: RoundTrip) -> str:
    """The round trip as HTML: its stages and the verdict."""
    return titled(f"Round trip: {trip.verdict}", table(STAGE, [_cells(row) for row in stage_rows(trip)]))


def _verdict(report: Report | StepsReport) -> str:
    return (
        f'<div><p><b style="color:{_colour(report.passed)}">{report.headline}</b> against {escape(report.oracle)}, '
        f"IR in {escape(report.engine)}</p><p>{report.verdict}: {escape(report.reason)}</p>"
    )


def _cells(row: Iterable[Styled]) -> list[Cell]:
    """Cells of a terminal as those of a notebook."""
    return [cell(part) if isinstance(part, str) else cell(part[0], f"color:{_COLOURS[part[1]]}") for part in row]


def _with_bar(row: Sequence[Styled], comparison: Comparison) -> list[Cell]:
    """A row with a bar for the error before its verdict."""
    *figures, verdict = _cells(row)
    return [*figures, _bar(comparison), verdict]


def _colour(passed: bool) -> str:
    return _COLOURS["green" if passed else "red"]


def _bar(comparison: Comparison) -> Cell:
    """Return a bar for the used part of the absolute or the relative tolerance, whichever allows more."""
    limits = (
        (comparison.max_absolute, comparison.tolerance.absolute),
        (comparison.max_relative, comparison.tolerance.relative),
    )
    parts = [error / limit if limit else math.inf * bool(error) for error, limit in limits if not math.isnan(error)]
    part = min(parts, default=1.0)
    width = 100 if not math.isfinite(part) else round(100 * min(part, 1.0))
    box = "display:inline-block;width:100px;height:9px;border:1px solid #8c959f"
    inner = f"display:block;width:{width}px;height:9px;background:{_colour(comparison.passed)}"
    return f'<span style="{box}"><span style="{inner}"></span></span>', ""
