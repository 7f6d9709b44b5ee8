"""A report of ``verify`` in a notebook: the verdict, a row for each output, a bar for its error."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from converter.equivalence import Comparison, Report

_HEADINGS = ("output", "type", "shape", "max abs", "max rel", "error in parts of the tolerance", "verdict")
_CELL = "text-align:left;padding:2px 10px"
_RIGHT, _WRONG = "#1a7f37", "#cf222e"


def html_of(report: Report) -> str:
    """The report as HTML that needs no style of the page around it."""
    colour, word = (_RIGHT, "PASSED") if report.passed else (_WRONG, "FAILED")
    head = "".join(f'<th style="{_CELL}">{escape(heading)}</th>' for heading in _HEADINGS)
    rows = "".join(_row(one, one.name in report.unproven) for one in report.outputs)
    more = "" if report.verdict == "passed" else f"<p>{escape(report.verdict)}</p>"
    return (
        f'<div><p><b style="color:{colour}">{word}</b> against {escape(report.oracle)}, IR in {escape(report.engine)}'
        f"</p>{more}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(one: Comparison, proves_nothing: bool) -> str:
    cells = [one.name, one.element_type, str(list(one.shape)), f"{one.max_absolute:.3g}", f"{one.max_relative:.3g}"]
    agreed = "proves nothing" if proves_nothing else "equal"
    verdict = agreed if one.passed else one.reason
    texts = [f'<td style="{_CELL}">{escape(cell)}</td>' for cell in cells]
    colour = _RIGHT if one.passed else _WRONG
    texts.append(f'<td style="{_CELL}">{_bar(one, colour)}</td>')
    texts.append(f'<td style="{_CELL};color:{colour}">{escape(verdict)}</td>')
    return f"<tr>{''.join(texts)}</tr>"


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
