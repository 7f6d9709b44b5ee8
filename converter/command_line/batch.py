"""``onnx2ir batch``: many models, a process each, with a table and a page of what became of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter.command_line.branches import refuse_unused
from converter.command_line.json_output import plain, versions
from converter.command_line.options import CLASSES, conversion_options, field_options, saving_options
from converter.command_line.program import main
from converter.command_line.state import OUTPUT_FILE, State, guarded
from converter.report.commands import print_rows

if TYPE_CHECKING:
    from converter.workflow.jobs import Job
    from converter.workflow.rows import Row

_TIMES = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
_SIZES = {"": 1, "b": 1} | {
    unit: 1024**power for power, letter in enumerate("kmgt", 1) for unit in (letter, f"{letter}b", f"{letter}ib")
}


def _amount(name: str, units: Mapping[str, int], example: str) -> Callable[..., float | None]:
    """Return a parser for an option that is a number with a unit."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
        if match is None or match[2] not in units or not float(match[1]):
            raise click.BadParameter(f"{value!r} is not a {name} such as {example}", ctx, param)
        return float(match[1]) * units[match[2]]

    return read


_seconds = _amount("time", _TIMES, "90, 90s, 5m or 2h")
_bytes = _amount("size", _SIZES, "800MiB or 4GiB")


@main.command("batch")
@click.argument("models", nargs=-1, required=True, metavar="DIR|LIST|GLOB...")
@click.option(
    "-o",
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="OUT",
    help="The folder for the IRs, which lie in it as the models do in theirs.",
)
@click.option(
    "--check",
    "keeps_nothing",
    is_flag=True,
    help="Convert and verify alone: no IR is kept, and -o is not needed.",
)
@click.option("--verify", "check", is_flag=True, help="Compare each written IR with its model.")
@click.option("--seed", default=0, show_default=True, help="With --verify: seed of the random inputs.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="How many models at a time [as many as processors]."
)
@click.option("--time-limit", callback=_seconds, metavar="TIME", help="The longest that a model may take: 90, 5m, 2h.")
@click.option(
    "--memory-limit", callback=_bytes, metavar="SIZE", help="The most memory that a model may take: 800MiB, 4GiB."
)
@click.option("--again", is_flag=True, help="Convert also what an earlier run has done.")
@click.option("--report", "page", type=OUTPUT_FILE, metavar="FILE", help="Write an HTML page with every model.")
@click.option(
    "--json",
    "lines",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write a line of JSON for each model; - is stdout.",
)
@click.option(
    "--annotate",
    "annotated",
    type=click.Choice(["github"]),
    help="Print what GitHub shows at the files of models that failed, and add a table to the summary of the job.",
)
@field_options(*CLASSES)
@guarded
def batch(
    state: State,
    models: tuple[str, ...],
    output_dir: Path | None,
    keeps_nothing: bool,
    check: bool,
    seed: int,
    jobs: int | None,
    time_limit: float | None,
    memory_limit: float | None,
    again: bool,
    page: Path | None,
    lines: str | None,
    annotated: str | None,
    **values: Any,
) -> None:
    """Convert every model of folders, lists (a path a line) and patterns, each in a process of its own.

    What is done and unchanged is not done again: an interrupted run goes on with the same command. Exit code 1 where
    a model failed.

    \b
    Examples:
      onnx2ir batch zoo/ -o ir/
      onnx2ir batch zoo/ -o ir/ --verify --jobs 2 --report results.html --json results.jsonl
      onnx2ir batch "zoo/**/*.onnx" -o ir/ --time-limit 10m --memory-limit 4GiB
      onnx2ir batch models.txt -o ir/ --compress int8
      onnx2ir batch zoo/ --check
    """
    from converter.errors import ConversionError
    from converter.workflow.jobs import jobs_for
    from converter.workflow.many import settings_for
    from converter.workflow.sources import find_models
    from ir_runtime.files.whole_files import check_writable, write_whole
    from ir_runtime.threads import processors

    if keeps_nothing:
        refuse_unused("check")
    elif not check:
        refuse_unused("unverified")
    if values["compress"] is None:
        refuse_unused("uncompressed")
    if annotated and lines == "-":
        raise click.UsageError("--annotate prints to stdout, and so does --json -: give --json a FILE")
    if keeps_nothing and output_dir is not None:
        raise click.UsageError("--check keeps no IR: give it no --output-dir")
    if output_dir is None:
        if not keeps_nothing:
            raise click.UsageError("--output-dir OUT is missing, the folder for the IRs; --check needs none")
        folder = click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="onnx2ir-"))
        output_dir = Path(folder)
    for path in (page, None if lines in (None, "-") else Path(str(lines))):
        if path is not None:
            check_writable(path)
    try:
        settings = settings_for(
            conversion_options(values),
            saving_options(values),
            verify=check or keeps_nothing,
            seed=seed,
            seconds=time_limit,
            memory=None if memory_limit is None else int(memory_limit),
            again=again,
        )
        batch_jobs = jobs_for(find_models(models), output_dir, settings)
    except ConversionError as error:
        raise click.UsageError(str(error)) from error
    started = time.monotonic()
    count = min(jobs or processors(), len(batch_jobs))
    rows = _run(state, batch_jobs, count, None if lines == "-" else lines)
    finished = [row for row in rows if row is not None]
    ordered = "".join(f"{_line(row)}\n" for row in finished)
    if lines == "-":
        click.echo(ordered, nl=False)
    else:
        print_rows(finished, len(batch_jobs))
        if lines is not None:
            write_whole(Path(lines), lambda file: file.write(ordered.encode()))
    if page is not None:
        from converter.report.batches import write_page

        facts = {"time of this run": f"{time.monotonic() - started:.1f} s, {count} at a time"}
        facts["command"] = shlex.join(["onnx2ir", *sys.argv[1:]]) if State.owns_process else ""
        write_page(finished, len(batch_jobs), facts, page)
        state.inform(f"Wrote {page}")
    if annotated:
        _annotate(finished, len(batch_jobs))
    if len(finished) < len(batch_jobs):
        click.echo(
            f"interrupted: {len(finished)} of {len(batch_jobs)} models are done; "
            "the same command goes on with the others",
            err=True,
        )
    if len(finished) < len(batch_jobs) or not all(row.passed for row in finished):
        click.get_current_context().exit(1)


