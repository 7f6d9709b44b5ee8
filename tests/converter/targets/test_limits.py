"""What the CPU plug-in computes otherwise, as docs/limits.md lists it, intervals of integers, and memory of outputs."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion.convert import convert
from converter.equivalence.reference import engines
from converter.targets.openvino_cpu import intervals
from converter.targets.openvino_cpu.intervals import interval_of, is_small
from converter.targets.registry import Target, openvino_cpu
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Model, Node, Output
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import activation, elementwise
from ir_runtime.operations.activation import Clamp1, ReLU1
from ir_runtime.operations.elementwise import Abs1, BitwiseAnd13, Convert1, Less1, Select1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.pipeline import Pipeline
from ir_runtime.rewriting.replace_layers import Replace
from ir_runtime.rewriting.trace import PassTrace
from tests.converter.optimization.models import floats, parse
from tests.converter.targets.models import graph, there_and_back
from tests.converter.to_onnx.graphs import IR, parameter
from tests.engines import EXACT, assert_close, converted, core, node_model, run, run_by_name, run_onnxruntime
from tests.ir_runtime.execution.kernel_checks import model_of
from tests.ir_runtime.rewriting.models import entry

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
    assert_close(run(engine, converted(model), feeds)[0], run_onnxruntime(model, feeds)[0])


@pytest.mark.parametrize(
    "nodes", ["y = Relu (l)", "y = Clip (l, low, high)", "y = Max (l, low)", "y = Cast <to = 7> (e)"]
)
@pytest.mark.parametrize("dim", ["64", "n"])
@pytest.mark.parametrize("is_faulty", [False, True])
def test_verify_tells_limits_from_faults(
    nodes: str, dim: str, is_faulty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of values that the layer before makes; a plug-in that adds 1 is faulty."""
    text = f"g (float[{dim}] x) => (y) {{ {'e = Exp' if 'Cast' in nodes else 'l = Log'} (x) {nodes} }}"
    model = parse(text, 13, **{name: value for name, value in (("low", LOW), ("high", HIGH)) if name in nodes})
    openvino = engines._openvino

    def wrong(*arguments: Any) -> Any:
        engine = openvino(*arguments)
        return replace(engine, run=lambda feeds: [value + value.dtype.type(is_faulty) for value in engine.run(feeds)])

    monkeypatch.setattr(engines, "_openvino", wrong)
    inputs = {"x": np.linspace(-4, 40, 64, dtype=np.float32)}
    report = converter.verify(model, converter.convert_model(model), engine="openvino", inputs=inputs)
    limit = "turns floats beyond int32 into -2^31" if "Cast" in nodes else "loses NaN"
    assert report.verdict == "different"
    assert ("although its inputs are right" if is_faulty else limit) in report.reason
    assert is_faulty or (report.limits and report.first_fault is None)


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
    assert_close(run("openvino", ir_runtime.model_to_bytes(model), {"x": data})[0], expected)


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
            self._add(Convert1(destination_type=INTEGER), (parameter("x", 200, kind="u8"), row))

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
        elif chosen is Clamp1:
            self._add(Clamp1(min=-3.5, max=self.chance.choice([2.25, 70.0, math.inf])), first)
        elif chosen is Select1:
            self._add(Select1(), self._condition(first), first, other)
        elif chosen is BitwiseAnd13:
            self._add(*((chosen(), first, other) if kind is INTEGER else (Abs1(), first)))
        elif chosen in UNARY:
            self._add(chosen() if kind is FLOAT or chosen in BOTH else Abs1(), first)
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
            assert (type(low), type(high)) == (int, int)
            assert low <= numbers.min() <= numbers.max() <= high, value


