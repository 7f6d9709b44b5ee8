"""Errors of both sides against the exact result: that of the ONNX model computed in float64.

A deep model enlarges the rounding of each layer, and a quantised one sends values in the middle between two steps to
either. Where the results of two right implementations then differ by more than any tolerance, their errors are still
alike. So the ONNX model is translated once more, plainly, without fusions and rules, all its layers are computed in
float64, and the IR counts as equal where it is about as close to that result as onnxruntime is.

The translators are those that made the IR: a meaning that they get wrong would be wrong in both. Errors therefore
decide only where each layer of the IR, given right inputs, computes what onnxruntime computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from converter.conversion.convert import convert_model
from converter.equivalence.comparison.rounding import ROUNDING_TO_STEPS, TIE_SHARE_OF_STEP, moved_by_steps
from converter.equivalence.reference.engines import engine_for
from converter.equivalence.reference.references import run_by_names
from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource
from converter.stages import silent
from ir_runtime import Model
from ir_runtime.execution.wide_floats import in_float64
from ir_runtime.graph import Array, Operation, TensorType, element_types
from ir_runtime.graph.invariants import PASSES
from ir_runtime.rewriting import graph_pass
from ir_runtime.rewriting.constant_folding import as_tuple

Evaluate = Callable[..., "Array | tuple[Array, ...]"]
_ROUNDING = 2.0**-24
"""The rounding of a number of float32, as a share of it."""


class ExactModel:
    """The ONNX model ``source``, converted with ``options``, in float64.

    Raises :class:`VerificationError` where a layer cannot be computed in float64, :class:`ConversionError` and
    :class:`ModelError` where the model cannot be converted.
    """

    def __init__(self, source: ModelSource, options: Mapping[str, Any]) -> None:
        self._engine = engine_for("numpy", exact_model(source, options))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name, for inputs by the names of the ONNX model."""
        return run_by_names(self._engine, inputs)

    def run_with_rounding(self, inputs: Mapping[str, Array], seed: int, *, to_steps: bool = False) -> dict[str, Array]:
        """As :meth:`run`, but the results of each layer change at random by up to the rounding of float32.

        What that does to an output is the least that implementations in float32 differ by (Monte Carlo arithmetic:
        D. Stott Parker, UCLA CSD-970002, 1997). Sums inside of layers round, too, which is left out here. With
        ``to_steps`` values in the middle between two steps go to either instead: they are codes times scales, of which
        every order of computing gives another last bit.
        """
        model = self._engine.model.clone()
        change = _break_ties if to_steps else _round_layers
        change(model, np.random.default_rng(seed))
        return run_by_names(engine_for("numpy", model), inputs)


def exact_model(source: ModelSource, options: Mapping[str, Any]) -> Model:
    """The IR of an ONNX model in float64, plainly translated; raises as :class:`ExactModel` does."""
    with silent():
        model = in_float64(convert_model(source, target="any", fuse=False, exact=True, **options))
    for name in _narrow_layers(model):
        raise VerificationError(f"layer '{name}' cannot be computed in float64")
    return model


@graph_pass("ties", PASSES)
def _break_ties(model: Model, generator: np.random.Generator) -> None:
    for part in model.parts():
        for node in part.nodes:
            if isinstance(node.op, ROUNDING_TO_STEPS):
                node.op = _Changed(node.op, partial(_with_ties, node.op, generator))


@graph_pass("rounded_layers", PASSES)
def _round_layers(model: Model, generator: np.random.Generator) -> None:
    for part in model.parts():
        for node in part.nodes:
            op = node.op
            if op.movement or not op.is_pure:
                continue
            if any(output.element_type in (element_types.f64, element_types.f32) for output in node.outputs):
                node.op = _Changed(op, partial(_round, op, generator))


def rounded_model(model: Model, seed: int) -> Model:
    """A copy whose layers' results in float32 change at random by up to one representable value."""
    copy = model.clone()
    _round_layers(copy, np.random.default_rng(seed))
    return copy


class _Changed(Operation):
    """An operation whose results ``function`` computes from the same inputs."""

    _op: Operation
    _function: Evaluate

    def __init__(self, op: Operation, function: Evaluate) -> None:
        self.__dict__.update(_op=op, _function=function, inputs=op.inputs)

    def infer(self, inputs: Sequence[TensorType]) -> Sequence[TensorType]:
        return self._op.infer(inputs)

    def evaluate(self, *inputs: Array) -> Array | tuple[Array, ...]:
        return self._function(*inputs)


def _with_ties(op: Operation, generator: np.random.Generator, *inputs: Array) -> Array | tuple[Array, ...]:
    """Round to steps after moving the values by less than a step."""
    share = generator.uniform(-TIE_SHARE_OF_STEP, TIE_SHARE_OF_STEP, inputs[0].shape)
    return op.evaluate(moved_by_steps(op, inputs, share), *inputs[1:])


def _round(op: Operation, generator: np.random.Generator, *inputs: Array) -> Array | tuple[Array, ...]:
    """Change the results at random by up to half of float32's last bit, or by that bit where they have it alone."""
    results = tuple(_nudge(value, generator) for value in as_tuple(op.evaluate(*inputs)))
    return results if len(results) > 1 else results[0]


def _nudge(value: Array, generator: np.random.Generator) -> Array:
    if value.dtype not in (np.float64, np.float32):
        return value
    most = _ROUNDING if value.dtype == np.float64 else 2 * _ROUNDING
    moved = np.asarray(value * (1 + generator.uniform(-most, most, value.shape)), value.dtype)
    # Whole numbers are not rounded: they may be sizes, of which a Range makes one element more.
    return np.where(np.isfinite(value) & (value == np.rint(value)), value, moved)


def _narrow_layers(model: Model) -> Iterator[str]:
    """The layers that compute in fewer bits than float64."""
    for part in model.parts():
        for node in part.nodes:
            float_types = {output.element_type for output in node.outputs} if node.op.data is None else set()
            if not float_types.isdisjoint((element_types.f16, element_types.bf16, element_types.f32)):
                yield node.name
