"""Rows of results, which terminals, pages and notebooks show in tables of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from converter.report.tables import Cell
from ir_runtime.report import size_text

if TYPE_CHECKING:
    from converter.equivalence import Comparison, Report
    from converter.equivalence.verdict.steps import StepsReport
    from converter.workflow.round_trips import RoundTrip
    from converter.workflow.rows import Row

OUTPUT = ("output", "type", "shape", "max abs", "max rel", "ULPs", "cosine", "verdict")
RUN = ("run", "steps", "max abs", "max rel", "verdict")
STAGE = ("stage", "numbers")
MODEL = ("model", "verdict", "layers", "size", "convert", "verify", "max abs")


def judged(text: str, passed: bool) -> Cell:
    """A verdict in the colour of what is right or wrong."""
    return text, "green" if passed else "red"


def output_row(row: Comparison, report: Report | None = None) -> tuple[Cell, ...]:
    """The figures of an output and what they mean, below :data:`OUTPUT`."""
    agreed = "within rounding" if row.tolerance.rounding else "equal"
    if row.errors is not None:
        agreed = "equal (errors alike)"
    if report is not None and row.name in report.unproven:
        agreed = "proves nothing"
    elif report is not None and row.name in report.shown_by_layers:
        agreed = "shown by its layers"
    return (
        *(row.name, row.element_type, str(list(row.shape)), f"{row.max_absolute:.3g}", f"{row.max_relative:.3g}"),
        "-" if row.max_ulps is None else f"{row.max_ulps:.0f}",
        "-" if row.cosine is None else f"{row.cosine:.7f}",
        judged(agreed if row.passed else row.reason, row.passed),
    )


def run_rows(report: StepsReport) -> Iterator[tuple[tuple[Cell, ...], Comparison]]:
    """Each run of steps, below :data:`RUN`, and the comparison of its largest difference."""
    for run in dict.fromkeys(step.run for step in report.steps):
        steps = [step for step in report.steps if step.run == run]
        furthest = max(steps, key=lambda step: step.comparison.max_absolute).comparison
        wrong = next((step for step in steps if not step.comparison.passed), None)
        verdict = "equal" if wrong is None else f"step {wrong.number} of row {wrong.row} differs"
        figures = (f"{furthest.max_absolute:.3g}", f"{furthest.max_relative:.3g}")
        yield (run, str(len(steps)), *figures, judged(verdict, wrong is None)), furthest


def stage_rows(trip: RoundTrip) -> list[tuple[Cell, ...]]:
    """The stages of a round trip, below :data:`STAGE`."""
    states = [(name, report.passed) for name, report in trip.reports.items()]
    return [(name, judged("equal" if passed else "different", passed)) for name, passed in states]


FIGURES: Mapping[str, tuple[Callable[[Row], float | None], Callable[[Any], str]]] = {
    "layers": (lambda row: row.layers or None, str),
    "model size": (lambda row: row.model_bytes or None, size_text),
    "IR size": (lambda row: row.xml_bytes + row.bin_bytes or None, size_text),
    "convert": (lambda row: row.convert_seconds, "{:.2f} s".format),
    "verify": (lambda row: row.verify_seconds or None, "{:.2f} s".format),
    "memory": (lambda row: row.memory or None, size_text),
    "largest absolute difference": (lambda row: row.max_absolute, "{:.3g}".format),
    "largest relative difference": (lambda row: row.max_relative, "{:.3g}".format),
}
"""The numbers of a model of many, by their names; None where there is none, and how they are written."""


def figure(row: Row, name: str) -> tuple[str, float | None]:
    """One of :data:`FIGURES`: a text, and the number."""
    value_of, text_of = FIGURES[name]
    value = value_of(row)
    return "-" if value is None else text_of(value), value


def model_row(row: Row) -> tuple[Cell, ...]:
    """What became of a model of many, below :data:`MODEL`."""
    names = ("layers", "IR size", "convert", "verify", "largest absolute difference")
    return row.name, judged(row.verdict, row.passed), *(figure(row, name)[0] for name in names)