def test_intervals_of_floats() -> None:
    """Lengths that exporters round as floats are small: those of patches of an image."""
    b, image = IR(), parameter("x", None, 3, None, None)
    size = b.Convert(b.Gather(b.ShapeOf(image, output_type=INTEGER), 2, 0), destination_type=FLOAT)
    padded = b.Multiply(b.Ceiling(b.Divide(size, 16.0)), 16.0)
    assert is_small(b.Convert(padded, destination_type=INTEGER))
    # 65793 * 255 is the last number that float32 holds; times a little more than 1 it may be a larger one.
    real = b.Multiply(b.Convert(parameter("x", kind="u8"), destination_type=FLOAT), intervals.EXACT / 255)
    assert not is_small(b.Convert(b.Ceiling(real), destination_type=INTEGER))
    # Floats that the model is given have no interval.
    assert interval_of(IR().Convert(parameter("x", 2), destination_type=INTEGER)) == INTEGER.limits


# --- output tensors ---

DATA = np.array([[1.2, -2.6, 3.1, 0.4], [-1, 5.7, 0, 2.2]], np.float32)


def check_outputs(ir: tuple[bytes, bytes], expected: Mapping[str, np.ndarray[Any, Any]]) -> None:
    for engine, outputs in run_by_name(ir, {"x": DATA}).items():
        assert list(outputs) == list(expected), engine
        for name, value in outputs.items():
            assert_close(value, expected[name])


@pytest.mark.parametrize(
    "names", [("m", "y"), ("y", "m"), ("w", "y", "x", "m", "i", "r")], ids=lambda names: " ".join(names)
)
@pytest.mark.parametrize("asked", [False, True], ids=["outputs", "--output"])
def test_every_output_has_a_tensor_of_its_own(names: tuple[str, ...], asked: bool) -> None:
    model = there_and_back(*names)
    expected = dict(zip(names, run_onnxruntime(model, {"x": DATA}), strict=True))
    made = converter.convert_model(there_and_back("y") if asked else model, output=names if asked else None)
    check_outputs(ir_runtime.model_to_bytes(made), expected)
    # Names of tensors inside stay with what replaces them, behind the one that was promised.
    assert converter.convert_model(there_and_back("y")).results[0].inputs[0].names == ["y", "m"]


@pytest.mark.parametrize(
    "compress", [{}, {"compress_to_fp16": True}, {"compress": "int8"}, {"compress": "int4"}], ids=str
)
def test_compression_keeps_names_and_tensors(compress: dict[str, Any], tmp_path: Any) -> None:
    weights = np.full((64, 256), 0.5, np.float32)
    nodes, names = "a_again = Identity (a) b_again = Identity (b)", ["a_again", "b_again", "a", "x"]
    path = tmp_path / "m.xml"
    converter.save_model(converter.convert_model(graph(nodes, names, a=weights, b=weights)), path, **compress)
    compiled = core().compile_model(path, "CPU")
    assert [output.get_names() for output in compiled.outputs] == [{name} for name in names]


# --- rules that replace a layer by something that is there already ---


@pytest.mark.parametrize(
    ("replacement", "expected"),
    [
        (lambda _, node: node.inputs[0], {"a": DATA, "b": DATA, "x": DATA, "n": np.abs(DATA), "c": np.abs(DATA)}),
        (lambda b, _: b.constant(0 * DATA, "f32"),
         {"a": 0 * DATA, "b": 0 * DATA, "x": DATA, "n": np.abs(DATA), "c": 0 * DATA}),
    ],
)  # fmt: skip
def test_a_rule_may_replace_outputs_by_one_value(replacement: Replace, expected: Any) -> None:
    """Relu(x) twice, x itself, and Relu(Abs(x)) beside Abs(x)."""
    nodes = "a = Relu (x) b = Relu (x) n = Abs (x) c = Relu (n)"
    made = converter.convert_model(graph(nodes, list(expected)), target="any")
    rules = Pipeline(None, [entry("test", "ReLU1")])
    rules.replaces("test")(replacement)
    assert rules.run(made)["test"] == 3
    assert made.parameters[0].outputs[0].names == ["x"]
    check_outputs(ir_runtime.model_to_bytes(made), expected)


