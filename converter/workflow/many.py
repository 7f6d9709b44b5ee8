"""``convert_many``: a row for each of many models, from any executor."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Union

from converter.errors import ConversionError
from converter.options.conversion import ConversionOptions, SavingOptions, both_from, takes
from converter.workflow.jobs import Job, Settings, jobs_for
from converter.workflow.process import Running, run_job
from converter.workflow.rows import LOST, Row
from converter.workflow.sources import find_models
from ir_runtime.boundary import boundary
from ir_runtime.threads import processors

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@boundary(error=ConversionError)
@takes(ConversionOptions, SavingOptions)
def convert_many(
    models: Paths,
    folder: str | os.PathLike[str],
    *,
    executor: Executor | None = None,
    jobs: int | None = None,
    verify: bool = False,
    seed: int = 0,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    again: bool = False,
    each: Callable[[Row], object] | None = None,
    options: ConversionOptions | None = None,
    saving: SavingOptions | None = None,
    **keywords: Any,
) -> list[Row]:
    """Convert many models, each in a process of its own; a row for each, in their order.

    ``models`` is a folder (every ``.onnx`` in it), a pattern such as ``"zoo/**/*.onnx"``, a text file with a path a
    line, a model, or a sequence of these. The IRs go below ``folder``, each by its model's path in the folder that all
    have in common. ``options`` and ``saving`` are those of :func:`convert_model` and :func:`save_model`, or the
    keywords are their fields; ``verify`` compares each IR with its model, on inputs of ``seed``.

    Whatever happens to a model is the ``verdict`` of its row: an error, a crash, more seconds than ``time_limit`` or
    more bytes of memory than ``memory_limit``. What an earlier run has done is not done again unless the model, its
    weights, the options, or the version of this package are others, or ``again`` is set.

    ``executor`` is any ``concurrent.futures.Executor``. Its workers must see the same files, and have this package;
    each starts the processes of its models. Examples: ``dask.distributed.Client(...).get_executor()``, or a
    ``ProcessPoolExecutor``. Without one ``jobs`` models at a time are converted here, by default as many as there are
    processors. ``each`` is called in this thread with every row as soon as it is there.

    Raises :class:`ConversionError` where there are no models, two would become the same IR, or an option is wrong.
    """
    for argument, limit in (("time_limit", time_limit), ("memory_limit", memory_limit), ("jobs", jobs)):
        if limit is not None and not limit > 0:
            raise ConversionError(f"{argument} must be more than 0, but is {limit!r}")
    if executor is not None and jobs is not None:
        raise ConversionError("jobs is for runs without an executor, which has workers of its own")
    sources = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    settings = settings_for(
        *both_from(options, saving, keywords, "convert_many"),
        verify=bool(verify),
        seed=seed,
        seconds=time_limit,
        memory=memory_limit,
        again=bool(again),
    )
    jobs_to_run = jobs_for(find_models(sources), Path(folder), settings)
    rows: list[Row | None] = [None] * len(jobs_to_run)
    for index, row in results(jobs_to_run, executor=executor, workers=jobs):
        rows[index] = row
        if each is not None:
            each(row)
    return [row for row in rows if row is not None]


def settings_for(options: ConversionOptions, saving: SavingOptions, **others: Any) -> Settings:
    """Return the settings of a run, whose workers may have other working directories.

    Raises :class:`ConversionError` for limits that this system does not have.
    """
    if others["memory"] is not None and importlib.util.find_spec("resource") is None:
        raise ConversionError("this system has no limits of memory")
    files = [os.path.abspath(path) for path in options.extensions]
    return Settings(replace(options, extensions=files), saving, **others)


def results(
    jobs: Sequence[Job], *, executor: Executor | None = None, workers: int | None = None, running: Running | None = None
) -> Iterator[tuple[int, Row]]:
    """The place of a job and its row, for each job as it is done.

    Without ``executor`` this process starts ``workers`` processes at a time, which are listed in ``running`` and end
    when the iteration is left.
    """
    if executor is not None:
        yield from _rows(jobs, executor, run_job)
        return
    running = running or Running()
    with ThreadPoolExecutor(workers or processors()) as threads:
        try:
            yield from _rows(jobs, threads, partial(run_job, running=running))
        finally:
            running.stop()


def _rows(jobs: Sequence[Job], executor: Executor, run: Callable[[Job], Row]) -> Iterator[tuple[int, Row]]:
    futures = {_submit(executor, run, job): index for index, job in enumerate(jobs)}
    try:
        for future in as_completed(futures):
            index = futures[future]
            try:
                row = future.result()
            except Exception as error:  # whatever keeps a task from its row is the executor's
                job = jobs[index]
                row = Row(job.name, job.model, job.xml, LOST, f"{type(error).__name__}: {error}")
            yield index, row
    finally:
        for future in futures:
            future.cancel()


def _submit(executor: Executor, run: Callable[[Job], Row], job: Job) -> Future[Row]:
    """The future of a job; one with the error where the executor takes no more."""
    try:
        return executor.submit(run, job)
    except RuntimeError as error:
        lost: Future[Row] = Future()
        lost.set_exception(error)
        return lost
