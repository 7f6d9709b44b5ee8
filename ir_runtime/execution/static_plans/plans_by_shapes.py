"""The static plans of a model, by the shapes of its inputs.

A model whose inputs have static shapes gets its plan when it is compiled; any other one when the same shapes come
twice in a row. A model that is called with other shapes each time only uses the plan for any shapes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ...errors import ExecutionError, ModelError
from ...graph import Array, Model
from .plan import StaticPlan

_MAX_PLANS = 2
"""The number of plans that are kept: each has its own packed weights."""

_Key = tuple[tuple[int, ...], ...]


class StaticPlans:
    """The static plans of one model; ``make`` makes the plan of a model whose inputs have static shapes.

    A model that ``grows`` has other shapes at each step, and no plans. Shapes that come ``repeats`` times in a row get
    one.
    """

    def __init__(
        self, model: Model, make: Callable[[Model], StaticPlan], *, grows: bool = False, repeats: int = 2
    ) -> None:
        self._model = model
        self._make = make
        self._plans: dict[_Key, StaticPlan | None] = {}
        self._seen: _Key | None = None
        self._times_seen = 0
        self._repeats = repeats
        self._lock = threading.Lock()
        # Strings have no fixed size, so that no array can be made for them before a call.
        self.is_possible = (
            not grows
            and not model.sinks
            and all(node.op.deterministic or not node.inputs for node in model.nodes())
            and all(output.element_type.bits and not output.element_type.dtype.hasobject for output in model.inputs)
        )
        self.is_certain = False
        if self.is_possible and all(output.shape.is_static for output in model.inputs):
            key = tuple([output.shape.static() for output in model.inputs])
            self.is_certain = self._add(key, model.clone()) is not None

    def plan_for(self, arguments: Sequence[Array]) -> StaticPlan | None:
        """The plan for these shapes, made where they have come often enough; None where there is none."""
        if not self.is_possible:
            return None
        key = tuple([array.shape for array in arguments])
        # Another thread may drop the plan at any time.
        plan = self._plans.get(key)
        if plan is not None or key in self._plans:
            return plan
        if key != self._seen:
            self._seen, self._times_seen = key, 0
        self._times_seen += 1
        if self._times_seen < self._repeats:
            return None
        with self._lock:
            if key in self._plans:
                return self._plans[key]
            model = self._model.clone()
            try:
                model.reshape({index: list(shape) for index, shape in enumerate(key)})
            except (ModelError, MemoryError):
                # The shapes contradict the model: the plan for any shapes raises the better error.
                self._plans[key] = None
                return None
            return self._add(key, model)

    def drop(self, arguments: Sequence[Array]) -> None:
        """Never use the plan for the shapes of ``arguments`` again: it needs more memory than there is."""
        self._plans[tuple([array.shape for array in arguments])] = None

    def stop(self) -> None:
        """Make no more plans: the model's variables have other shapes at each step."""
        if self.is_possible:
            self.is_possible = False
            with self._lock:
                self._plans.clear()

    def _add(self, key: _Key, model: Model) -> StaticPlan | None:
        try:
            plan = self._make(model)
        except (ExecutionError, MemoryError):
            # Constants contradict a layer, which may never run; or there is no memory for all values at once.
            plan = None
        while len(self._plans) >= _MAX_PLANS:
            self._plans.pop(next(iter(self._plans)))
        self._plans[key] = plan
        return plan
