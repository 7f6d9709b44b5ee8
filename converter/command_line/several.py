"""Commands on several files: each by itself, and one that fails does not end the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import click

from converter.command_line.drawing import json_text
from converter.command_line.state import State, report_error, text_of

if TYPE_CHECKING:
    from converter.equivalence.report import Report
    from converter.equivalence.steps import StepsReport

Outcome = tuple[dict[str, Any], Union["Report", "StepsReport", None]]
"""The JSON of one model, and its report where there is one."""


def refuse_with_several(given: Mapping[str, object]) -> None:
    """Raises :class:`click.UsageError` for options that are for one model alone."""
    wrong = [name for name, value in given.items() if value]
    if wrong:
        raise click.UsageError(f"{', '.join(wrong)} cannot be used with several models")


def targets_of_several(models: Sequence[Path], output: str | None, one_each: Mapping[str, object]) -> dict[Path, Path]:
    """The ``.xml`` of each model: beside it, or in the folder ``output``. Raises :class:`click.UsageError`."""
    refuse_with_several(one_each)
    folders = [str(model) for model in models if model.is_dir()]
    if folders:
        raise click.UsageError(f"{folders[0]} is a folder: onnx2ir batch converts every model in it")
    if output is not None and Path(output).suffix.lower() in (".xml", ".bin"):
        raise click.UsageError(f"-o {output} names one file, but there are {len(models)} models: give a folder")
    targets: dict[Path, Path] = {}
    by_target: dict[Path, Path] = {}
    for model in models:
        target = (model.parent if output is None else Path(output)) / f"{model.stem}.xml"
        first = by_target.setdefault(target.resolve(), model)
        if first.resolve() != model.resolve():
            raise click.UsageError(
                f"{first} and {model} would both become {target}: onnx2ir batch keeps the folders of models apart"
            )
        targets[model] = target
    return targets


def for_each(
    state: State, models: Sequence[Path], work: Callable[[Path], Outcome | None]
) -> list[tuple[Path, Outcome | str]]:
    """What ``work`` gives for each model, or the text of its error."""
    results: list[tuple[Path, Outcome | str]] = []
    for model in dict.fromkeys(models):
        found: list[Outcome] = []

        def convert(model: Path = model, found: list[Outcome] = found) -> None:
            outcome = work(model)
            if outcome is not None:
                found.append(outcome)

        error = report_error(state, convert)
        results.append((model, found[0] if found else "" if error is None else text_of(error)))
    return results


def finish_several(results: Sequence[tuple[Path, Outcome | str]], as_json: bool) -> None:
    """Print the list of all JSON where it is asked for; exit code 1 where a model failed."""
    entries: list[dict[str, Any]] = []
    failed: list[str] = []
    for model, outcome in results:
        if isinstance(outcome, str):
            entries.append({"model": str(model), "error": outcome})
            failed.append(str(model))
            continue
        result, report = outcome
        entries.append({"model": str(model), **result})
        if report is not None and not report.passed:
            failed.append(str(model))
    if as_json:
        click.echo(json_text(entries))
    if failed:
        click.echo(f"{len(failed)} of {len(results)} models failed: {', '.join(failed)}", err=True)
        click.get_current_context().exit(1)
