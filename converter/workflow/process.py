"""A model in a process of its own, with limits: whatever happens there is a row here."""

from __future__ import annotations

import contextlib
import json
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from converter.workflow.jobs import Job
from converter.workflow.records import earlier_row
from converter.workflow.rows import CRASHED, OUT_OF_TIME, Row

# The process has the paths of this one, and never modules of the folder that it happens to start in.
_START = "import sys; sys.path[:] = sys.argv[1:]; from converter.workflow.worker import main; main()"
_LINES = 3
"""Maximum number of the last lines of a crashed process in a message."""


class Running:
    """The processes that run now."""

    def __init__(self) -> None:
        self._processes: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def names(self) -> list[tuple[str, float]]:
        """The names of models, and for how many seconds each runs, the longest first."""
        now = time.monotonic()
        with self._lock:
            return [(name, now - started) for name, (_, started) in self._processes.items()]

    def stop(self) -> None:
        """End all processes, and let none start any more."""
        with self._lock:
            self._stopped = True
            for process, _ in self._processes.values():
                process.kill()

    @contextlib.contextmanager
    def process(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that waits for a job. It ends with the context."""
        pipe = subprocess.PIPE
        with self._lock:
            if self._stopped:
                raise RuntimeError("the run has ended")
            process = subprocess.Popen(
                [sys.executable, "-c", _START, *sys.path],
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                start_new_session=True,  # Ctrl-C reaches this process alone, which ends the others
            )
            self._processes[name] = process, time.monotonic()
        try:
            yield process
        finally:
            with self._lock:
                del self._processes[name]
            process.kill()
            process.communicate()


def run_job(job: Job, running: Running | None = None) -> Row:
    """The row of a model: that of an earlier run where nothing has changed, or of a process of its own."""
    if not job.settings.again:
        row = earlier_row(job)
        if row is not None:
            return row
    with contextlib.suppress(OSError):
        job.record.unlink()
    started = time.monotonic()
    with (running or Running()).process(job.name) as process:
        try:
            output, errors = process.communicate(pickle.dumps(job), job.settings.seconds)
        except subprocess.TimeoutExpired:
            row = Row(job.name, job.model, job.xml, OUT_OF_TIME, f"not done after {job.settings.seconds:g} seconds")
        else:
            row = _row(job, output, errors, process.returncode)
    if not row.seconds:
        with contextlib.suppress(OSError):
            row = _with_figures(row, time.monotonic() - started)
    return row


def _row(job: Job, output: bytes, errors: bytes, code: int) -> Row:
    if code == 0:
        with contextlib.suppress(ValueError, TypeError):
            return Row.from_dict(json.loads(output))
    return Row(job.name, job.model, job.xml, CRASHED, _end_of(code) + _last_lines(errors))


def _with_figures(row: Row, seconds: float) -> Row:
    """The row of a model that has none of its own."""
    return replace(row, model_bytes=row.model_bytes or Path(row.model).stat().st_size, convert_seconds=seconds)


def _end_of(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code} and without a result"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ", as systems do where memory runs out" if name == "SIGKILL" else ""
    return f"the process was ended by signal {-code} ({name}){hint}"


def _last_lines(errors: bytes) -> str:
    lines = [line.strip() for line in errors[-4000:].decode(errors="replace").splitlines() if line.strip()]
    return f": {' | '.join(lines[-_LINES:])}" if lines else ""
