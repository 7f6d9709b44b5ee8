"""Lines and tables for terminals. rich is imported when one is printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Cell = Union[str, tuple[str, str]]
"""A text, or a text and its style. Nothing in it is markup."""
_MIN_WIDTH_OF_LONGEST = 16
"""The longest column may be folded to so many characters."""


def out() -> Console:
    """The console on stdout, which does not wrap lines in files and pipes."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def say(console: Console, *parts: Cell) -> None:
    """Print a line."""
    from rich.text import Text

    console.print(Text.assemble(*parts))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table to stdout."""
    out().print(new_table(headings, rows))


def new_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table that folds its longest column alone; a list of its rows where the terminal is too narrow for that."""
    from rich.console import ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

    lines = [[Text.assemble(cell) for cell in row] for row in rows]

    class _Fitting(Table):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            cells = [[Text(heading), *(line[index] for line in lines)] for index, heading in enumerate(headings)]
            widths = [max(cell.cell_len for cell in column) for column in cells]
            longest = max(widths)
            needed = sum(widths) + 2 * (len(widths) - 1)
            if needed > options.max_width and needed - longest + _MIN_WIDTH_OF_LONGEST > options.max_width:
                yield from _as_list(options.max_width)
                return
            for column, width in zip(self.columns, widths):
                column.no_wrap = width < longest
            yield from super().__rich_console__(console, options)

    def _as_list(width: int) -> RenderResult:
        """Each row as its first cell, and lines of the other cells with their headings."""
        for first, *others in lines:
            yield Text(first.plain, "bold", overflow="fold")
            line = Text("  ")
            for heading, cell in zip(headings[1:], others):
                entry = Text.assemble(f"{heading} " if heading and cell.plain else heading, cell)
                if line.plain.strip() and line.cell_len + 2 + entry.cell_len > width:
                    yield line
                    line = Text("  ")
                line.append("  " if line.plain.strip() else "").append_text(entry)
            yield line

    table = _Fitting(*headings, box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.overflow = "fold"
    for line in lines:
        table.add_row(*line)
    return table


def print_traceback() -> None:
    """Print the traceback of the exception that is being handled to stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print_exception()
