"""What a run of many models is doing: a line for each that is done, and on a terminal those that run."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from converter.command_line.state import State

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

    from converter.batch.process import Running
    from converter.batch.rows import Row

_MOST_SHOWN = 8
"""How many of the models that run are listed."""


class BatchProgress:
    """A context; :meth:`done` is called with each row."""

    def __init__(self, state: State, count: int, running: Running) -> None:
        self._state = state
        self._count = count
        self._running = running
        self._finished = self._failed = self._reused = 0
        self._live: Live | None = None

    def __enter__(self) -> BatchProgress:
        if not self._state.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True), get_renderable=self._drawing, transient=True, refresh_per_second=4
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def done(self, row: Row) -> None:
        """Count a row. Those that failed stay on the terminal; elsewhere each row is a line of its own."""
        self._finished += 1
        self._failed += not row.passed
        self._reused += row.reused
        if self._live is None:
            took = "done before" if row.reused else f"{row.seconds:.1f} s"
            self._state.inform(f"[{self._finished}/{self._count}] {_told(row)} ({took})")
        elif not row.passed:
            self._live.console.print(_told(row), style="red", markup=False, highlight=False, soft_wrap=True)

    def _drawing(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        head = Table.grid(padding=(0, 1))
        text = Text(f"{self._finished} of {self._count}")
        if self._failed:
            text.append(f", {self._failed} failed", "red")
        if self._reused:
            text.append(f", {self._reused} done before")
        head.add_row(ProgressBar(self._count, self._finished, width=30), text)
        rows = Table.grid(padding=(0, 1))
        for name, seconds in self._running.names()[:_MOST_SHOWN]:
            rows.add_row(Text(f"{seconds:6.1f} s"), Text(name, overflow="ellipsis", no_wrap=True))
        return Group(head, rows)


def _told(row: Row) -> str:
    return f"{row.name}: {row.verdict}" + (f": {row.reason}" if row.reason else "")
