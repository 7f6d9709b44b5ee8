"""HTML of texts and tables. Long names may break behind their separators, never inside words."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_BREAKS = re.compile(r"(?<=[/_:])(?=[^\s/._:,\-])|(?<=\w[.,\-])(?=[^\W\d_])")
_NO_BREAKS = re.compile(r"^[-+]?[\d.,]+(e[-+]?\d+)?$|^\S{1,14}$")
_LONGEST_TABLE = 2000


def text_of(text: str) -> str:
    """``text`` as HTML that may break in ``/encoder/layer.0/LayerNorm`` where a reader would break it."""
    return " ".join(map(_word, text.split(" ")))


def _word(word: str) -> str:
    if word.startswith("-"):  # a browser would break behind the hyphens of an option, or behind a minus
        return f"<span class='whole'>{html.escape(word)}</span>"
    if _NO_BREAKS.match(word):
        return html.escape(word)
    return "<wbr>".join(map(html.escape, _BREAKS.split(word)))


@dataclass
class Table:
    """Rows under a title. One that ``is_open`` is shown at once, any other when its title is clicked."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_open: bool = False
    note: str = ""
    """Text below the title of the table."""

    def merged(self) -> Table:
        """The table with one row for each first cell: the other cells of its rows are joined, each text once."""
        rows_by_name: dict[str, list[dict[str, None]]] = {}
        for name, *cells in self.rows:
            joined = rows_by_name.setdefault(name, [{} for _ in cells])
            for texts, cell in zip(joined, cells):
                texts[cell] = None
        rows = [(name, *("; ".join(filter(None, texts)) for texts in cells)) for name, cells in rows_by_name.items()]
        return Table(self.title, self.columns, rows, self.is_open, self.note)

    def html(self) -> str:
        """The table as HTML that the page's script sorts and filters; empty where there are no rows."""
        if not self.rows:
            return ""
        head = "".join(
            f"<th scope='col' aria-sort='none'><button type='button'>{html.escape(column)}</button></th>"
            for column in self.columns
        )
        rows = self.rows[:_LONGEST_TABLE]
        left_out = len(self.rows) - len(rows)
        more = f"<p class='soft'>{left_out:,} more rows are left out.</p>" if left_out else ""
        note = f"<p class='soft'>{html.escape(self.note)}</p>" if self.note else ""
        opened = " open" if self.is_open else ""
        return (
            f"<details class='table'{opened}><summary><h2>{html.escape(self.title)}</h2> "
            f"<span class='soft'>{len(self.rows):,}</span></summary>{note}"
            f"<div class='scroll' tabindex='0' role='region' aria-label='{html.escape(self.title)}'>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(self._row(row) for row in rows)}</tbody></table>"
            f"</div>{more}</details>"
        )

    def _row(self, row: Sequence[str]) -> str:
        cells = "".join(
            f"<td data-label='{html.escape(name)}'>{text_of(cell)}</td>" for name, cell in zip(self.columns, row)
        )
        return f"<tr>{cells}</tr>"


def facts_of(facts: Iterable[tuple[str, str]]) -> str:
    """Names and values as a list of definitions."""
    facts_html = "".join(f"<dt>{html.escape(name)}</dt><dd>{text_of(value)}</dd>" for name, value in facts)
    return f"<dl class='facts'>{facts_html}</dl>"


def list_of(texts: Iterable[str]) -> str:
    """Texts as a list; empty where there are none."""
    items = "".join(f"<li>{text_of(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def format_count(count: int, noun: str) -> str:
    """A number of things: ``1 run``, ``2 runs``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
