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

from ..boundary import described, own_work
from ..errors import InternalError
from ..graph.element_types import Array
from ..graph.model import Model
from .folded_graph import folded_graph
from .kernels import Site
from .kernels.threads import Unbuffered, Workers, processors
from .plan import Plan, step_function
from .profile import Clock
from .static_plans import StaticPlan
from .static_plans.plans_by_shapes import StaticPlans
from .wide_floats import in_float32

_SHORT_CALL_SECONDS = 2e-4
"""Shorter calls hold the interpreter's lock most of the time: waiting for their turn would take longer."""


class Calls:
    """Runs ``model``, of which it keeps a copy; any number of threads may call :meth:`run`.

    With ``optimize`` there are kernels, which share their work among ``threads`` threads, and plans for static shapes.
    ``fallbacks`` counts the calls that kernels left to ``evaluate``, by type of layer.
    """

    def __init__(self, model: Model, *, optimize: bool, threads: int) -> None:
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
        with own_work("making a plan"):
            # Static plans are made later, of the model as it is now.
            self._model = in_float32(model.clone()) if optimize else model.clone()
            if optimize:
                self.static_plans = StaticPlans(self._model, self._new_static_plan)
            if self.static_plans is None or not self.static_plans.is_certain:
                self._plan = self._new_plan()
        constants = [node.op.data for part in model.parts() for node in part.nodes if node.op.data is not None]
        spans = [tensor.span() for tensor in constants]
        self._files = {id(span.file): span.file for span in spans if span is not None}

    def run(self, arguments: Sequence[Array], clock: Clock | None = None) -> list[Array]:
        """The outputs' values, which belong to the caller. ``arguments`` have the types and shapes of the inputs.

        Raises :class:`ModelError` where a file of weights has changed, or a layer cannot take its inputs.
        """
        for file in self._files.values():
            file.check()
        with own_work("the run"):
            if self._shortest_seconds < _SHORT_CALL_SECONDS:
                return self._run_now(arguments, clock)
            with self._turns:
                started = time.perf_counter()
                values = self._run_now(arguments, clock)
                self._shortest_seconds = min(self._shortest_seconds, time.perf_counter() - started)
            return values

    def _run_now(self, arguments: Sequence[Array], clock: Clock | None) -> list[Array]:
        with np.errstate(all="ignore"), Unbuffered() if self.static_plans else contextlib.nullcontext():
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
                    raise InternalError(
                        f"the plan for inputs of the shapes {[list(array.shape) for array in arguments]} failed, which "
                        f"is a fault of this package ({described(error)}): please report it, and use "
                        "compile_model(model, optimize=False) until it is mended"
                    ) from error
            return _owned_by_caller(self.plan_for_any_shapes().run(arguments, clock), arguments)

    def plan_for_any_shapes(self) -> Plan:
        """The plan for inputs of any shapes, made where there is none."""
        plan = self._plan
        if plan is None:
            self._had_other_shapes = True
            plan = self._plan = self._new_plan()
        return plan

    def _new_plan(self) -> Plan:
        return Plan(self._model, self._workers, self.fallbacks)

    def _new_static_plan(self, model: Model) -> StaticPlan:
        assert self._workers is not None
        workers, fallbacks = self._workers, self.fallbacks
        nodes, constants = folded_graph(model, refine_types=True)
        site = Site(nodes, constants, {node.inputs[0] for node in model.results}, workers)
        return StaticPlan(model, site, lambda step: step_function(step, constants, workers, fallbacks), fallbacks)


def _owned_by_caller(values: Sequence[Array], arguments: Sequence[Array]) -> list[Array]:
    """``values`` as arrays that the caller may write to: no view of an argument or a constant, no array twice."""
    results: list[Array] = []
    for value in values:
        value = np.asarray(value)
        is_shared = any(value is other for other in [*arguments, *results])
        results.append(value.copy() if is_shared or not value.flags.writeable or value.base is not None else value)
    return results
