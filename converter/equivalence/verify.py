"""verify: run the ONNX model and the IR on the same inputs and compare every output by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Union

import numpy as np

from converter.equivalence.compare import ROUNDED_WEIGHTS, STEPS, Comparison, Tolerance, compare, tolerance_for
from converter.equivalence.inputs import given_inputs, random_inputs
from converter.equivalence.oracle import oracle
from converter.equivalence.rounded_weights import has_rounded_weights, rounding_allowances
from converter.errors import VerificationError
from converter.onnx_file.reader import ModelSource, open_model
from converter.onnx_file.types import element_type_of
from ir_runtime import Model, ModelError, compile_model, read_model
from ir_runtime.element_types import Array
from ir_runtime.graph import Node
from ir_runtime.operations.inputs_outputs import Result1
from ir_runtime.operations.quantization import FakeQuantize1
from ir_runtime.shape_inference import make_node

InputSource = Union[str, "os.PathLike[str]", Mapping[str, Any], None]


@dataclass(frozen=True)
class LayerDifference:
    """An inner tensor that both sides have, compared: ``layer`` and ``type`` are the IR's."""

    layer: str
    type: str
    comparison: Comparison


@dataclass(frozen=True)
class Report:
    """The result of :func:`verify`.

    ``oracle`` names what ran the ONNX model. ``layers`` lists inner tensors in the IR's order, where
    they were asked for or an output failed; ``first_divergence`` is the first of them that is beyond
    its tolerance. ``layers_problem`` says why they could not be compared, where that was wanted and failed.
    """

    passed: bool
    oracle: str
    seed: int | None
    inputs: dict[str, list[int]]
    outputs: tuple[Comparison, ...]
    layers: tuple[LayerDifference, ...] = ()
    layers_problem: str = ""

    @property
    def first_divergence(self) -> LayerDifference | None:
        return next((layer for layer in self.layers if not layer.comparison.passed), None)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, ready for JSON."""
        first = self.first_divergence
        return {**asdict(self), "first_divergence": None if first is None else asdict(first)}


def verify(
    onnx_model: ModelSource,
    ir: Model | str | os.PathLike[str],
    *,
    inputs: InputSource = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    layers: bool | None = None,
    freeze: Mapping[str, Any] | None = None,
    output: Sequence[str] | None = None,
) -> Report:
    """Run both sides on the same inputs and compare every output by name.

    ``inputs`` is a mapping of arrays, an ``.npz`` or (for one input) an ``.npy``; without it the inputs
    are random with ``seed``. ``rtol`` and ``atol`` replace the tolerance that each type has. ``layers``
    compares inner tensors, too; by default only where an output fails. For an IR that was converted
    with frozen inputs or outputs of choice, ``freeze`` and ``output`` are what they were then.

    Where the IR says that its weights were compressed, each output may differ by what their rounding costs it
    besides, up to half of its largest value: see :mod:`converter.equivalence.rounded_weights`.

    Raises :class:`converter.VerificationError` where a side cannot be run, and
    :class:`ir_runtime.ModelError` where the IR cannot be read.
    """
    if hasattr(onnx_model, "read"):
        onnx_model = onnx_model.read()  # it is needed more than once
    model = ir if isinstance(ir, Model) else read_model(ir)
    compiled = compile_model(model)
    feeds = random_inputs(compiled.inputs, seed) if inputs is None else given_inputs(inputs, compiled.inputs)
    try:
        result = compiled(feeds)
    except ModelError as error:
        raise VerificationError(f"the IR cannot be run on these inputs: {error}") from error
    wanted = [] if output is None else list(output)
    name, evaluate = oracle(onnx_model, wanted)
    expected = evaluate({**feeds, **_typed(onnx_model, freeze or {})})
    if output is not None:
        expected = {tensor: expected[tensor] for tensor in wanted}
    rounded = rtol is None and atol is None and has_rounded_weights(model)
    tolerance = _tolerance(model, rtol, atol)
    allowances = rounding_allowances(model, feeds) if rounded else {}
    names = {alias: port.name for port in compiled.outputs for alias in (port.name, *port.names)}
    missing = [output for output in expected if output not in names]
    if missing:
        raise VerificationError(f"the IR has no outputs {missing}; it has {compiled.output_names}")
    outputs = tuple(
        compare(output, value, result[output], replace(tolerance(value), rounding=allowances.get(names[output], 0.0)))
        for output, value in expected.items()
    )
    passed = all(comparison.passed for comparison in outputs)
    details: tuple[LayerDifference, ...] = ()
    problem = ""
    if layers or (layers is None and not passed):
        try:
            details = _compare_layers(onnx_model, model, feeds, _typed(onnx_model, freeze or {}), tolerance, rounded)
        except (VerificationError, ModelError) as error:
            # A side cannot show its inner tensors (sequences, odd types): the outputs stand alone.
            problem = str(error)
    shapes = {port: list(value.shape) for port, value in feeds.items()}
    return Report(passed, name, seed if inputs is None else None, shapes, outputs, details, problem)


def _tolerance(model: Model, rtol: float | None, atol: float | None) -> Callable[[Array], Tolerance]:
    """The tolerance for an expected tensor: the caller's, or that of its type.

    Weights that were rounded to float16, and values that are put on steps, leave less than the type has.
    """
    marks: set[str | None] = set()
    quantized = False
    for part in model.all_models():
        for node in part.nodes():
            marks.update(dict(info.attributes).get("name") for info in node.runtime_info)
            quantized = quantized or isinstance(node.op, FakeQuantize1)
    least = [ROUNDED_WEIGHTS] * ("decompression" in marks) + [STEPS] * quantized

    def chosen(expected: Array) -> Tolerance:
        if rtol is not None or atol is not None:
            return Tolerance(rtol or 0.0, atol or 0.0)
        by_type = tolerance_for(expected.dtype)
        return max([by_type, *least]) if expected.dtype.kind == "f" else by_type

    return chosen


def _compare_layers(
    onnx_model: ModelSource,
    model: Model,
    feeds: Mapping[str, Array],
    frozen: Mapping[str, Array],
    tolerance: Callable[[Array], Tolerance],
    rounded: bool,
) -> tuple[LayerDifference, ...]:
    """Every tensor that both sides know by name, in the order of the IR.

    Raises :class:`VerificationError` or :class:`ModelError` where a side cannot show them.
    """
    named = [
        (output, output.names[0])
        for node in model.nodes()
        for output in node.outputs
        if output.names and node not in model.parameters and node.op.data is None
    ]
    probes = []
    for output, name in named:
        probe = make_node(Result1(), [output], name)
        probe.output_names = [name]
        probes.append(probe)
    _, evaluate = oracle(onnx_model, [name for _, name in named])
    expected = evaluate({**feeds, **frozen})
    observed = _observed(model, probes)
    values = compile_model(observed)(feeds)
    allowances = rounding_allowances(observed, feeds) if rounded else {}
    return tuple(
        LayerDifference(
            output.node.name,
            output.node.op.type,
            compare(
                name,
                expected[name],
                values[name],
                replace(tolerance(expected[name]), rounding=allowances.get(name, 0.0)),
            ),
        )
        for output, name in named
        if name in expected
    )


def _typed(source: ModelSource, values: Mapping[str, Any]) -> dict[str, Array]:
    """Frozen values in the types that the model declares for them."""
    if not values:
        return {}
    declared = {value.name: value.type.tensor_type.elem_type for value in open_model(source).proto.graph.input}
    return {name: np.asarray(value, element_type_of(declared[name]).dtype) for name, value in values.items()}


def _observed(model: Model, probes: list[Node]) -> Model:
    return Model(model.name, model.parameters, probes, model.sinks, model.runtime_info, model.version)
