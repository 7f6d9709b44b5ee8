"""Run rows in OpenVINO together: the IRs of neighbouring rows are compiled as one model, in a fifth of the time.

Batches are formed of the rows that were collected. The first row that is reached runs its batch, and the others read
their results. A batch that is refused is halved. What a row gets here counts only where it is as expected: otherwise
the row is run alone, and that counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openvino
import pytest

from tests.engines import EXACT, array_of, core, openvino_tensor, silence

SIZE = 16
"""Rows of a batch."""


@dataclass
class Run:
    """An IR with its inputs, and the names of the outputs that are compared."""

    ir: tuple[bytes, bytes]
    feeds: Mapping[str, Any]
    names: Sequence[str]


class Batches:
    """What the plug-in computes for rows, by the ids of their items.

    ``prepare`` returns the runs of a row by a name of the caller's; rows for which it raises are run alone.
    """

    def __init__(self, prepare: Callable[[str], Mapping[str, Run]]) -> None:
        self._prepare = prepare
        self._batch_of: dict[str, Sequence[str]] = {}
        self._results: dict[str, dict[str, list[Any]]] = {}

    def plan(self, rows: Sequence[str]) -> None:
        """Form batches of rows that run in this order."""
        for start in range(0, len(rows), SIZE):
            batch = rows[start : start + SIZE]
            self._batch_of.update(dict.fromkeys(batch, batch))

    def take(self, row: str) -> dict[str, list[Any]]:
        """Return the outputs of a row's runs, once; none of those that have to run alone."""
        if row not in self._results:
            self._run(self._batch_of.get(row, ()))
        return self._results.pop(row, {})

    def _run(self, rows: Iterable[str]) -> None:
        runs: dict[tuple[str, str], Run] = {}
        for row in rows:
            del self._batch_of[row]
            try:
                with silence():
                    runs.update(((row, name), run) for name, run in self._prepare(row).items())
            except Exception:  # its own test shows what is wrong with it
                continue
        for (row, name), outputs in zip(runs, run_together(list(runs.values()))):
            if outputs is not None:
                self._results.setdefault(row, {})[name] = outputs


def run_together(runs: Sequence[Run]) -> list[list[Any] | None]:
    """Return the outputs of runs whose IRs become one model; None for those that the plug-in refuses."""
    try:
        return list(_merged(runs)) if runs else []
    except Exception:  # the plug-in's errors share no base class of their own
        if len(runs) == 1:
            return [None]
        middle = len(runs) // 2
        return run_together(runs[:middle]) + run_together(runs[middle:])


def _merged(runs: Sequence[Run]) -> Iterable[list[Any]]:
    models = [core().read_model(*run.ir) if run.ir[1] else core().read_model(run.ir[0]) for run in runs]
    parts = ("get_results", "get_sinks", "get_parameters")
    results, sinks, parameters = ([part for model in models for part in getattr(model, name)()] for name in parts)
    request = core().compile_model(openvino.Model(results, sinks, parameters, "rows"), "CPU", EXACT)
    request = request.create_infer_request()
    inputs = [(run, port) for run, model in zip(runs, models) for port in model.inputs]
    tensors = [
        openvino_tensor(next(run.feeds[name] for name in port.names if name in run.feeds)) for run, port in inputs
    ]
    for index, tensor in enumerate(tensors):
        request.set_input_tensor(index, tensor)
    request.infer()
    first = 0
    for run, model in zip(runs, models):
        by_name = {name: first + index for index, port in enumerate(model.outputs) for name in port.names}
        first += len(model.outputs)
        yield [array_of(request.get_output_tensor(by_name[name])) for name in run.names]


def plan(items: Sequence[pytest.Item]) -> None:
    """Form the batches of tests that are marked ``batches(Batches)``, whose ids are the names of their rows."""
    rows: dict[int, tuple[Batches, list[str]]] = {}
    for item in items:
        mark = item.get_closest_marker("batches")
        if mark is not None:
            rows.setdefault(id(mark.args[0]), (mark.args[0], []))[1].append(item.callspec.id)  # type: ignore[attr-defined]
    for batches, ids in rows.values():
        batches.plan(ids)
