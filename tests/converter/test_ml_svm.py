"""``ai.onnx.ml``'s support vector machines through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

R = generator(41)
X = R.standard_normal((6, 3)).astype(np.float32)
KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.5, 1.0, 3.0],
    "RBF": [0.7, 0.0, 0.0],
    "SIGMOID": [0.4, -0.3, 0.0],
}


def numbers(*shape: int, scale: float = 1.0) -> list[float]:
    return [float(value) for value in (scale * R.standard_normal(shape)).astype(np.float32).reshape(-1)]


def machine(classes: int, kernel: str = "RBF", **more: Any) -> dict[str, Any]:
    counts = [2 + i % 3 for i in range(classes)]
    pairs = classes * (classes - 1) // 2
    return {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "vectors_per_class": counts,
        "support_vectors": numbers(sum(counts), 3),
        "coefficients": numbers(classes - 1, sum(counts)),
        "rho": numbers(pairs, scale=0.3),
        "classlabels_ints": [7 * i - 3 for i in range(classes)],
        **more,
    }


def odds(classes: int) -> dict[str, list[float]]:
    pairs = classes * (classes - 1) // 2
    return {"prob_a": numbers(pairs), "prob_b": numbers(pairs)}


def check_classifier(attributes: Mapping[str, Any], x: np.ndarray = X, **more: Any) -> None:
    model = node_model(
        "SVMClassifier", {"x": x}, opset=1, domain="ai.onnx.ml", outputs=2, attributes=attributes, **more
    )
    check_node(model, {"x": x})


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("with_odds", [False, True])
def test_classifier(kernel: str, classes: int, with_odds: bool) -> None:
    check_classifier({**machine(classes, kernel), **(odds(classes) if with_odds else {})})


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("with_odds", [False, True])
def test_transforms(transform: str, classes: int, with_odds: bool) -> None:
    check_classifier({**machine(classes), **(odds(classes) if with_odds else {}), "post_transform": transform})


@pytest.mark.parametrize(("classes", "with_odds"), [(2, True), (3, True), (3, False)])
def test_probit(classes: int, with_odds: bool) -> None:
    check_classifier({**machine(classes), **(odds(classes) if with_odds else {}), "post_transform": "PROBIT"})


@pytest.mark.parametrize("degree", [0.0, 1.0, 2.0, 4.0])
def test_degrees(degree: float) -> None:
    check_classifier(machine(3, "POLY", kernel_params=[0.5, 0.25, degree]))


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("with_odds", [False, True])
def test_linear_classifier(classes: int, transform: str, with_odds: bool) -> None:
    attributes = {
        "coefficients": numbers(classes, 3),
        "rho": [0.25],
        "classlabels_ints": list(range(classes)),
        "kernel_params": KERNELS["LINEAR"],
        "post_transform": transform,
        **(odds(max(2, classes)) if with_odds else {}),
    }
    check_classifier(attributes)
    check_classifier({**attributes, "coefficients": [abs(value) for value in attributes["coefficients"]]})


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.int32])
def test_types(kind: Any) -> None:
    check_classifier(machine(3), (3 * X).astype(kind))


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("classes", [2, 5])
def test_unknown_number_of_rows(count: int, classes: int) -> None:
    x = np.random.default_rng(count).standard_normal((count, 3)).astype(np.float32)
    check_classifier({**machine(classes), **odds(classes)}, x, shapes={"x": ["n", 3]})
    check_classifier(machine(classes), x, shapes={"x": [None, None]})


def test_one_row() -> None:
    check_classifier(machine(3), X[0])


def check_regressor(attributes: Mapping[str, Any], x: np.ndarray = X, **more: Any) -> None:
    model = node_model("SVMRegressor", {"x": x}, opset=1, domain="ai.onnx.ml", attributes=attributes, **more)
    check_node(model, {"x": x})


def regression(kernel: str = "RBF", **more: Any) -> dict[str, Any]:
    made = {"kernel_type": kernel, "kernel_params": KERNELS[kernel], "n_supports": 5, "support_vectors": numbers(5, 3)}
    return {**made, "coefficients": numbers(5), "rho": [0.2], **more}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_regressor(kernel: str, one_class: int) -> None:
    check_regressor(regression(kernel, one_class=one_class))
    check_regressor(regression(kernel, one_class=one_class), shapes={"x": ["n", 3]})
    check_regressor(regression(kernel, one_class=one_class), X[0])


@pytest.mark.parametrize("one_class", [0, 1])
def test_linear_regressor(one_class: int) -> None:
    kernel_params = KERNELS["LINEAR"]
    check_regressor({"coefficients": numbers(3), "rho": [0.2], "one_class": one_class, "kernel_params": kernel_params})


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.int32])
def test_types_of_the_regressor(kind: Any) -> None:
    """onnxruntime has float32 alone."""
    x, attributes = (3 * X).astype(kind), regression("LINEAR")
    vectors = np.reshape(attributes["support_vectors"], (5, 3))
    wanted = x.astype(np.float64) @ vectors.T @ np.reshape(attributes["coefficients"], (5, 1)) + 0.2
    model = node_model("SVMRegressor", {"x": x}, opset=1, domain="ai.onnx.ml", attributes=attributes)
    check_node(model, {"x": x}, expected=[wanted.astype(np.float32)])


@pytest.mark.parametrize(
    ("op_type", "changed", "message"),
    [
        ("SVMClassifier", {"kernel_type": "X"}, "kernel_type must be"),
        ("SVMClassifier", {"kernel_params": [1.0]}, "gamma, coef0 and degree"),
        ("SVMClassifier", {"classlabels_ints": None, "classlabels_strings": ["a", "b", "c"]}, "holds strings"),
        ("SVMClassifier", {"classlabels_ints": None}, "missing"),
        ("SVMClassifier", {"classlabels_ints": [1, 2]}, "2 labels need as many"),
        ("SVMClassifier", {"rho": [0.5]}, "each of 3 pairs"),
        ("SVMClassifier", {"prob_a": [0.5]}, "as many numbers"),
        ("SVMClassifier", {"prob_a": [0.5], "prob_b": [0.5]}, "each of 3 pairs"),
        ("SVMClassifier", {"support_vectors": [1.0] * 26}, "do not make 9"),
        ("SVMClassifier", {"coefficients": [1.0] * 9}, "9 coefficients"),
        ("SVMClassifier", {"support_vectors": [1.0] * 36}, "4 features"),
        ("SVMRegressor", {"coefficients": [1.0] * 4}, "4 coefficients"),
        ("SVMRegressor", {"rho": None}, "missing"),
        ("SVMRegressor", {"post_transform": "LOGISTIC"}, "ignores it"),
        ("SVMRegressor", {"n_supports": 4}, "do not make 4"),
    ],
)
def test_errors(op_type: str, changed: dict[str, Any], message: str) -> None:
    base = machine(3) if op_type == "SVMClassifier" else regression()
    attributes = {name: value for name, value in {**base, **changed}.items() if value is not None}
    outputs = 2 if op_type == "SVMClassifier" else 1
    model = node_model(op_type, {"x": X}, opset=1, domain="ai.onnx.ml", outputs=outputs, attributes=attributes)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)


def test_a_transform_that_leaves_a_score_open() -> None:
    attributes = machine(2, post_transform="PROBIT")
    model = node_model("SVMClassifier", {"x": X}, opset=1, domain="ai.onnx.ml", outputs=2, attributes=attributes)
    with pytest.raises(converter.ConversionError, match="does not write the second one"):
        converter.convert_model(model)
