"""What OpenVINO's CPU plug-in computes otherwise, as docs/limits.md lists it, and intervals of integers."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.equivalence import engines
from converter.targets.openvino_cpu.intervals import EXACT, interval_of, is_small
from converter.targets.registry import openvino_cpu
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Output
from ir_runtime.graph.operation import Operation
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations import activation, elementwise
from ir_runtime.operations.activation import Clamp1, ReLU1
from ir_runtime.operations.elementwise import BitwiseAnd13, Ceiling1, Convert1, Divide1, Less1, Multiply1, Select1
from ir_runtime.operations.generation import ShapeOf3
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.rewriting.builder import Builder
from tests.converter.optimization.models import parse
from tests.engines import assert_close, converted, node_model, run_numpy, run_onnxruntime, run_openvino
from tests.ir_runtime.execution.kernel_checks import model_of

# --- limits ---

X = {"x": np.array([np.nan, -3, 0.5, 7], np.float32)}
LOW, HIGH = np.float32(-1), np.float32(1)
BEYOND = {"x": np.array([-np.inf, np.inf, 3e9, -2.5], np.float32)}
ROWS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "NaN in Clamp": ("Clip", X, {"low": LOW, "high": HIGH}, {}), "NaN in ReLU": ("Relu", X, {}, {}),
    "NaN in Maximum": ("Max", X, {"low": LOW}, {}), "NaN in Minimum": ("Min", X, {"high": HIGH}, {}),
    "floats beyond int32 as int64": ("Cast", BEYOND, {}, {"to": onnx.TensorProto.INT64}),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [[4], ["n"]], ids=["static", "dynamic"])
@pytest.mark.parametrize("engine", ["numpy", "openvino"])
def test_what_limits_lists(name: str, shape: list[Any], engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "openvino":
        reason = "where this passes, the plug-in is right: take the line from docs/limits.md"
        request.applymarker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    op_type, feeds, constants, attributes = ROWS[name]
    model = node_model(op_type, feeds, opset=13, constants=constants, attributes=attributes, shapes={"x": shape})
    run = run_numpy if engine == "numpy" else run_openvino
    assert_close(run(converted(model), feeds)[0], run_onnxruntime(model, feeds)[0])


VERIFIED = {
    # the operator before, which makes values that reach the limit, and the layer
    "NaN in ReLU": ("Log", "Relu", "loses NaN"),
    "NaN in Clamp": ("Log", "Clip", "loses NaN"),
    "NaN in Maximum": ("Log", "Max", "loses NaN"),
    "floats beyond int32 as int64": ("Exp", "Cast", "turns floats beyond int32 into -2^31"),
}


@pytest.mark.parametrize("name", VERIFIED)
@pytest.mark.parametrize("shape", [[64], ["n"]], ids=["static", "dynamic"])
@pytest.mark.parametrize("is_faulty", [False, True])
def test_verify_tells_limits_from_faults(
    name: str, shape: list[Any], is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, op_type, text = VERIFIED[name]
    constants = ROWS[name][2]
    values = np.linspace(-4, 40, 64, dtype=np.float32)
    kind, how = ("int64", "<to = 7>") if op_type == "Cast" else ("float", "")
    nodes = f"l = {before} (x) y = {op_type} {how} ({', '.join(['l', *constants])})"
    model = parse(f"g (float[{shape[0]}] x) => ({kind}[{shape[0]}] y) {{ {nodes} }}", 13, **constants)
    if is_faulty:  # the plug-in seems to return other numbers, too
        _add_one_in(monkeypatch)
    report = converter.verify(model, converter.convert_model(model), engine="openvino", inputs={"x": values})
    assert report.verdict == "different"
    assert ("although its inputs are right" if is_faulty else text) in report.reason
    assert is_faulty or (report.limits and report.first_fault is None)


def _add_one_in(monkeypatch: pytest.MonkeyPatch) -> None:
    openvino = engines._openvino

    def wrong(*arguments: Any) -> Any:
        engine = openvino(*arguments)
        return replace(engine, run=lambda feeds: [value + value.dtype.type(1) for value in engine.run(feeds)])

    monkeypatch.setattr(engines, "_openvino", wrong)


LARGE = [(1 << 24) + 1, -(1 << 25) - 1, 7, (1 << 30) + 5, -3, (1 << 24) + 3]


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("is_open", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("op", [ReLU1(), Clamp1(min=-3.5, max=(1 << 29) + 1), Clamp1(min=(1 << 25) + 1, max=2.0**40)])
def test_limits_of_other_exporters(op: Operation, is_open: bool, kind: type[np.integer[Any]]) -> None:
    data = np.maximum(LARGE, 0 if kind is np.uint32 else -(1 << 26)).astype(kind)
    model = model_of(lambda builder, x: builder.emit(op, x), [data], is_open)
    model.parameters[0].outputs[0].names, model.results[0].inputs[0].names = ["x"], ["y"]
    expected = op.evaluate(data)
    openvino_cpu.run(model)
    assert_close(run_openvino(ir_runtime.model_to_bytes(model), {"x": data})[0], expected)


# --- intervals ---

INTEGER, FLOAT = element_types.i64, element_types.f32


def classes(names: str) -> list[type[Operation]]:
    return [getattr(elementwise, name, None) or getattr(activation, name) for name in names.split()]


BOTH = classes("Abs1 Negative1 Sign1 ReLU1")
UNARY = [*BOTH, *classes("Ceiling1 Floor1 Round5 Sqrt1 Tanh1 Sin1 Sigmoid1 Gelu2 HSwish4")]
ROUNDING = classes("Divide1 FloorMod1 Mod1 Power1")
BINARY = [*ROUNDING, *classes("Add1 Subtract1 Multiply1 Maximum1 Minimum1 SquaredDifference1")]


class Program:
    """Values that layers compute from bytes, each with the numbers of 200 runs."""

    def __init__(self, seed: int) -> None:
        self.chance, self.builder = random.Random(seed), Builder()
        numbers = np.random.default_rng(seed).integers(0, 256, (3, 200)).astype(np.uint8)
        numbers[:, :2] = 0, 255
        self.values: list[tuple[Output, np.ndarray]] = []
        for row in numbers:
            byte = make_node(Parameter1(element_type=element_types.u8, shape=PartialShape([200])), (), "x").outputs[0]
            self._add(Convert1(destination_type=INTEGER), (byte, row))

    def _add(self, op: Operation, *inputs: tuple[Output, np.ndarray]) -> None:
        value = self.builder.emit(op, *(value for value, _ in inputs))
        with np.errstate(all="ignore"):
            self.values.append((value, np.asarray(op.evaluate(*(numbers for _, numbers in inputs)))))

    def _condition(self, value: tuple[Output, np.ndarray]) -> tuple[Output, np.ndarray]:
        zero = self.builder.constant(0, value[0].element_type)
        return self.builder.emit(Less1(), value[0], zero), value[1] < 0

    def step(self) -> None:
        first = self.chance.choice(self.values)
        kind = first[0].element_type
        other = self.chance.choice([pair for pair in self.values if pair[0].element_type is kind])
        chosen = self.chance.choice([Convert1, Clamp1, Select1, BitwiseAnd13, *UNARY, *BINARY])
        if chosen is Convert1:
            self._add(Convert1(destination_type=FLOAT if kind is INTEGER else INTEGER), first)
        elif chosen in UNARY:
            if kind is FLOAT or chosen in BOTH:
                self._add(chosen(), first)
        elif chosen is Clamp1:
            self._add(Clamp1(min=-3.5, max=self.chance.choice([2.25, 70.0, math.inf])), first)
        elif chosen is Select1:
            self._add(Select1(), self._condition(first), first, other)
        elif chosen is BitwiseAnd13:
            if kind is INTEGER:
                self._add(chosen(), first, other)
        else:
            if chosen in ROUNDING or self.chance.random() < 0.5:
                number = self.chance.choice([-7, -2, 1, 3, 5, 16]) / (1 if kind is INTEGER else 4)
                constant = self.builder.constant(number, kind)
                other = constant, np.full(200, number, kind.dtype)
            self._add(chosen(), first, other)


@pytest.mark.parametrize("seed", range(300))
def test_every_number_lies_in_its_interval(seed: int) -> None:
    program = Program(seed)
    for _ in range(14):
        program.step()
    for value, numbers in program.values:
        values = value_range(value)
        if value.element_type is FLOAT:
            assert values.may_be_nan or not np.isnan(numbers).any(), value
            known = numbers[~np.isnan(numbers)]
            assert ((values.low <= known) & (known <= values.high)).all(), value
        if value.element_type is INTEGER:
            low, high = interval_of(value)
            assert isinstance(low, int)
            assert isinstance(high, int)
            assert low <= numbers.min(), value
            assert numbers.max() <= high, value


def test_lengths_that_exporters_round_as_floats_are_small() -> None:
    """Convert, Divide, Ceiling, Multiply and Convert back, as for patches of an image."""
    image = make_node(Parameter1(element_type=FLOAT, shape=PartialShape([None, 3, None, None])), (), "x").outputs[0]
    b = Builder()
    size = b.emit(Gather8(), b.emit(ShapeOf3(output_type=INTEGER), image), b.constant(2), b.constant(0))
    count = b.emit(Divide1(), b.emit(Convert1(destination_type=FLOAT), size), b.constant(16, "f32"))
    padded = b.emit(Multiply1(), b.emit(Ceiling1(), count), b.constant(16, "f32"))
    assert is_small(b.emit(Convert1(destination_type=INTEGER), padded))


def test_an_interval_ends_where_float32_rounds() -> None:
    """65793 * 255 is the last number that float32 holds; times a little more than 1 it may be a larger one."""
    byte = make_node(Parameter1(element_type=element_types.u8, shape=PartialShape([])), (), "x").outputs[0]
    b = Builder()
    real = b.emit(Multiply1(), b.emit(Convert1(destination_type=FLOAT), byte), b.constant(EXACT / 255, "f32"))
    assert not is_small(b.emit(Convert1(destination_type=INTEGER), b.emit(Ceiling1(), real)))


def test_floats_that_the_model_is_given_have_no_interval() -> None:
    x = make_node(Parameter1(element_type=FLOAT, shape=PartialShape([2])), (), "x").outputs[0]
    whole = Builder().emit(Convert1(destination_type=INTEGER), x)
    assert interval_of(whole) == INTEGER.limits