def test_a_rule_that_leaves_names_behind() -> None:
    made = converter.convert_model(graph("y = Abs (x)", ["y"]), target="any")
    rules = Pipeline(None, [entry("test")])

    @rules.register("test")
    def reversed_twice(model: Model, trace: PassTrace) -> int:
        builder = Builder()
        (result,) = model.results
        made = builder.emit(ReLU1(), result.inputs[0])
        made.node.name = "another"
        result.inputs = [made]
        return 1

    rules.run(made)
    assert [node.outputs[0].names for node in made.nodes() if isinstance(node.op, (Abs1, ReLU1))] == [[], ["y"]]


def test_results_of_another_writer_share_their_tensor() -> None:
    """An IR may return one tensor twice under the same names; it stays as it is."""
    made = converter.convert_model(there_and_back("y"), target="any")
    again = Node(made.results[0].op, made.results[0].inputs, [], "again")
    made.results = (*made.results, again)
    for result in made.results:
        result.output_names = []
    assert Target.parse("cpu").apply(made)
    assert made.results[0].inputs == made.results[1].inputs


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("op_type", ["HardSigmoid", "Relu"])
def test_an_output_that_is_listed_twice(op_type: str, count: int) -> None:
    """As onnxruntime takes it: every entry returns the tensor, whether a rule replaces its layer or not."""
    model = graph(f"y = {op_type} (x)", ["y"] * count)
    made = converter.convert_model(model)
    assert [result.inputs[0].names for result in made.results] == [["y"]] * count
    assert len({result.inputs[0] for result in made.results}) == 1
    for value, expected in zip(
        ir_runtime.compile_model(made)({"x": DATA}).to_list(), run_onnxruntime(model, {"x": DATA})
    ):
        np.testing.assert_allclose(value, expected, rtol=1e-6)


# --- if outputs ---

IF = """p = If (c) <then_branch = a () => (float[{dims}] t) {{ t = Abs (x) }},
                   else_branch = b () => (float[{dims}] e) {{ e = Neg (x) }}>"""
AGAIN = """q = If (c) <then_branch = d () => (float[m] f) { f = Concat <axis = 0> (p, p) },
                       else_branch = g () => (float[m] h) { h = Exp (p) }>"""
TRIPLED = "k = Concat <axis = 0> (p, p, p) s = Softmax (k) y = Relu (s)"


@pytest.mark.parametrize(
    ("dims", "following", "outputs", "copies"),
    [
        ("n", TRIPLED, "y", 1),
        ("n, m", "w = Transpose <perm = [1, 0]> (p) " + TRIPLED.replace("(p, p, p)", "(w, w, w)"), "y", 1),
        ("n", TRIPLED, "p, y", 0), ("n", "", "p", 0), ("n", AGAIN + TRIPLED.replace("(p, p, p)", "(q, q, q)"), "y", 1),
    ],
)  # fmt: skip
def test_lengths_that_grow(dims: str, following: str, outputs: str, copies: int) -> None:
    """The memory of an output that the caller gets, or that another If reads, is not reused too early."""
    model = parse(f"g (float[{dims}] x, bool c) => ({outputs}) {{ {IF.format(dims=dims)} {following} }}")
    assert convert(model).rules.get("if_outputs_in_reused_memory", 0) == copies
    lengths = itertools.product((6, 6, 8, 3, 12, 40), (True, False))
    shapes = [([length, length + 1][: dims.count(",") + 1], condition) for length, condition in lengths]
    run_in_a_row(model, [{"x": floats(*shape), "c": np.array(condition)} for shape, condition in shapes])


# --- reused requests ---

PAIR = np.array([1, 2], np.float32)
DOUBLED = """body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] o) {
  three = Constant <value_int = 3> () t = Add (s, s) o = Mul (t, t) d = DECIDE }"""
