"""What the CPU plug-in does with memory: output tensors, outputs of an If, requests that are used again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter.conversion import convert
from converter.targets.registry import Target
from ir_runtime.graph.model import Model, Node
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.pipeline import Pipeline
from ir_runtime.rewriting.replace_layers import Replace
from ir_runtime.rewriting.trace import PassTrace
from tests.converter.optimization.models import parse
from tests.converter.targets.models import graph, there_and_back
from tests.engines import EXACT, assert_close, core, run_by_name, run_compiled, run_onnxruntime
from tests.ir_runtime.rewriting.models import entry

# --- output tensors ---

X = np.array([[1.2, -2.6, 3.1, 0.4], [-1, 5.7, 0, 2.2]], np.float32)


def check(ir: tuple[bytes, bytes], expected: Mapping[str, np.ndarray[Any, Any]]) -> None:
    for engine, outputs in run_by_name(ir, {"x": X}).items():
        assert list(outputs) == list(expected), engine
        for name, value in outputs.items():
            assert_close(value, expected[name])


@pytest.mark.parametrize(
    "names", [("m", "y"), ("y", "m"), ("w", "y", "x", "m", "i", "r")], ids=lambda names: " ".join(names)
)
@pytest.mark.parametrize("asked", [False, True], ids=["outputs", "--output"])
def test_every_output_has_a_tensor_of_its_own(names: tuple[str, ...], asked: bool) -> None:
    model = there_and_back(*names)
    expected = dict(zip(names, run_onnxruntime(model, {"x": X}), strict=True))
    made = converter.convert_model(there_and_back("y") if asked else model, output=names if asked else None)
    check(ir_runtime.model_to_bytes(made), expected)


def test_names_of_tensors_inside_stay_with_what_replaces_them() -> None:
    made = converter.convert_model(there_and_back("y"))
    # The promised name comes first: it is what the output is called.
    assert made.results[0].inputs[0].names == ["y", "m"]


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


ZERO = np.zeros((2, 4), np.float32)


@pytest.mark.parametrize(
    ("replacement", "expected"),
    [
        (lambda _, node: node.inputs[0], {"a": X, "b": X, "x": X, "n": np.abs(X), "c": np.abs(X)}),
        (lambda builder, _: builder.constant(ZERO, "f32"), {"a": ZERO, "b": ZERO, "x": X, "n": np.abs(X), "c": ZERO}),
    ],
    ids=["to its input", "to a constant"],
)
def test_a_rule_may_replace_outputs_by_one_value(replacement: Replace, expected: Any) -> None:
    """Relu(x) twice, x itself, and Relu(Abs(x)) beside Abs(x)."""
    nodes = "a = Relu (x) b = Relu (x) n = Abs (x) c = Relu (n)"
    made = converter.convert_model(graph(nodes, list(expected)), target="any")
    rules = Pipeline(None, [entry("test", "ReLU1")])
    rules.replaces("test")(replacement)
    assert rules.run(made)["test"] == 3
    assert made.parameters[0].outputs[0].names == ["x"]
    check(ir_runtime.model_to_bytes(made), expected)


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
    for value, expected in zip(ir_runtime.compile_model(made)({"x": X}).to_list(), run_onnxruntime(model, {"x": X})):
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
    conversion = convert(model)
    assert conversion.rules.get("if_outputs_in_reused_memory", 0) == copies
    compiled = core().compile_model(core().read_model(*ir_runtime.model_to_bytes(conversion.model)), "CPU", EXACT)
    names = outputs.split(", ")
    for length in (6, 6, 8, 3, 12, 40):
        x = np.random.default_rng(length).standard_normal([length, length + 1][: dims.count(",") + 1])
        for condition in (True, False):
            feeds = {"x": x.astype(np.float32), "c": np.array(condition)}
            for value, expected in zip(run_compiled(compiled, feeds, names), run_onnxruntime(model, feeds)):
                assert_close(value, expected)


# --- reused requests ---

PAIR = np.array([1, 2], np.float32)
DOUBLED = """body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t, float[2] o) {
  three = Constant <value_int = 3> () t = Add (s, s) o = Mul (t, t) d = DECIDE }"""
COUNTED, DECIDED = DOUBLED.replace("DECIDE", "Identity (c)"), DOUBLED.replace("DECIDE", "Less (i, three)")
ROWS = {
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


@pytest.mark.parametrize(("text", "counts"), ROWS.values(), ids=ROWS)
def test_loops_of_no_iterations(text: str, counts: Sequence[Any]) -> None:
    signature, _, nodes = text.replace("''", '""').partition(" : ")
    inputs, outputs = signature.split(" => ")
    feeds = [{"x": PAIR * (place + 1), "k": np.array(count)} for place, count in enumerate(counts)]
    run_in_a_row(parse(f"g ({inputs}) => ({outputs}) {{ {nodes} }}"), feeds)


@pytest.mark.parametrize("count", [2, -1, 0])
def test_loops_of_a_known_count_stay(count: int) -> None:
    model = parse(f'g (float[2] x) => (e, y) {{ e, y = Loop (k, "", x) <{COUNTED}> }}', k=count)
    assert "loops_of_no_iterations" not in convert(model).rules


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
    "node", ["y = Unique (x)", "y = Unique <sorted = 0, axis = 0> (x)", "y,a,b,c = Unique <sorted = 0> (x)"]
)
def test_unique_of_some_elements_stays(node: str) -> None:
    assert "unique_of_nothing" not in convert(parse(f"g (float[2] x) => ({node.split(' =')[0]}) {{ {node} }}")).rules
