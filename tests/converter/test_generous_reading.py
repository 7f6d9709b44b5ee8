"""Warnings of what a model declares, and whose fault an error is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest

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


def check_with_one_warning(
    caplog: pytest.LogCaptureFixture,
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    expected: Any,
    message: str,
) -> None:
    check_node(model, feeds, [expected])
    assert len(caplog.messages) == 1, caplog.messages
    assert message in caplog.messages[0]


@pytest.mark.parametrize("known", [True, False])
def test_branches_that_declare_what_they_see(known: bool, caplog: pytest.LogCaptureFixture) -> None:
    branch = "{0}_branch = {0} (float[3] x) => (float[3] {0}) {{ {0} = {1} (x) }}"
    branches = ", ".join([branch.format("then", "Neg"), branch.format("else", "Abs")])
    inputs, stored = ("float[3] x", "<bool c = {1}>") if known else ("float[3] x, bool c", "")
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> test ({inputs}) => (y) {stored} {{ y = If (c) <{branches}> }}'
    )
    x = np.array([1, -2, 3], np.float32)
    check_node(model, {"x": x} if known else {"x": x, "c": np.array(True)}, [-x])
    names = ["then"] if known else ["then", "else"]
    assert caplog.messages == [
        f"test: the graph '{name}' declares as inputs what it sees around it: x" for name in names
    ]


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
