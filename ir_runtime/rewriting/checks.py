"""The only way to change a model: a named pass, after which the model is checked.

A pass of a pipeline runs so, and so does a function that takes arguments of its own, such as the KV cache of a
language model or the preprocessing of an input: :func:`graph_pass` is its decorator. What a stage of the conversion may
change of the model's promise is data, :class:`ir_runtime.graph.invariants.Stage`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from ir_runtime.analysis.shared_shapes import shared_shapes
from ir_runtime.boundary import boundary
from ir_runtime.errors import AttributeValueError, InferenceError, InternalError, ModelError
from ir_runtime.graph import Model
from ir_runtime.graph.invariants import PASSES, Promise, Stage, check
from ir_runtime.graph.node import Edits
from ir_runtime.records import record

from .output_tensors import give_own_tensors, promised_names
from .type_updates import infer_stale

Result = TypeVar("Result")
Call = TypeVar("Call", bound=Callable[..., Any])


@record
class GraphPass:
    """A pass that takes arguments: its name, its stage and its function."""

    name: str
    stage: Stage
    function: Callable[..., Any]


GRAPH_PASSES: dict[str, GraphPass] = {}
"""The passes that :func:`graph_pass` registered, by name."""


def graph_pass(name: str, stage: Stage) -> Callable[[Call], Call]:
    """Decorator: registers a function, whose first argument is a model that it changes in place, as a pass.

    The model is checked after each call. Raises :class:`InternalError`, which names the pass, if it breaks an
    invariant or raises an unexpected exception; errors of the user's making pass.
    """

    def register(function: Call) -> Call:
        if name in GRAPH_PASSES:
            raise InternalError(f"a pass called '{name}' is registered twice")
        GRAPH_PASSES[name] = GraphPass(name, stage, function)

        @functools.wraps(function)
        def call(model: Model, *arguments: Any, **named: Any) -> Any:
            with shared_shapes():
                run = functools.partial(GRAPH_PASSES[name].function, model, *arguments, **named)
                return Checks(model, stage).run(name, run, lambda result: True)

        return call  # type: ignore[return-value]

    return register


class Checks:
    """Checks of the properties that users of a model rely on, after each pass that changes it."""

    is_thorough: ClassVar[bool] = False
    """True if every layer is checked, as tests do, and not only inputs and outputs."""

    def __init__(self, model: Model, stage: Stage = PASSES) -> None:
        self._model = model
        self._stage = stage
        self._names = {} if stage.renames else promised_names(model)
        self._promise = Promise.of(model, thorough=Checks.is_thorough)

    def run(self, name: str, change: Callable[[], Result], is_changed: Callable[[Result], bool]) -> Result:
        """Run the pass ``name``, and check the model if ``is_changed`` says so of its result.

        Each Result keeps a tensor of its own with its names, and what follows from a value of another type is inferred
        again. Raises :class:`InternalError`, which names the pass, if the model breaks an invariant.
        """
        Edits.passes += 1
        try:
            # A pass gets a valid model: layers that it cannot emit are its own fault.
            with _blamed_on(name, InferenceError, AttributeValueError):
                result = change()
            if is_changed(result):
                with _blamed_on(name, ModelError):
                    infer_stale(self._model)
                    give_own_tensors(self._model, {**promised_names(self._model), **self._names})
                    promise = self._promise.renewed(self._model, self._stage, thorough=Checks.is_thorough)
                    check(self._model, promise, f"the pass '{name}'", self._stage, thorough=Checks.is_thorough)
        finally:
            Edits.passes -= 1
        return result


def _blamed_on(name: str, *also: type[ModelError]) -> boundary:
    """Faults, and errors of the types ``also``, become an :class:`InternalError` that names the pass."""

    def is_fault(error: ModelError) -> bool:
        return f"'{name}'" not in str(error) if isinstance(error, InternalError) else isinstance(error, also)

    return boundary(f"the pass '{name}'", is_fault=is_fault)
