"""When a model gets a plan for known shapes: at once where its inputs state them, else when shapes come a second time.

A model that is called with other shapes each time keeps to the plan for any shapes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from .element_types import Array
from .errors import ExecutionError, ModelError
from .graph import Model
from .rewrite import clone
from .specialized import SpecializedPlan

_KEPT = 2
"""For how many shapes plans are kept: each has its own copy of the weights."""

_Key = tuple[tuple[int, ...], ...]


class Specializations:
    """The plans of one model for shapes that were seen."""

    def __init__(self, model: Model, make: Callable[[Model], SpecializedPlan]) -> None:
        self._model = model
        self._make = make
        self._plans: dict[_Key, SpecializedPlan | None] = {}
        self._seen: _Key | None = None
        self._lock = threading.Lock()
        # Texts have no memory of a known size that a call's could be copied to.
        self.is_possible = (
            not model.sinks
            and all(node.op.deterministic or not node.inputs for node in model.nodes())
            and all(output.element_type.bits and not output.element_type.dtype.hasobject for output in model.inputs)
        )
        self.is_certain = False
        if self.is_possible and all(output.shape.is_static for output in model.inputs):
            key = tuple([output.shape.static() for output in model.inputs])
            self.is_certain = self._add(key, clone(model)) is not None

    def plan_for(self, arguments: Sequence[Array]) -> SpecializedPlan | None:
        """The plan for these inputs, if there is to be one."""
        if not self.is_possible:
            return None
        key = tuple([array.shape for array in arguments])
        if key in self._plans:
            return self._plans[key]
        if key != self._seen:
            self._seen = key
            return None
        with self._lock:
            if key in self._plans:
                return self._plans[key]
            model = clone(self._model)
            try:
                model.reshape({index: list(shape) for index, shape in enumerate(key)})
            except (ModelError, MemoryError):
                # The shapes contradict the model, which the plan for any shapes says best.
                self._plans[key] = None
                return None
            return self._add(key, model)

    def drop(self, arguments: Sequence[Array]) -> None:
        """Make no use of the plan for these inputs any more: it failed where nothing is wrong with them."""
        self._plans[tuple([array.shape for array in arguments])] = None

    def _add(self, key: _Key, model: Model) -> SpecializedPlan | None:
        try:
            plan = self._make(model)
        except (ExecutionError, MemoryError):
            # Constants contradict a layer, which may never run; or there is no room for all values at once.
            plan = None
        while len(self._plans) >= _KEPT:
            self._plans.pop(next(iter(self._plans)))
        self._plans[key] = plan
        return plan
