"""Preprocessing of an IR on the reference's side: the same steps in NumPy, before its inputs and behind its outputs."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from converter.equivalence.inputs.input_values import Values, uniform, whole_numbers
from converter.passes.preprocessing.insertion import without_preprocessing
from converter.passes.preprocessing.recorded import Recorded
from converter.passes.preprocessing.reference import postprocessed, preprocessed
from ir_runtime import Model, Port
from ir_runtime.graph import Array
from ir_runtime.graph.element_types import element_type


class Processing:
    """The steps that an IR has, and its reference, whose own steps are ``done``, has not."""

    def __init__(self, model: Model, done: Recorded) -> None:
        self._model = model
        record = Recorded.of(model)
        self.record = Recorded(
            {name: steps for name, steps in record.inputs.items() if name not in done.inputs},
            {name: steps for name, steps in record.outputs.items() if name not in done.outputs},
            record.reversed_layers,
        )

    @functools.cached_property
    def core(self) -> Model | None:
        """The model without these steps; None where its layers no longer show where they end."""
        if not self.record.inputs and not self.record.outputs:
            return self._model
        return without_preprocessing(self._model, self.record)

    @property
    def hidden(self) -> str:
        """Why there is no :attr:`core`."""
        if any(steps.fold for steps in self.record.inputs.values()):
            return "mean and scale are part of the IR's weights"
        return "a later change of the IR hides where its preprocessing ends"

    def _recorded_name(self, names: Collection[str]) -> str | None:
        return next((name for name in names if name in self.record.inputs), None)

    def is_given(self, port: Port) -> bool:
        """True if callers give this input in another form than the reference takes it."""
        return self._recorded_name((port.name, *port.names)) is not None

    def preprocess(self, port: Port, value: Array) -> Array:
        """Apply the recorded steps to ``value``, as the reference takes it."""
        name = self._recorded_name((port.name, *port.names))
        return value if name is None else preprocessed(value, self.record.inputs[name])

    def returned(self, outputs: Mapping[str, Any]) -> dict[str, Array]:
        """Apply the recorded steps to the ``outputs`` of the reference, as callers get them: sequences as arrays."""
        steps = self.record.outputs
        arrays = {name: np.asarray(value) for name, value in outputs.items()}
        return {
            name: postprocessed(value, steps[name], _dtype(steps[name].element_type, value)) if name in steps else value
            for name, value in arrays.items()
        }

    def values(self, ports: Collection[Port]) -> dict[str, Values]:
        """Return random values for images, from 0 to 255."""
        values_by_name = {}
        for port in ports:
            name = self._recorded_name((port.name, *port.names))
            if name is None:
                continue
            steps = self.record.inputs[name]
            if port.element_type.is_integral:
                values_by_name[port.name] = whole_numbers(0, min(255, int(np.iinfo(port.dtype).max)))
            elif steps.color is not None or steps.mean is not None or steps.scale is not None:
                values_by_name[port.name] = uniform(0, 255)
        return values_by_name


def _dtype(type_name: str | None, value: Array) -> np.dtype[Any]:
    return value.dtype if type_name is None else element_type(type_name).dtype
