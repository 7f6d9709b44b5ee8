"""Commands on several models: each is processed by itself, and the failure of one does not end the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import click

from converter.command_line.json_output import describe_error
from converter.command_line.state import State, attempt, print_json, work_summary

if TYPE_CHECKING:
    from converter.equivalence.verdict.report import Report
    from converter.equivalence.verdict.steps import StepsReport

Outcome = tuple[dict[str, Any], Union["Report", "StepsReport", None]]
"""The JSON of one model, and its report where there is one."""


def target_paths(models: Sequence[Path], output: str | None) -> dict[Path, Path]:
    """Return the path of each model's ``.xml``: beside the model, or in the folder ``output``.

    Raises :class:`click.UsageError` for folders, for an ``output`` that is a file, and for two models of one path.
    """
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


def for_each(state: State, models: Sequence[Path], work: Callable[[Path], Outcome]) -> list[tuple[Path, Outcome]]:
    """Run ``work`` for each model and return the outcomes; of a failure the JSON of its error and no report."""
    results: list[tuple[Path, Outcome]] = []
    for model in dict.fromkeys(models):
        with state.recording():
            outcome, error = attempt(state, partial(work, model))
            result, report = outcome or ({}, None)
            if error is not None:
                result = {"error": describe_error(error, 1)}
            results.append((model, ({**result, **work_summary(state)}, report)))
    return results


def finish_several(state: State, results: Sequence[tuple[Path, Outcome]], as_json: bool) -> None:
    """Print the JSON of all models with ``as_json``; end the command with exit code 1 where a model failed."""
    failed = [
        str(model)
        for model, (result, report) in results
        if "error" in result or (report is not None and not report.passed)
    ]
    if as_json:
        print_json(state, {"models": [{"model": str(model), **result} for model, (result, _) in results]})
    if failed:
        click.echo(f"{len(failed)} of {len(results)} models failed: {', '.join(failed)}", err=True)
        click.get_current_context().exit(1)
