"""Compiled models: the public face of execution in NumPy."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..boundary import boundary
from ..displayed import Displayed
from ..errors import ExecutionError, ModelError
from ..graph import Model
from .ports import InferenceResult, arguments_in_order, ports_of
from .profile import Clock, Profile
from .session import Session
from .variables import Steps

__all__ = ["CompiledModel", "compile_model"]


class CompiledModel(Displayed):
    """A model that can be called. Made by :func:`compile_model`."""

    def __init__(self, model: Model, *, optimize: bool = True, threads: int = 1) -> None:
        if not isinstance(model, Model):
            raise ExecutionError(
                f"a Model is required, which read_model and convert_model return, but got {type(model).__name__}"
            )
        self._steps = Steps(model, optimize=optimize, threads=threads)
        self._calls = self._steps.calls
        self.inputs, self.outputs = ports_of(model)
        self.variables = list(self._steps.variables.values())
        """The model's variables, which a :meth:`session` keeps."""

    @property
    def fallbacks(self) -> Counter[str]:
        """The number of calls that kernels left to ``evaluate`` since the model was compiled, by type of layer."""
        return self._calls.fallbacks.copy()

    @property
    def input_names(self) -> list[str]:
        """The name of each input, in order."""
        return [port.name for port in self.inputs]

    @property
    def output_names(self) -> list[str]:
        """The name of each output, in order."""
        return [port.name for port in self.outputs]

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"<CompiledModel ({inputs}) -> ({outputs})>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise ModelError("a compiled model cannot be pickled or copied: pickle the Model, and compile it again")

    @boundary(error=ExecutionError)
    def __call__(self, inputs: Any = None) -> InferenceResult:
        """Execute the model. Its variables have their initial values in each call; a :meth:`session` keeps them.

        ``inputs`` maps tensor names (or positions) to arrays, or lists the arrays in order; a single
        array serves a model of one input. Arrays must have the port's dtype and shape; plain Python
        numbers and lists are converted. Raises :class:`ExecutionError` for anything else.
        """
        return InferenceResult(self.outputs, self._steps.run(arguments_in_order(self.inputs, inputs)))

    def session(self) -> Session:
        """A session, in which the model's variables keep their values from one call to the next.

        A model without variables has sessions without states. Raises :class:`UnsupportedError` where a variable is in
        a body, is assigned twice, or has two types.
        """
        return Session(self._steps, self.inputs, self.outputs)

    @boundary(error=ExecutionError)
    def profile(self, inputs: Any = None, *, repeat: int = 1) -> Profile:
        """Execute the model ``repeat`` times and return the time of each layer, and of each type of layer.

        A first call is not measured. ``inputs`` are those of a call.
        """
        if repeat < 1:
            raise ExecutionError(f"repeat must be 1 or more, but is {repeat}")
        self._steps.run(arguments_in_order(self.inputs, inputs))
        clock = Clock()
        for _ in range(repeat):
            with clock:
                self._steps.run(arguments_in_order(self.inputs, inputs), clock)
        return clock.profile()


@boundary(error=ExecutionError)
def compile_model(model: Model, *device: object, optimize: bool = True, threads: int = 1) -> CompiledModel:
    """Prepare ``model`` for execution in NumPy: order its layers, fold constants, choose kernels.

    Inputs of static shapes get a plan for these shapes, and so do shapes that come twice in a row. Such a plan uses
    the threads of NumPy's own library for products. Kernels of attention, SoftMax and normalizations share their work
    among ``threads`` threads, beside those of the library.

    The two plans round differently: where inputs are dynamic, the results of the second call may differ from those of
    the first in the last bits (about 1e-6 of the largest value). Any number of threads may call the model; as many
    calls run at a time as there are processors.

    Without ``optimize`` each layer is computed by its ``evaluate``. That is slow; kernels are tested against it.

    There is no ``device``: one that is given is an :class:`ExecutionError`.
    """
    if device:
        raise ExecutionError(
            f"models run in NumPy here, on no device: write compile_model(model) without {device[0]!r}"
        )
    if not isinstance(threads, int) or threads < 1:
        raise ExecutionError(f"threads must be a number of 1 or more, but are {threads!r}")
    return CompiledModel(model, optimize=bool(optimize), threads=threads)
