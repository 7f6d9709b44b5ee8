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
    shapes: Mapping[str, Sequence[int]] | None = None
    """Shapes that the inputs get first."""

    def model(self) -> openvino.Model:
        xml, weights = self.ir
        model = core().read_model(xml, weights) if weights else core().read_model(xml)
        if self.shapes is not None:
            model.reshape({name: openvino.PartialShape(list(shape)) for name, shape in self.shapes.items()})
        return model


class Batches:
    """What the plug-in computes for rows, by the ids of their items.

    ``prepare`` returns the runs of a row by names of the caller's, from the values of the test's parameters; rows for
    which it raises are run alone.
    """

    def __init__(self, prepare: Callable[..., Mapping[str, Run]]) -> None:
        self._prepare = prepare
        self._parameters: dict[str, Mapping[str, Any]] = {}
        self._batch_of: dict[str, Sequence[str]] = {}
        self._results: dict[str, dict[str, list[Any]]] = {}

    def plan(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        """Form batches of rows that run in this order: the values of the test's parameters by the ids of items."""
        self._parameters.update(rows)
        names = list(rows)
        for start in range(0, len(names), SIZE):
            batch = names[start : start + SIZE]
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
                    prepared = self._prepare(**self._parameters.pop(row))
                runs.update(((row, name), run) for name, run in prepared.items())
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
    models = [run.model() for run in runs]
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
    """Form the batches of tests that are marked ``batches(Batches)``, of neighbours in whatever order these run."""
    planned: dict[Batches, dict[str, Mapping[str, Any]]] = {}
    marked = [item for item in items if item.get_closest_marker("batches")]
    for item in sorted(marked, key=lambda item: [item.location[1], *item.callspec.indices.values()]):  # type: ignore[attr-defined]
        batches = item.get_closest_marker("batches").args[0]
        planned.setdefault(batches, {})[item.callspec.id] = item.callspec.params
    for batches, rows in planned.items():
        batches.plan(rows)
