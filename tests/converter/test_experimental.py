"""Operators that ONNX took back, against onnxruntime, which still runs most of them below opset 10."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(5)
X = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32)
FREE: dict[str, Any] = {"x": ["n", 3, None, None]}


@pytest.mark.parametrize("shapes", [None, FREE], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Affine", {}),
        ("ThresholdedRelu", {}),
        ("ThresholdedRelu", {"alpha": 0.5}),
        ("Affine", {"alpha": 2.5, "beta": -1.0}),
        ("Scale", {"scale": 0.5}),
        ("ScaledTanh", {"alpha": 1.5, "beta": 0.25}),
        ("ParametricSoftplus", {"alpha": 1.5, "beta": 0.25}),
        ("ImageScaler", {"scale": 2.0, "bias": [1.0, -2.0, 3.0]}),
        ("Crop", {"border": [1, 0, 2, 3]}),
        ("Crop", {"border": [0, 0, 0, 0]}),
        ("Crop", {"border": [2, 1, 0, 0], "scale": [3, 2]}),
    ],
    ids=str,
)
def test_against_onnxruntime(op_type: str, attributes: dict[str, Any], shapes: dict[str, Any] | None) -> None:
    check_node(node_model(op_type, {"x": X}, opset=8, attributes=attributes, shapes=shapes), {"x": X})


@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("variance", [0, 1])
@pytest.mark.parametrize("shapes", [None, FREE], ids=["static", "dynamic"])
def test_mean_variance_normalization(across: int, variance: int, shapes: dict[str, Any] | None) -> None:
    attributes = {"across_channels": across, "normalize_variance": variance}
    model = node_model("MeanVarianceNormalization", {"x": X}, opset=8, attributes=attributes, shapes=shapes)
    over = (0, 1, 2, 3) if across else (0, 2, 3)
    centred = X - X.mean(over, keepdims=True, dtype=np.float64)
    scale = np.sqrt((centred**2).mean(over, keepdims=True)) if variance else 1
    check_node(model, {"x": X}, [(centred / scale).astype(np.float32)])
    check_node(model, {"x": X})


@pytest.mark.parametrize("axes", [None, [1, -1]], ids=str)
def test_dynamic_slice(axes: list[int] | None) -> None:
    parts = {"starts": [0, -3], "ends": [2, 2**31 - 1]} | ({} if axes is None else {"axes": axes})
    feeds = {"x": X, **{name: np.array(value, np.int64) for name, value in parts.items()}}
    expected = X[0:2, -3:] if axes is None else X[:, 0:2, :, -3:]
    check_node(node_model("DynamicSlice", feeds, opset=9), feeds, [expected])


@pytest.mark.parametrize(
    ("inputs", "attributes", "expected"),
    [
        ({}, {"shape": [2, 3], "value": 1.5}, np.full((2, 3), 1.5, np.float32)),
        ({}, {"value": 3.0, "dtype": 7}, np.array(3, np.int64)),
        ({"x": X}, {}, np.zeros_like(X)),
        ({"x": X[0, 0]}, {"extra_shape": [2], "value": 1.0, "dtype": 9}, np.ones((5, 6, 2), bool)),
        (
            {"x": np.array([2, 3], np.int64)},
            {"input_as_shape": 1, "value": 7.0, "dtype": 6},
            np.full((2, 3), 7, np.int32),
        ),
        ({"x": np.array([2], np.int32)}, {"input_as_shape": 1, "extra_shape": [4]}, np.zeros((2, 4), np.float32)),
    ],
    ids=range(6),
)
def test_constant_fill(inputs: dict[str, Any], attributes: dict[str, Any], expected: np.ndarray) -> None:
    check_node(node_model("ConstantFill", inputs, opset=7, attributes=attributes), inputs, [expected])


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("Crop", {"border": [1, 1]}, "border must be four numbers"),
        ("Crop", {"border": [3, 0, 3, 0]}, "nothing is left of dimension 3"),
        ("Crop", {"border": [1, 1, 1, 1], "scale": [5, 2]}, "6 elements of dimension 2 are needed"),
        ("ImageScaler", {"bias": [1.0]}, "1 biases for the channels"),
        ("ScaledTanh", {"alpha": 1.0}, "no defaults"),
        ("ParametricSoftplus", {"beta": 1.0}, "no defaults"),
        ("ConstantFill", {"shape": [2]}, "the shape comes from the input"),
    ],
)
def test_contradictions(op_type: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model(op_type, {"x": X}, opset=7, attributes=attributes))
