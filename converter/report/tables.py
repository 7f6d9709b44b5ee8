"""Tables for terminals. rich is imported when one is printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_MIN_WIDTH_OF_LONGEST = 16
"""The longest column may be folded to so many characters."""


def out() -> Console:
    """The console on stdout, which does not wrap lines in files and pipes."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def new_table(*columns: str) -> Table:
    """A table that folds its longest column alone; a list of its rows where the terminal is too narrow for that."""
    from rich.console import ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

    class _Fitting(Table):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            widths = [max(Text.from_markup(cell).cell_len for cell in cells) for cells in self._texts()]
            longest = max(widths)
            needed = sum(widths) + 2 * (len(widths) - 1)
            if needed > options.max_width and needed - longest + _MIN_WIDTH_OF_LONGEST > options.max_width:
                yield from self._as_list(options.max_width)
                return
            for column, width in zip(self.columns, widths):
                column.no_wrap = width < longest
            yield from super().__rich_console__(console, options)

        def _texts(self) -> list[list[str]]:
            return [[str(column.header), *map(str, column.cells)] for column in self.columns]

        def _as_list(self, width: int) -> RenderResult:
            """Each row as its first cell, and lines of the other cells with their headings."""
            texts = self._texts()
            for row in range(1, len(texts[0])):
                yield Text.from_markup(f"[bold]{texts[0][row]}[/]", overflow="fold")
                line = Text("  ")
                for header, *cells in texts[1:]:
                    entry = Text.from_markup(f"{header} {cells[row - 1]}".strip())
                    if line.plain.strip() and line.cell_len + 2 + entry.cell_len > width:
                        yield line
                        line = Text("  ")
                    line.append("  " if line.plain.strip() else "").append_text(entry)
                yield line

    table = _Fitting(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_traceback() -> None:
    """Print the traceback of the exception that is being handled to stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False, soft_wrap=True).print_exception()
