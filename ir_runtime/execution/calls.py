"""Calls of one model: which plan runs, how many calls run at a time, and to whom the results belong.

Arrays are in the order of the model's inputs and outputs here; :mod:`.ports` knows their names.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ..boundary import boundary
from ..graph import Array, Model
from ..graph.mapped_file import MappedFile
from ..threads import processors
from .kernels.caches import grown_caches
from .kernels.threads import Unbuffered, Workers
from .plan import Plan, Schedules
from .profile import Clock
from .wide_floats import in_float32

_SHORT_CALL_SECONDS = 2e-4
"""Shorter calls hold the interpreter's lock most of the time: waiting for their turn would take longer."""


class Calls:
    """Runs ``model``, of which it keeps a copy; any number of threads may call :meth:`run`.

    With ``optimize`` there are kernels, which share their work among ``threads`` threads, and plans for static shapes.
    ``fallbacks`` counts the calls that kernels left to ``evaluate``, by type of layer. The last ``variables`` inputs
    and the last ``assigned`` outputs are values of variables.
    """

    def __init__(self, model: Model, *, optimize: bool, threads: int, variables: int = 0, assigned: int = 0) -> None:
        self.fallbacks: Counter[str] = Counter()
        self._workers = Workers(threads) if optimize else None
        # More calls than processors would only evict each other's cache and compete for the interpreter's lock.
        self._turns = threading.Semaphore(processors())
        self._shortest_seconds = math.inf
        """The shortest call until now; no longer measured after a short one."""
        self._owned = len(model.results) - assigned
        with boundary("making a plan"):
            # Static plans are made later, of the model as it is now.
            model = model.clone()
            carried = model.inputs[len(model.inputs) - variables :]
            grown = grown_caches(model.nodes(), carried, model.outputs) if optimize else frozenset()
            if optimize:
                # A cache of 16 bits would otherwise be converted at each step, twice, instead of growing.
                in_float32(model, kept=grown)
            self._schedules = Schedules(model, self._workers, self.fallbacks, carried, grows=bool(grown))
        self.static_plans = self._schedules.static_plans
        self.plan_for_any_shapes = self._schedules.plan_for_any_shapes
        self._files = _files_of(model)

    def run(self, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        """The outputs' values. ``arguments`` have the types and shapes of the inputs.

        Values of outputs belong to the caller; those that are assigned to variables may be views of anything.
        Raises :class:`ModelError` where a file of weights has changed, or a layer cannot take its inputs.
        """
        for file in self._files.values():
            file.check()
        with boundary("the run"):
            if self._shortest_seconds < _SHORT_CALL_SECONDS:
                return self._run_now(arguments, clock)
            with self._turns:
                started = time.perf_counter()
                values = self._run_now(arguments, clock)
                self._shortest_seconds = min(self._shortest_seconds, time.perf_counter() - started)
            return values

    def _run_now(self, arguments: Sequence[Array], clock: Clock | None) -> list[Array]:
        with np.errstate(all="ignore"), self._buffers():
            values = self._schedules.run(arguments, clock)
            return owned_by_caller(values[: self._owned], arguments) + values[self._owned :]

    def plan_of(self, part: Model) -> Plan:
        """A plan for another model, which is computed beside this one, with the same workers."""
        with boundary("making a plan"):
            self._files = {**self._files, **_files_of(part)}
            part = part.clone()
            return Plan(part if self._workers is None else in_float32(part), self._workers, self.fallbacks)

    def run_plan(self, plan: Plan, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        """The outputs of a plan of :meth:`plan_of`, which may be views of anything."""
        with boundary("the run"), np.errstate(all="ignore"), self._buffers():
            return plan.run(arguments, clock)

    def _buffers(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._workers is None else Unbuffered()


def owned_by_caller(values: Sequence[Array], shared: Sequence[Array]) -> list[Array]:
    """``values`` as arrays that the caller may write to: none of ``shared``, no view, no constant, no array twice."""
    taken = {id(array) for array in shared}
    results: list[Array] = []
    for value in values:
        value = np.asarray(value)
        is_shared = id(value) in taken or not value.flags.writeable or value.base is not None
        results.append(value.copy() if is_shared else value)
        taken.add(id(results[-1]))
    return results


def _files_of(model: Model) -> dict[int, MappedFile]:
    """The files that the model's constants are views of, or are computed from."""
    constants = (node.op.data for part in model.parts() for node in part.nodes)
    files = (None if tensor is None else tensor.file for tensor in constants)
    return {id(file): file for file in files if file is not None}
