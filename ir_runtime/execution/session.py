"""Sessions: calls of a model whose variables keep their values from one call to the next."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from ..boundary import boundary, shorten
from ..errors import ExecutionError, ModelError
from ..graph import Array
from .ports import InferenceResult, Port, arguments_in_order, as_array
from .profile import Clock, Profile
from .variables import Steps, Value, unsupported

_MAX_SHOWN = 4


class StateError(ExecutionError, KeyError):
    """A variable is not known, or has no value yet."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class Session:
    """A model that is called step by step; made by :meth:`CompiledModel.session`.

    What a call assigns to variables, the next one reads. A variable without a value takes its initial value in each
    call until it is assigned. Sessions of one compiled model are independent of each other, and may run in several
    threads; a single session is used by one thread at a time. After a call that fails, the variables have the values
    of before.
    """

    def __init__(self, steps: Steps, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        if steps.problem:
            raise unsupported(steps.problem)
        self._steps = steps
        self._inputs, self._outputs = inputs, outputs
        self._values: dict[str, Value] = {}
        self._in_use = threading.Lock()
        self.states = States(self)
        """The values of the variables, by name."""

    @boundary(error=ExecutionError)
    def __call__(self, inputs: Any = None) -> InferenceResult:
        """Execute the next step. ``inputs`` and result are those of a call of the compiled model."""
        with self._used():
            return self._step(inputs, None)

    @boundary(error=ExecutionError)
    def profile(self, steps: Iterable[Any]) -> Profile:
        """Execute a step with each of the inputs in ``steps``, and return mean times: of layers, and of their types."""
        clock = Clock()
        with self._used():
            for inputs in steps:
                with clock:
                    self._step(inputs, clock)
        return clock.profile()

    @property
    def input_names(self) -> list[str]:
        """The name of each input, in order."""
        return [port.name for port in self._inputs]

    @property
    def output_names(self) -> list[str]:
        """The name of each output, in order."""
        return [port.name for port in self._outputs]

    def reset(self, name: str | None = None) -> None:
        """Let a variable, or all of them, start anew with the initial value.

        Raises :class:`ExecutionError` for an unknown variable.
        """
        with self._used():
            if name is None:
                self._values.clear()
            else:
                self._values.pop(self._port(name).name, None)

    def __repr__(self) -> str:
        states = [
            f"{port}{'' if name in self._values else ' (initial)'}" for name, port in self._steps.variables.items()
        ]
        more = [f"and {len(states) - _MAX_SHOWN} more"] if len(states) > _MAX_SHOWN else []
        return f"<Session with the variables {', '.join([*states[:_MAX_SHOWN], *more]) or 'none'}>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise ModelError("a session cannot be pickled or copied: its states can, dict(session.states)")

    def _step(self, inputs: Any, clock: Clock | None) -> InferenceResult:
        arguments = arguments_in_order(self._inputs, inputs)
        outputs, assigned = self._steps.next(arguments, self._values, clock)
        self._values.update(assigned)
        return InferenceResult(self._outputs, outputs)

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        if not self._in_use.acquire(blocking=False):
            raise ExecutionError("this session is in a call now: make a session for each thread")
        try:
            yield
        finally:
            self._in_use.release()

    def _port(self, name: str) -> Port:
        variables = self._steps.variables
        if not isinstance(name, str):
            raise StateError(f"the name of a variable must be a text, but is of type {type(name).__name__}")
        if name in variables:
            return variables[name]
        if not variables:
            raise StateError(f"the model has no variable {name!r}, and no others")
        import difflib  # of use in an error's sentence alone

        near = difflib.get_close_matches(name, variables, n=3, cutoff=0.5)
        names_text = ", ".join(map(repr, near or list(variables)[:_MAX_SHOWN]))
        more = ", ..." if len(variables) > _MAX_SHOWN else ""
        hint = f"did you mean {names_text}?" if near else f"its variables are {names_text}{more}"
        raise StateError(f"the model has no variable {shorten(name)!r}; {hint}")


class States(MutableMapping[str, Array]):
    """The values of a session's variables, by name: of those that were assigned or set since the last reset.

    Reading gives a copy, setting takes one. ``del`` lets a variable start anew. After ``saved = dict(states)`` and
    some calls, ``states.update(saved)`` gives all these variables the values of before.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def __getitem__(self, name: str) -> Array:
        with self._session._used():
            port = self._session._port(name)
            value = self._session._values.get(port.name)
            if value is None:
                raise StateError(f"the variable {name!r} has no value yet: the next call starts with its initial value")
            return np.array(value.array, order="C")

    @boundary(error=ExecutionError)
    def __setitem__(self, name: str, value: Any) -> None:
        with self._session._used():
            port = self._session._port(name)
            # In any case a copy, of which the caller has no view.
            self._session._values[port.name] = Value(np.array(as_array(port, value, "state"), order="C"))

    def __delitem__(self, name: str) -> None:
        with self._session._used():
            port = self._session._port(name)
            if self._session._values.pop(port.name, None) is None:
                raise StateError(f"the variable {name!r} has no value yet")

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self._session._steps.variables if name in self._session._values])

    def __len__(self) -> int:
        return len(self._session._values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._session._values

    def clear(self) -> None:
        self._session.reset()

    @property
    def variables(self) -> Mapping[str, Port]:
        """All variables of the model by name, with their types, those without a value too."""
        return dict(self._session._steps.variables)

    def __repr__(self) -> str:
        ports = self._session._steps.variables
        values = {name: value.array for name, value in self._session._values.items()}
        return f"<States {', '.join(f'{name}: {ports[name].element_type}{list(values[name].shape)}' for name in self)}>"
