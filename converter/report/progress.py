"""Progress on the terminal: a spinner for one task; for a batch a line per finished model, and the running ones."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.progress import Progress

    from converter.workflow.process import Running
    from converter.workflow.rows import Row

_MAX_LISTED = 8
"""Maximum number of running models that are listed."""


class BatchProgress:
    """A context that shows the progress of a batch; call :meth:`done` with the row of each finished model."""

    def __init__(self, inform: Callable[[str], None], count: int, running: Running, *, quiet: bool) -> None:
        self._inform = inform
        self._quiet = quiet
        self._count = count
        self._running = running
        self._finished = self._failed = self._reused = 0
        self._live: Live | None = None

    def __enter__(self) -> BatchProgress:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                console=Console(stderr=True), get_renderable=self._render, transient=True, refresh_per_second=4
            )
            self._live.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def done(self, row: Row) -> None:
        """Count a row. On a terminal only rows of failures are printed; elsewhere each row is a line."""
        self._finished += 1
        self._failed += not row.passed
        self._reused += row.reused
        if self._live is None:
            duration = "done before" if row.reused else f"{row.seconds:.1f} s"
            self._inform(f"[{self._finished}/{self._count}] {_format_row(row)} ({duration})")
        elif not row.passed:
            self._live.console.print(_format_row(row), style="red", markup=False, highlight=False, soft_wrap=True)

    def _render(self) -> RenderableType:
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
        for name, seconds in self._running.names()[:_MAX_LISTED]:
            rows.add_row(Text(f"{seconds:6.1f} s"), Text(name, overflow="ellipsis", no_wrap=True))
        return Group(head, rows)


def _format_row(row: Row) -> str:
    return f"{row.name}: {row.verdict}" + (f": {row.reason}" if row.reason else "")


@contextlib.contextmanager
def spinner(task: str, patience: float) -> Iterator[Callable[[str, float], None]]:
    """Show ``task`` and its time on the terminal of stderr once it takes more than ``patience`` seconds.

    The context value is a function that shows another name, and the share between 0 and 1 that is done.
    """
    progresses: list[Progress] = []
    description = task

    def show() -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TaskProgressColumn(text_format_no_percentage=""),
            TimeElapsedColumn(),
        )
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.add_task(description, total=None)
        progress.start()
        progresses.append(progress)

    def update(name: str, share: float) -> None:
        nonlocal description
        description = name
        for progress in progresses:
            progress.update(progress.task_ids[0], description=name, total=1.0, completed=share)

    timer = threading.Timer(patience, show)
    timer.daemon = True
    timer.start()
    try:
        yield update
    finally:
        timer.cancel()
        timer.join()  # show() may be running
        for progress in progresses:
            progress.stop()
