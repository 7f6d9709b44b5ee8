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

from ..boundary import boundary, fault_of
from ..graph import Array, Model
from ..graph.mapped_file import MappedFile
from .folded_graph import folded_graph
from .kernels import Site
from .kernels.caches import grown_caches
from .kernels.threads import Unbuffered, Workers, processors
from .plan import WITHOUT_KERNELS, Plan, step_function
from .profile import Clock
from .static_plans import StaticPlan
from .static_plans.plans_by_shapes import StaticPlans
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
        self.static_plans: StaticPlans | None = None
        """None where the model is not optimized."""
        self._workers = Workers(threads) if optimize else None
        # More calls than processors would only evict each other's cache and compete for the interpreter's lock.
        self._turns = threading.Semaphore(processors())
        self._shortest_seconds = math.inf
        """The shortest call until now; no longer measured after a short one."""
        self._plan: Plan | None = None
        """The plan for any shapes, while there is one."""
        self._had_other_shapes = False
        """Whether inputs came for which there was no static plan, after one was made."""
        with boundary("making a plan"):
            # Static plans are made later, of the model as it is now.
            self._model = model.clone()
            self._variables = self._model.inputs[len(self._model.inputs) - variables :]
            self._owned = len(self._model.results) - assigned
            if optimize:
                grown = grown_caches(self._model.nodes(), self._variables, self._model.outputs)
                # A cache of 16 bits would otherwise be converted at each step, twice, instead of growing.
                in_float32(self._model, kept=grown)
                self.static_plans = StaticPlans(self._model, self._new_static_plan, grows=bool(grown))
            if self.static_plans is None or not self.static_plans.is_certain:
                self._plan = self._new_plan()
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
            static_plan = None if self.static_plans is None else self.static_plans.plan_for(arguments)
            if static_plan is not None:
                if not self._had_other_shapes:
                    # Each plan holds packed weights of its own: one is enough while the shapes stay the same.
                    self._plan = None
                try:
                    return static_plan.run(arguments, clock)
                except MemoryError:
                    # A static plan holds all values at once. The plan for any shapes frees them after their last use.
                    assert self.static_plans is not None
                    self.static_plans.drop(arguments)
                except Exception as error:
                    # Where the inputs are at fault, the plan for any shapes raises the better error.
                    self.plan_for_any_shapes().run(arguments, clock)
                    shapes = [list(array.shape) for array in arguments]
                    raise fault_of(f"the plan for inputs of the shapes {shapes}", error, WITHOUT_KERNELS) from error
            values = self.plan_for_any_shapes().run(arguments, clock)
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

    def plan_for_any_shapes(self) -> Plan:
        """The plan for inputs of any shapes, made where there is none."""
        plan = self._plan
        if plan is None:
            self._had_other_shapes = True
            plan = self._plan = self._new_plan()
        return plan

    def _new_plan(self) -> Plan:
        return Plan(self._model, self._workers, self.fallbacks, self._variables)

    def _new_static_plan(self, model: Model) -> StaticPlan:
        assert self._workers is not None
        workers, fallbacks = self._workers, self.fallbacks
        nodes, constants = folded_graph(model, refine_types=True)
        site = Site(nodes, constants, {node.inputs[0] for node in model.results}, workers)
        return StaticPlan(model, site, lambda step: step_function(step, constants, workers, fallbacks), fallbacks)


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