def _run(state: State, jobs: Sequence[Job], count: int, lines: str | None) -> list[Row | None]:
    """The rows in the order of the jobs; None for those that an interrupted run did not reach.

    Each row is a line of the file ``lines`` as soon as it is there.
    """
    from converter.report.progress import BatchProgress
    from converter.workflow.many import results
    from converter.workflow.process import Running

    rows: list[Row | None] = [None] * len(jobs)
    running = Running()
    if lines is not None:
        Path(lines).parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        file = None if lines is None else stack.enter_context(Path(lines).open("w", encoding="utf-8"))
        progress = stack.enter_context(BatchProgress(state.inform, len(jobs), running, quiet=state.quiet))
        try:
            for index, row in results(jobs, workers=count, running=running):
                rows[index] = row
                progress.done(row)
                if file is not None:
                    file.write(f"{_line(row)}\n")
                    file.flush()
        except KeyboardInterrupt:
            running.stop()
    return rows


def _annotate(rows: Sequence[Row], requested_count: int) -> None:
    """Print a line for each note, and add the table to the file that GitHub names."""
    from converter.report.annotations import notes_of, repository, summary

    for line in notes_of(rows, repository()):
        click.echo(line)
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(summary(rows, requested_count))


def _line(row: Row) -> str:
    """The JSON of a row: as other commands have them, warnings, times and versions."""
    row_fields = row.to_dict()
    messages, *seconds = (row_fields.pop(name) for name in ("messages", "convert_seconds", "verify_seconds"))
    row_fields["warnings"] = [{"model": row.model, "message": message} for message in messages]
    row_fields["seconds"] = dict(zip(("convert", "verify"), seconds)) | {"total": row.seconds}
    return json.dumps(plain({**row_fields, "versions": versions(row.oracle)}), ensure_ascii=False)
