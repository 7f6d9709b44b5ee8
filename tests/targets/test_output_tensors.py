"""Outputs keep their names, each on a tensor of its own, whatever rules and passes replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter.targets.registry import Target
from ir_runtime.graph.model import Model, Node, Output
from ir_runtime.operations.activation import ReLU1
from ir_runtime.operations.elementwise import Abs1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.pipeline import Pipeline
from ir_runtime.rewriting.replace_layers import Replace
from ir_runtime.rewriting.trace import PassTrace
from tests.engines import assert_close, core, run_onnxruntime
from tests.ir_runtime.rewriting.models import entry
from tests.named_runs import run_by_name

X = np.array([[1.2, -2.6, 3.1, 0.4], [-1, 5.7, 0, 2.2]], np.float32)
W = np.arange(12, dtype=np.float32).reshape(4, 3)


def graph(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str], **constants: Any) -> onnx.ModelProto:
    made = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def there_and_back(*outputs: str) -> onnx.ModelProto:
    """Whole numbers that become integers and floats again."""
    nodes = [
        helper.make_node("Round", ["x"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["m"]),
        helper.make_node("Cast", ["m"], ["i"], to=TensorProto.INT32),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    return graph(nodes, outputs, w=W)


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
    nodes = [helper.make_node("Identity", [name], [f"{name}_again"]) for name in ("a", "b")]
    names = ["a_again", "b_again", "a", "x"]
    path = tmp_path / "m.xml"
    converter.save_model(converter.convert_model(graph(nodes, names, a=weights, b=weights)), path, **compress)
    compiled = core().compile_model(path, "CPU")
    assert [output.get_names() for output in compiled.outputs] == [{name} for name in names]


# --- rules that replace a layer by something that is there already ---


def to_input(builder: Builder, node: Node) -> Output:
    return node.inputs[0]


def to_constant(builder: Builder, node: Node) -> Output:
    return builder.constant(np.zeros((2, 4)), "f32")


ZERO = np.zeros((2, 4), np.float32)


@pytest.mark.parametrize(
    ("replacement", "expected"),
    [
        (to_input, {"a": X, "b": X, "x": X, "n": np.abs(X), "c": np.abs(X)}),
        (to_constant, {"a": ZERO, "b": ZERO, "x": X, "n": np.abs(X), "c": ZERO}),
    ],
    ids=["to its input", "to a constant"],
)
def test_a_rule_may_replace_outputs_by_one_value(replacement: Replace, expected: Any) -> None:
    """Relu(x) twice, x itself, and Relu(Abs(x)) beside Abs(x)."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["x"], ["b"]),
        helper.make_node("Abs", ["x"], ["n"]),
        helper.make_node("Relu", ["n"], ["c"]),
    ]
    made = converter.convert_model(graph(nodes, list(expected)), target="any")
    rules = Pipeline(None, [entry("test", "ReLU1")])
    rules.replaces("test")(replacement)
    assert rules.run(made)["test"] == 3
    assert made.parameters[0].outputs[0].names == ["x"]
    check(ir_runtime.model_to_bytes(made), expected)


def test_a_rule_that_leaves_names_behind() -> None:
    made = converter.convert_model(graph([helper.make_node("Abs", ["x"], ["y"])], ["y"]), target="any")
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
    model = graph([helper.make_node(op_type, ["x"], ["y"])], ["y"] * count)
    made = converter.convert_model(model)
    assert [result.inputs[0].names for result in made.results] == [["y"]] * count
    assert len({result.inputs[0] for result in made.results}) == 1
    for value, expected in zip(ir_runtime.compile_model(made)({"x": X}).to_list(), run_onnxruntime(model, {"x": X})):
        np.testing.assert_allclose(value, expected, rtol=1e-6)