COUNTED, DECIDED = DOUBLED.replace("DECIDE", "Identity (c)"), DOUBLED.replace("DECIDE", "Less (i, three)")
LOOPS = {
    "a count": (f"float[2] x, int64 k => e, y : e, y = Loop (k, '', x) <{COUNTED}>", [2, 0, 3, 0, -1, 1, 0]),
    "a count, read": (f"float[2] x, int64 k => y : e, p = Loop (k, '', x) <{COUNTED}> y = Neg (p)", [2, 0, 1, 0]),
    "a count, joined": (f"float[2] x, int64 k => y : e, p = Loop (k, '', x) <{COUNTED}> y = Concat <axis = 0> (p, p, p)",
                        [0, 2, 0, 1]),
    "a condition": (f"float[2] x, bool k => e, y : e, y = Loop ('', k, x) <{DECIDED}>", [True, False, True, False]),
    "both": (f"float[2] x, bool k => e, y : m = Cast <to = 7> (k) e, y = Loop (m, k, x) <{DECIDED}>", [True, False]),
}  # fmt: skip


def run_in_a_row(model: onnx.ModelProto, feeds: Sequence[dict[str, Any]]) -> None:
    ir = ir_runtime.model_to_bytes(convert(model).model)
    request = core().compile_model(core().read_model(*ir), "CPU", EXACT).create_infer_request()
    for values in feeds:
        result = request.infer(values)
        for output, expected in zip(model.graph.output, run_onnxruntime(model, values), strict=True):
            assert_close(np.array(result[output.name]), expected)


@pytest.mark.parametrize(("text", "counts"), LOOPS.values(), ids=LOOPS)
def test_loops_of_no_iterations(text: str, counts: Sequence[Any]) -> None:
    signature, _, nodes = text.replace("''", '""').partition(" : ")
    inputs, outputs = signature.split(" => ")
    feeds = [{"x": PAIR * (place + 1), "k": np.array(count)} for place, count in enumerate(counts)]
    run_in_a_row(parse(f"g ({inputs}) => ({outputs}) {{ {nodes} }}"), feeds)


@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize(("rank", "axis"), [(1, None), (1, 0), (2, None), (2, 0), (2, 1)])
@pytest.mark.parametrize("used", [(0,), (0, 1), (0, 2), (0, 3), (0, 1, 2, 3)], ids=str)
def test_unique_of_nothing(kind: Any, is_sorted: int, rank: int, axis: int | None, used: tuple[int, ...]) -> None:
    lists = [[], [2, 1, 1, 3, 4, 3], [5], [], [7, 7, 6]]
    arrays = [np.array([values] * 2 if axis == 1 else values, kind) for values in lists]
    if rank == 2 and axis != 1:
        arrays = [np.stack([values, values], 1) for values in arrays]
    names, dims = [f"y{index}" for index in used], ", ".join("ab"[:rank])
    every = ", ".join(f"y{index}" if index in used else '""' for index in range(1 + max(used)))
    how = f"sorted = {is_sorted}" + ("" if axis is None else f", axis = {axis}")
    x = f"{'float' if kind is np.float32 else 'int64'}[{dims}] x"
    model = parse(f"g ({x}) => ({', '.join(names)}) {{ {every} = Unique <{how}> (x) }}")
    run_in_a_row(model, [{"x": values} for values in arrays])


@pytest.mark.parametrize(
    "node",
    [
        "y = Unique (x)", "y = Unique <sorted = 0, axis = 0> (x)", "y, a, b, c = Unique <sorted = 0> (x)",
        *(f'k = Constant <value_int = {count}> () e, y = Loop (k, "", x) <{COUNTED}>' for count in (2, -1, 0)),
    ],
)  # fmt: skip
def test_unique_of_some_elements_and_loops_of_a_known_count_stay(node: str) -> None:
    outputs = "y, a, b, c" if "a, b, c" in node else "y"
    rules = convert(parse(f"g (float[2] x) => ({outputs}) {{ {node} }}")).rules
    assert not {"unique_of_nothing", "loops_of_no_iterations"} & set(rules)
