"""What onnxruntime's tools write when they optimise and quantise, through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import converter
from converter.from_onnx.support import needed_operators
from tests.engines import check_node, node_model
from tests.random_data import generator

R = generator(47)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def u(*shape: int, kind: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(kind)
    return R.integers(limits.min, limits.max + 1, shape).astype(kind)


def n(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def row(
    op_type: str, name: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any] | None = None, **more: Any
) -> Any:
    return pytest.param(op_type, inputs, attributes or {}, more, id=f"{op_type}-{name}")


SCALES = f(4) ** 2 / 50 + np.float32(0.01)
A = {"a": u(3, 5), "sa": n(0.013), "za": np.uint8(120)}
B = {"b": u(5, 4, kind=np.int8), "sb": n(0.021), "zb": np.int8(3)}
COLUMNS = {"b": u(5, 4, kind=np.int8), "sb": SCALES, "zb": u(4, kind=np.int8) // 16}
C = {"c": R.integers(-5000, 5000, 4).astype(np.int32)}
Y = {"sy": n(0.11), "zy": np.uint8(131)}
IMAGE, NHWC = u(1, 4, 6, 6), u(1, 6, 6, 4)
FILTERS = {"w": u(8, 4, 3, 3, kind=np.int8), "sw": n(0.009), "zw": np.int8(0), "sy": n(0.9), "zy": np.uint8(99)}
DATA = {"sx": n(0.02), "zx": np.uint8(117)}

ROWS = [
    row("QGemm", "real", {**A, **B}),
    row("QGemm", "bias", {**A, **B, **C}, {"alpha": 0.7}),
    row("QGemm", "quantised", {**A, **B, **C, **Y}),
    row("QGemm", "no-bias", {**A, **B, "": None, **Y}, {"alpha": 1.3}),
    row("QGemm", "columns", {**A, **COLUMNS, **C, **Y}),
    row("QGemm", "transposed", {**A, "a": u(5, 3), **COLUMNS, "b": u(4, 5, kind=np.int8)}, {"transA": 1, "transB": 1}),
    row("QGemm", "i8", {"a": u(3, 5, kind=np.int8), "sa": n(0.01), "za": np.int8(-9), **B, **C}),
    row("QGemm", "rows-unknown", {**A, **B, **C, **Y}, shapes={"a": ["m", 5]}),
    row("TransposeMatMul", "both", {"a": f(2, 4, 3), "b": f(5, 4)}, {"transA": 1, "transB": 1, "alpha": 0.5}),
    row("TransposeMatMul", "plain", {"a": f(3, 4), "b": f(4, 5)}),
    row("QLinearConv", "first", {"x": IMAGE, **DATA, **FILTERS}, {"pads": [1, 1, 1, 1]}),
    row("QLinearConv", "last", {"x": NHWC, **DATA, **FILTERS}, {"channels_last": 1, "strides": [2, 1]}),
    row(
        "QLinearConv",
        "last-bias",
        {"x": NHWC, **DATA, **FILTERS, "bias": R.integers(-900, 900, 8).astype(np.int32)},
        {"channels_last": 1},
    ),
    row("NhwcMaxPool", "plain", {"x": NHWC}, {"kernel_shape": [2, 3]}),
    row("NhwcMaxPool", "strides", {"x": NHWC}, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    row("NhwcMaxPool", "i8", {"x": u(2, 5, 5, 3, kind=np.int8)}, {"kernel_shape": [2, 2], "ceil_mode": 1, "strides": [2, 2]}),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "more"), ROWS)
def test_numbers_are_those_of_onnxruntime(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    feeds = {name: value for name, value in inputs.items() if value is not None}
    model = node_model(
        op_type, feeds, attributes=attributes, order=list(inputs), opset=1, domain="com.microsoft", **more
    )
    check_node(model, feeds)


@pytest.mark.parametrize("opset", [11, 14, 16])
def test_layer_normalization_below_version_17(opset: int) -> None:
    """onnxruntime's optimiser leaves it so in files of these opsets."""
    model = node_model("LayerNormalization", {"x": f(2, 3, 8)}, constants={"s": f(8), "b": f(8)}, opset=opset)
    check_node(model, {"x": f(2, 3, 8)})
    assert [entry.problem for entry in needed_operators(model)] == [""]


def test_a_scale_without_its_zero_point_is_an_error() -> None:
    inputs = {**A, **B, "sy": n(1)}
    model = node_model("QGemm", inputs, order=[*A, *B, "", "sy"], opset=1, domain="com.microsoft")
    with pytest.raises(converter.ConversionError, match=r"'node' \(com.microsoft.QGemm.*must be given together"):
        converter.convert_model(model)


def test_a_domain_of_one_version_need_not_be_imported(caplog: pytest.LogCaptureFixture) -> None:
    inputs = {"a": f(3, 4), "b": f(4, 5)}
    model = node_model("TransposeMatMul", inputs, opset=1, domain="com.microsoft")
    del model.opset_import[1]
    check_node(model, inputs, [inputs["a"] @ inputs["b"]])
    assert "does not import the domain 'com.microsoft'; its only version, 1, is taken" in caplog.text
    assert [(entry.opset, entry.problem) for entry in needed_operators(model)] == [(1, "")]
