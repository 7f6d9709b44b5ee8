"""Models that break a schema, but leave no doubt what they mean: they convert, with one warning a node."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import converter
from converter.from_onnx.translation.registry import onnx_op
from ir_runtime.graph.operation import find_operation
from ir_runtime.operations import activation, pooling
from tests.engines import check_node, node_model


def floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 3


def ints(*values: int, dtype: Any = np.int64) -> np.ndarray:
    return np.array(values, dtype)


X = floats(2, 3, 4)
INTEGERS = (X * 5).astype(np.int64)


def check_with_one_warning(
    caplog: pytest.LogCaptureFixture,
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    expected: Any,
    message: str,
) -> None:
    with caplog.at_level(logging.WARNING, logger="converter"):
        check_node(model, feeds, [expected])
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1, messages
    assert message in messages[0]


# Operator, opset, inputs, constants, attributes, expected, part of the warning.
TYPES: list[tuple[str, int, dict[str, Any], dict[str, Any], dict[str, Any], Any, str]] = [
    ("ReduceMax", 13, {"x": X > 3}, {}, {"axes": [1], "keepdims": 0}, (X > 3).any(1), "but is boolean, which it may be from opset 20 on"),
    ("ReduceMin", 18, {"x": X > 3}, {"axes": ints(2)}, {"keepdims": 0}, (X > 3).all(2), "but is boolean"),
    ("ReduceMax", 11, {"x": X.astype(np.int8)}, {}, {"axes": [1], "keepdims": 0}, X.astype(np.int8).max(1), "but is i8"),
    ("Sum", 13, {"a": INTEGERS, "b": INTEGERS}, {}, {}, 2 * INTEGERS, "but is i64"),
    ("Sum", 6, {"a": INTEGERS.astype(np.int32), "b": INTEGERS.astype(np.int32)}, {}, {}, (2 * INTEGERS).astype(np.int32), "but is i32"),
    ("Sum", 8, {"a": ints(100, -100, dtype=np.int8), "b": ints(100, 3, dtype=np.int8)}, {}, {}, ints(-56, -97, dtype=np.int8), "but is i8"),
    ("Max", 8, {"a": INTEGERS, "b": -INTEGERS}, {}, {}, np.abs(INTEGERS), "but is i64"),
    ("Min", 11, {"a": INTEGERS, "b": -INTEGERS}, {}, {}, -np.abs(INTEGERS), "but is i64"),
    ("Mul", 1, {"a": INTEGERS, "b": INTEGERS}, {}, {}, INTEGERS * INTEGERS, "but is i64"),
    ("Add", 13, {"a": ints(100, 7, dtype=np.int8), "b": ints(100, 3, dtype=np.int8)}, {}, {}, ints(-56, 10, dtype=np.int8), "from opset 14 on"),
    ("Less", 7, {"a": INTEGERS, "b": -INTEGERS}, {}, {}, INTEGERS < -INTEGERS, "but is i64"),
    ("Equal", 7, {"a": X, "b": -X}, {}, {}, X == -X, "but is f32"),
    ("Relu", 13, {"x": INTEGERS.astype(np.int32)}, {}, {}, np.maximum(INTEGERS, 0).astype(np.int32), "but is i32"),
    ("Clip", 11, {"x": INTEGERS.astype(np.int32)}, {"low": np.array(-2, np.int32)}, {}, np.maximum(INTEGERS, -2).astype(np.int32), "but is i32"),
    ("Pow", 7, {"x": X}, {"y": np.array(3, np.int64)}, {}, X**3, "but is i64"),
    ("Neg", 1, {"x": INTEGERS}, {}, {}, -INTEGERS, "but is i64"),
    ("Mod", 13, {"a": X}, {"b": np.array(-4, np.float32)}, {}, np.mod(X, np.float32(-4)), "fmod=1 before opset 28"),
    ("Reshape", 13, {"x": X}, {"s": ints(4, 6, dtype=np.int32)}, {}, X.reshape(4, 6), "'shape' must be one of int64, but is i32"),
    ("Reshape", 13, {"x": X, "s": ints(4, 6, dtype=np.int32)}, {}, {}, X.reshape(4, 6), "'shape' must be one of int64, but is i32"),
    ("Expand", 13, {"x": X}, {"s": ints(2, 1, 1, 1, dtype=np.int32)}, {}, np.stack([X, X]), "but is i32"),
    ("Tile", 13, {"x": X}, {"s": ints(1, 2, 1, dtype=np.int32)}, {}, np.tile(X, (1, 2, 1)), "but is i32"),
    ("Unsqueeze", 13, {"x": X}, {"a": ints(0, dtype=np.int32)}, {}, X[None], "but is i32"),
    ("ReduceSum", 13, {"x": X}, {"a": ints(0, dtype=np.int32)}, {"keepdims": 0}, X.sum(0), "but is i32"),
    ("Gather", 13, {"x": X}, {"i": np.array(1, np.uint8)}, {}, X[1], "must be one of int32, int64, but is u8"),
    ("Resize", 13, {"x": floats(1, 1, 2, 2)}, {"r": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 2], np.float64)}, {}, floats(1, 1, 2, 2).repeat(2, 2).repeat(2, 3), "must be one of float, but is f64"),
]  # fmt: skip


@pytest.mark.parametrize("row", TYPES, ids=lambda row: f"{row[0]}-{row[1]}")
def test_types_outside_the_schema(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    op_type, opset, inputs, constants, attributes, expected, message = row
    model = node_model(op_type, inputs, constants=constants, attributes=attributes, opset=opset)
    check_with_one_warning(caplog, model, inputs, expected, message)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize(("direction", "function"), [("LEFT", np.left_shift), ("RIGHT", np.right_shift)])
def test_shifts_of_signed_integers(
    direction: str, function: np.ufunc, dtype: str, caplog: pytest.LogCaptureFixture
) -> None:
    x = ints(-9, -1, -8, 7, -100, 127, 0, 5, dtype=dtype)
    y = ints(1, 2, 0, 1, 3, 4, 5, 7, dtype=dtype)
    model = node_model("BitShift", {"x": x, "y": y}, attributes={"direction": direction}, opset=17)
    check_with_one_warning(caplog, model, {"x": x, "y": y}, function(x, y), "which it may be from opset 28 on")


ONE = np.array(1, np.int64)
SCALARS: list[tuple[str, int, dict[str, Any], dict[str, Any], dict[str, Any], Any]] = [
    ("Slice", 13, {"x": X}, {"s": np.array(0), "e": ONE, "a": ONE}, {}, X[:, :1]),
    ("Slice", 13, {"x": X, "s": np.array(0), "e": np.array(3), "a": ONE, "t": np.array(2)}, {}, {}, X[:, ::2]),
    ("Unsqueeze", 13, {"x": X}, {"a": ONE}, {}, X[:, None]),
    ("Squeeze", 13, {"x": X[:1]}, {"a": np.array(0)}, {}, X[0]),
    ("ReduceSum", 13, {"x": X}, {"a": ONE}, {"keepdims": 0}, X.sum(1)),
    ("ReduceMax", 18, {"x": X, "a": ONE}, {}, {"keepdims": 0}, X.max(1)),
    ("Tile", 13, {"x": X[0, 0]}, {"r": np.array(2)}, {}, np.tile(X[0, 0], 2)),
    ("Expand", 13, {"x": X[0, 0, :1]}, {"s": np.array(4)}, {}, np.repeat(X[0, 0, :1], 4)),
    ("Reshape", 13, {"x": X}, {"s": np.array(-1)}, {}, X.reshape(-1)),
    ("ConstantOfShape", 13, {"s": np.array(3)}, {}, {}, np.zeros(3, np.float32)),
]


@pytest.mark.parametrize("row", SCALARS, ids=lambda row: row[0])
def test_scalars_for_lists(row: Any, caplog: pytest.LogCaptureFixture) -> None:
    op_type, opset, inputs, constants, attributes, expected = row
    model = node_model(op_type, inputs, constants=constants, attributes=attributes, opset=opset)
    check_with_one_warning(caplog, model, inputs, expected, "must be a list, but is a scalar")


@pytest.mark.parametrize("opset", [16, 17])
@pytest.mark.parametrize(("reduction", "function"), [("max", np.maximum), ("min", np.minimum)])
def test_reductions_of_scatters(
    reduction: str, function: np.ufunc, opset: int, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {"i": ints(0, 2, 2).reshape(1, 3), "u": np.array([[9.0, 50.0, -50.0]], np.float32)}
    expected = X[0].T.copy()
    for index, value in zip((0, 2, 2), (9.0, 50.0, -50.0)):
        column = int(np.flatnonzero(rows["u"][0] == value)[0])
        expected[index, column] = function(expected[index, column], np.float32(value))
    feeds = {"x": X[0].T.copy(), **rows}
    model = node_model("ScatterElements", feeds, attributes={"reduction": reduction}, opset=opset)
    check_with_one_warning(caplog, model, feeds, expected, "before opset 18")
    caplog.clear()
    flat = X.reshape(-1)[:5].copy()
    wanted = flat.copy()
    function.at(wanted, [0, 2, 2], rows["u"][0])
    feeds = {"x": flat, "i": ints(0, 2, 2).reshape(3, 1), "u": rows["u"][0]}
    model = node_model("ScatterND", feeds, attributes={"reduction": reduction}, opset=opset)
    check_with_one_warning(caplog, model, feeds, wanted, "before opset 18")


@pytest.mark.parametrize("known", [True, False])
def test_branches_that_declare_what_they_see(known: bool, caplog: pytest.LogCaptureFixture) -> None:
    x = helper.make_tensor_value_info("x", 1, [3])
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op_type, ["x"], [name])], name, [x], [helper.make_tensor_value_info(name, 1, [3])]
        )
        for name, op_type in (("then", "Neg"), ("else", "Abs"))
    }
    condition = np.array(True)
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["y"], name="node", **branches)],
        "test",
        [x] if known else [x, helper.make_tensor_value_info("c", 9, [])],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(condition, "c")] if known else [],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    data = np.array([1, -2, 3], np.float32)
    with caplog.at_level(logging.WARNING, logger="converter"):
        check_node(model, {"x": data} if known else {"x": data, "c": condition}, [-data])
    messages = [record.getMessage() for record in caplog.records]
    names = ["then"] if known else ["then", "else"]
    assert messages == [f"test: the graph '{name}' declares as inputs what it sees around it: x" for name in names]


def test_a_wrong_declared_type_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    model = node_model("Neg", {"x": X}, opset=17)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y0", 7, list(X.shape)))
    check_with_one_warning(caplog, model, {"x": X}, -X, "declares 'y0' as i64, but it is f32")


@pytest.mark.parametrize(
    ("op_type", "opset", "inputs", "message"),
    [
        ("Sqrt", 13, {"x": INTEGERS}, "but is i64"),
        ("Mean", 13, {"a": INTEGERS, "b": INTEGERS}, "but is i64"),
        ("Add", 13, {"a": X, "b": X.astype(np.float64)}, "same type"),
        ("Sum", 13, {"a": INTEGERS, "b": X}, "but is i64"),
        ("Reshape", 13, {"x": X, "s": np.array([24], np.float32)}, "but is f32"),
        ("Gather", 13, {"x": X, "i": X > 0}, "but is boolean"),
        ("And", 7, {"a": INTEGERS, "b": INTEGERS}, "but is i64"),
        ("Where", 16, {"c": X, "a": X, "b": X}, "but is f32"),
    ],
)
def test_input_types_that_are_refused(op_type: str, opset: int, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.InvalidModelError, match=message):
        converter.convert_model(node_model(op_type, inputs, opset=opset))


def test_a_fault_of_ours_is_no_fault_of_the_model() -> None:
    def faulty(ctx: Any, x: Any) -> Any:
        return x.no_such_attribute

    onnx_op("Faulty", domain="test.faults", versions=(1,))(faulty)
    model = node_model("Faulty", {"x": X}, opset=1, domain="test.faults")
    with pytest.raises(converter.InternalError, match=r"node 'node' .*please report it") as caught:
        converter.convert_model(model)
    assert isinstance(caught.value.__cause__, AttributeError)
    assert "no_such_attribute" in str(caught.value)
    assert not isinstance(caught.value, converter.InvalidModelError)


@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (lambda ctx, x, low: activation.Clamp1(minimum=0), True),  # an attribute that the layer does not have
        (lambda ctx, x, low: pooling.AvgPool1(), True),  # one that is missing
        (lambda ctx, x, low: activation.Clamp1(min="low", max=1.0), True),  # a value of the translator's own
        (lambda ctx, x, low: activation.Clamp1(min=low, max=1.0), False),  # a value of the model's
    ],
    ids=["unknown", "missing", "ours", "the model's"],
)
def test_blame_follows_who_made_an_attribute(request: pytest.FixtureRequest, make: Any, ours: bool) -> None:
    def translate(ctx: Any, x: Any, *, low: str = "") -> Any:
        return ctx.emit(make(ctx, x, low), x)

    onnx_op("Blamed", domain=f"test.{request.node.name}", versions=(1,))(translate)
    model = node_model("Blamed", {"x": X}, attributes={"low": "none"}, opset=1, domain=f"test.{request.node.name}")
    with pytest.raises(converter.ConversionError, match=r"Clamp|AvgPool") as caught:
        converter.convert_model(model)
    assert type(caught.value) is (converter.InternalError if ours else converter.InvalidModelError)


def test_an_operation_that_fails_while_folding_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(self: Any, *inputs: Any) -> Any:
        raise TypeError("a mistake in evaluate")

    monkeypatch.setattr(find_operation("Floor", 1), "evaluate", evaluate)
    model = node_model("Floor", {}, constants={"x": X}, opset=13)
    with pytest.raises(converter.InternalError, match=r"node 'node' \(Floor.*a mistake in evaluate"):
        converter.convert_model(model)
