"""The page of many models: each with its verdict, its sizes and times, in a table that can be sorted and filtered."""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from converter.report.markup import text_of
from converter.report.page import asset, document
from converter.report.rows import FIGURES, figure
from converter.version import __version__
from converter.workflow.rows import Row, counts
from ir_runtime.files.whole_files import write_whole
from ir_runtime.report import size_text

_HEADINGS = ("model", "verdict", *FIGURES)


def write_page(rows: Sequence[Row], requested_count: int, facts: Mapping[str, str], path: Path) -> None:
    """Write the page of ``rows`` to ``path``; ``requested_count`` is the number of models that there were to be.

    Raises :class:`ir_runtime.FileError` where it cannot be written.
    """
    text = page(rows, requested_count, facts, path.parent).encode()
    write_whole(path, lambda file: file.write(text))


def page(rows: Sequence[Row], requested_count: int, facts: Mapping[str, str], folder: Path | None = None) -> str:
    """The page as text. It links to the pages that models have beside their IRs, where it is stored in ``folder``."""
    counted = counts(rows)
    passed = len(rows) == requested_count and all(row.passed for row in rows)
    told = {
        "models": f"{len(rows)} of {requested_count}: "
        + (", ".join(f"{n} {verdict}" for verdict, n in counted.items()) or "none"),
        **facts,
        "time of all models": f"{sum(row.seconds for row in rows):.1f} s",
        "size of all IRs": size_text(sum(row.xml_bytes + row.bin_bytes for row in rows)),
        "onnx2ir": __version__,
    }
    reused = sum(row.reused for row in rows)
    told |= {"of an earlier run": str(reused)} if reused else {}
    facts_html = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in told.items())
    verdicts = "".join(f"<option value='{verdict}'>{verdict} ({n})</option>" for verdict, n in counted.items())
    orders = "".join(f"<option value='{place}'>{heading}</option>" for place, heading in enumerate(_HEADINGS))
    head = "".join(
        f"<th scope='col' aria-sort='none'><button type='button'>{heading}</button></th>" for heading in _HEADINGS
    )
    lines = "".join(_line(row, _own_page(row, folder)) for row in rows)
    body = (
        f"<h1>{requested_count} models</h1><p><span class='verdict {'passed' if passed else 'failed'}'>"
        f"{'PASSED' if passed else 'FAILED'}</span></p><dl class='facts'>{facts_html}</dl>"
        "<div class='tools-row'>"
        "<label>Search <input id='search' type='search' autocomplete='off' placeholder='name or reason'></label>"
        f"<label>Verdict <select id='verdict'><option value=''>all ({len(rows)})</option>{verdicts}</select></label>"
        f"<label>Sort by <select id='order'><option value=''>order of the run</option>{orders}</select></label>"
        "<button id='turn' type='button' aria-pressed='false'>Largest first</button>"
        "<span id='count' class='soft' aria-live='polite'></span></div>"
        f"<table class='models'><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    )
    own = "converter.report"
    return document(
        f"{requested_count} models", body, "", asset(own, "assets/batches.js"), asset(own, "assets/batches.css")
    )


def _own_page(row: Row, folder: Path | None) -> str:
    """The address of the page ``NAME.html`` beside the IR ``NAME.xml``, as seen from ``folder``.

    Empty where there is none, or where it is older than the IR.
    """
    if folder is None or not row.xml:
        return ""
    xml = Path(row.xml)
    own = xml.with_suffix(".html")
    if not own.is_file() or not xml.is_file() or own.stat().st_mtime < xml.stat().st_mtime:
        return ""
    try:
        return quote(Path(os.path.relpath(own.resolve(), folder.resolve())).as_posix())
    except ValueError:  # on another drive
        return own.resolve().as_uri()


def _line(row: Row, own_page: str) -> str:
    reason = f"<div class='reason'>{html.escape(row.reason)}</div>" if row.reason else ""
    notes = "".join(f"<div class='soft'>{html.escape(message)}</div>" for message in row.messages)
    colour = "good" if row.passed else "bad"
    earlier = " <span class='soft'>(earlier run)</span>" if row.reused else ""
    numbers = "".join(
        f"<td class='number' data-label='{heading}' data-value='{'' if value is None else value}'>"
        f"{html.escape(text)}</td>"
        for heading, (text, value) in ((name, figure(row, name)) for name in FIGURES)
    )
    name = text_of(row.name)
    if own_page:
        name = f"<a href='{html.escape(own_page)}'>{name}</a>"
    return (
        f"<tr data-verdict='{row.verdict}'><th scope='row'>{name}{reason}{notes}</th>"
        f"<td data-label='verdict'><span class='{colour}'>{row.verdict}</span>{earlier}</td>{numbers}</tr>"
    )
