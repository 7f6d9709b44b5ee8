"""Loops whose body never runs: a condition that is false, a trip count of 0; by name in both engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from tests.engines import assert_close, run_onnxruntime
from tests.named_runs import run_by_name

X = np.ones((2, 3), np.float32)
START = np.full((2, 3), 3, np.float32)
Array = np.ndarray[Any, Any]
value_info = helper.make_tensor_value_info

CONTROL: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "no trips": ("m", "", {"m": np.int64(0)}),
    "no trips of a list": ("m", "", {"m": np.array([0])}),
    "fewer than no trips": ("m", "c", {"m": np.int64(-2), "c": np.bool_(True)}),
    "false": ("", "c", {"c": np.bool_(False)}),
    "false, some trips": ("m", "c", {"m": np.int64(3), "c": np.bool_(False)}),
    "both": ("m", "c", {"m": np.int64(0), "c": np.bool_(False)}),
}
"""The names of trip count and condition, and the constants that they are."""


def loop(trips: str, condition: str, outputs: Sequence[str], known: bool = True) -> onnx.NodeProto:
    """A sum as a loop-carried value, its positive part and the number of the iteration, which are joined."""
    shape = [2, 3] if known else None
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "x"], ["t"]),
            helper.make_node("Relu", ["t"], ["positive"]),
            helper.make_node("Cast", ["i"], ["number"], to=TensorProto.INT32),
            helper.make_node("Identity", ["c"], ["again"]),
        ],
        "body",
        [
            value_info("i", TensorProto.INT64, []),
            value_info("c", TensorProto.BOOL, []),
            value_info("s", TensorProto.FLOAT, shape),
        ],
        [
            value_info("again", TensorProto.BOOL, []),
            value_info("t", TensorProto.FLOAT, shape),
            value_info("positive", TensorProto.FLOAT, shape),
            value_info("number", TensorProto.INT32, []),
        ],
    )
    return helper.make_node("Loop", [trips, condition, "s0"], list(outputs), body=body)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    outputs: Sequence[str],
    constants: Mapping[str, Any],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [*(value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "s0")), *inputs],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


ENDS = ("end", "positives", "numbers")
FEEDS = {"x": X, "s0": START}
NOTHING = {"end": START, "positives": np.zeros((0, 2, 3), np.float32), "numbers": np.zeros(0, np.int32)}


def check(model: onnx.ModelProto, feeds: Mapping[str, Any], expected: Mapping[str, Array], **options: Any) -> None:
    for target in ("any", "cpu"):
        made = converter.convert_model(model, target=target, **options)
        given = {name: feeds[name] for node in made.parameters for name in node.outputs[0].names}
        assert not any(node.op.type == "Loop" for part in made.all_models() for node in part.nodes())
        for engine, outputs in run_by_name(ir_runtime.model_to_bytes(made), given).items():
            assert list(outputs) == list(expected), engine
            for name, value in outputs.items():
                assert_close(value, expected[name])


@pytest.mark.parametrize("opset", [8, 11, 13, 21])
@pytest.mark.parametrize("control", CONTROL)
def test_no_iterations_by_constants(control: str, opset: int) -> None:
    trips, condition, constants = CONTROL[control]
    model = model_of([loop(trips, condition, ENDS)], ENDS, constants, opset=opset)
    for name, value in zip(ENDS, run_onnxruntime(model, FEEDS), strict=True):
        assert_close(NOTHING[name], value)
    check(model, FEEDS, NOTHING)


@pytest.mark.parametrize("control", ["no trips", "false", "both"])
@pytest.mark.parametrize("choice", [True, False])
def test_inside_an_if(control: str, choice: bool) -> None:
    trips, condition, constants = CONTROL[control]
    inner = [f"inner_{name}" for name in ENDS]
    kinds = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT32)
    there = [loop(trips, condition, inner)]
    elsewhere = [
        helper.make_node("Neg", ["s0"], ["other_end"]),
        helper.make_node("Unsqueeze", ["s0", "first"], ["other_positives"]),
        helper.make_node("Constant", [], ["other_numbers"], value_ints=[5]),
        helper.make_node("Cast", ["other_numbers"], ["cast_numbers"], to=TensorProto.INT32),
    ]
    others = ["other_end", "other_positives", "cast_numbers"]
    branches = {
        key: helper.make_graph(nodes, key, [], [value_info(n, kind, None) for n, kind in zip(names, kinds)])
        for key, nodes, names in (("then_branch", there, inner), ("else_branch", elsewhere, others))
    }
    choose = helper.make_node("If", ["choice"], list(ENDS), **branches)
    flag = value_info("choice", TensorProto.BOOL, [])
    model = model_of([choose], ENDS, {**constants, "first": np.array([0])}, [flag])
    feeds = {**FEEDS, "choice": np.bool_(choice)}
    check(model, feeds, dict(zip(ENDS, run_onnxruntime(model, feeds), strict=True)))


def test_no_iterations_by_folded_values() -> None:
    nodes = [helper.make_node("Sub", ["a", "a"], ["m"]), helper.make_node("Less", ["a", "a"], ["c"])]
    check(model_of([*nodes, loop("m", "c", ENDS)], ENDS, {"a": np.int64(4)}), FEEDS, NOTHING)


def test_no_iterations_by_frozen_inputs() -> None:
    inputs = [value_info("m", TensorProto.INT64, []), value_info("c", TensorProto.BOOL, [])]
    model = model_of([loop("m", "c", ENDS)], ENDS, {}, inputs)
    check(model, FEEDS, NOTHING, freeze={"m": 0, "c": True})
    check(model, FEEDS, NOTHING, freeze={"m": 3, "c": False})


@pytest.mark.parametrize(("trips", "condition"), [("m", ""), ("", "c"), ("m", "c")])
def test_no_trips_by_the_declared_shapes(trips: str, condition: str) -> None:
    """The plug-in ends the process, or refuses the shapes."""
    nodes = [
        helper.make_node("Shape", ["rows"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["m"]),
        helper.make_node("Greater", ["m", "zero"], ["c"]),
        loop(trips, condition, ENDS),
    ]
    rows = value_info("rows", TensorProto.FLOAT, [0, 5])
    feeds = {**FEEDS, "rows": np.zeros((0, 5), np.float32)}
    check(model_of(nodes, ENDS, {"zero": np.int64(0)}, [rows]), feeds, NOTHING)


def test_shapes_that_the_body_does_not_declare_follow_from_the_inputs() -> None:
    check(model_of([loop("m", "", ENDS, known=False)], ENDS, {"m": np.int64(0)}), FEEDS, NOTHING)


def test_no_iterations_can_be_reshaped_without_scan_outputs() -> None:
    model = model_of([loop("m", "", ["end", "", ""], known=False)], ["end"], {"m": np.int64(0)})
    made = converter.convert_model(model)
    made.reshape({"s0": [4, 5]})
    other = np.ones((4, 5), np.float32)
    given = {name: other for node in made.parameters for name in node.outputs[0].names if name == "s0"}
    feeds = {**given, **({"x": X} if len(made.parameters) > 1 else {})}
    for outputs in run_by_name(ir_runtime.model_to_bytes(made), feeds).values():
        np.testing.assert_array_equal(outputs["end"], other)
