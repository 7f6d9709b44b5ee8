"""The process of one model: a job from stdin, its row to stdout as JSON.

Everything that this process prints by itself, its C libraries included, goes to stderr.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from converter.workflow import rows
from converter.workflow.jobs import Job


def main() -> None:
    """Do one job, and end the process."""
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job: Job = pickle.load(sys.stdin.buffer)
    _die_first()
    _limit(job.settings.memory)
    gc.disable()  # the process ends with this model
    row = replace(convert_one(job), memory=_most_memory())
    json.dump(row.to_dict(), results)
    results.flush()
    os._exit(0)  # nothing is left to tidy up


def convert_one(job: Job) -> rows.Row:
    """Convert, save and compare a model in this process. Every error becomes the row's."""
    from converter.errors import VerificationError
    from converter.stages import timed
    from ir_runtime.boundary import boundary
    from ir_runtime.errors import InternalError, ModelError

    work = _Work(job)
    with timed() as times:
        try:
            work.convert()
            if job.settings.verify:
                work.verify()
            work.write_record([text for _, text in times.warnings])
        except Exception as cause:  # the row is the place where a fault of this package is seen
            lacks_memory = _is_lack_of_memory(cause)
            fault = MemoryError() if lacks_memory and isinstance(cause, ImportError) else cause
            error = boundary("the work", error=ModelError).expected(fault)
            verdict = rows.FAULT if isinstance(error, InternalError) else rows.REFUSED
            if isinstance(error, VerificationError):
                verdict = rows.NOT_COMPARED
            if lacks_memory:
                verdict = rows.OUT_OF_MEMORY
            work.row = replace(work.row, verdict=verdict, reason=str(error))
    return replace(work.row, messages=tuple(text for _, text in times.warnings))


class _Work:
    """The steps of one model, and the row so far."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.row = rows.Row(job.name, job.model, job.xml, rows.REFUSED)
        self._read: list[Path] = []

    def convert(self) -> None:
        from converter.onnx_file.reader import open_model
        from converter.workflow.single_model import Work
        from ir_runtime.files.file_kinds import IR, kind_of_path

        started = time.perf_counter()
        model, xml = Path(self.job.model), Path(self.job.xml)
        settings = self.job.settings
        file = None if kind_of_path(model) is IR else open_model(model)
        self._work = Work(model, xml, settings.options, settings.saving, file=file).run("convert", "write")
        stored = self._work.stored.model
        weights = xml.with_suffix(".bin")
        files = [model, *(file.external_files if file else (model.with_suffix(".bin"),))]
        self._read = [*files, *map(Path, settings.options.extensions)]
        self.row = replace(
            self.row,
            verdict=rows.CONVERTED,
            layers=len(stored.nodes()),
            model_bytes=sum(path.stat().st_size for path in files),
            xml_bytes=xml.stat().st_size,
            bin_bytes=weights.stat().st_size,
            convert_seconds=time.perf_counter() - started,
        )

    def verify(self) -> None:
        started = time.perf_counter()
        from converter.equivalence.verdict.steps import StepsReport
        from converter.options.verification import VerificationOptions

        self._work.checking = VerificationOptions(seed=self.job.settings.seed)
        report = self._work.run("verify").report
        assert report is not None
        compared = [step.comparison for step in report.steps] if isinstance(report, StepsReport) else report.outputs
        self.row = replace(
            self.row,
            verdict=rows.VERIFIED
            if report.passed
            else rows.UNPROVEN
            if report.verdict == rows.UNPROVEN
            else rows.DIFFERS,
            reason="" if report.passed else report.reason,
            oracle=report.oracle,
            unproven=() if isinstance(report, StepsReport) else report.unproven,
            max_absolute=max((comparison.max_absolute for comparison in compared), default=0.0),
            max_relative=max((comparison.max_relative for comparison in compared), default=0.0),
            verify_seconds=time.perf_counter() - started,
        )

    def write_record(self, messages: Sequence[str]) -> None:
        from converter.workflow.records import write_record

        self.row = replace(self.row, memory=_most_memory(), messages=tuple(messages))
        write_record(self.job, self.row, self._read)


def _is_lack_of_memory(error: BaseException | None) -> bool:
    """True if a :class:`MemoryError`, or a library that could not be mapped, is behind ``error``."""
    while error is not None and not isinstance(error, MemoryError):
        if isinstance(error, ImportError) and re.search("failed to map segment|annot allocate memory", str(error)):
            return True
        error = error.__cause__
    return error is not None


def _limit(memory: int | None) -> None:
    """Let allocations of more than ``memory`` bytes in all fail."""
    if memory is None:
        return
    import resource

    # Linux counts what can be written, and not the files that are mapped; elsewhere all addresses count.
    limit_type = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    _, most = resource.getrlimit(limit_type)
    resource.setrlimit(limit_type, (memory if most < 0 else min(memory, most), most))


def _die_first() -> None:
    """Where memory runs out, the system shall end this process, and not the one that waits for it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _most_memory() -> int:
    """The most memory that this process had, in bytes; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
