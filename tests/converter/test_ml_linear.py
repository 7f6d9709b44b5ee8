"""``ai.onnx.ml``'s features and linear models through both engines, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import converter
import ir_runtime
from tests.engines import check_node, node_model
from tests.random_data import generator

R = generator(31)
X = R.standard_normal((4, 3)).astype(np.float32)
WHOLE = R.integers(-5, 6, (4, 3))
KINDS = [X, X.astype(np.float64), WHOLE.astype(np.int64), WHOLE.astype(np.int32)]
HOLES = np.array([[1, np.nan, 3], [np.nan, 5, 6]], np.float32)


def row(op_type: str, inputs: Any, attributes: Mapping[str, Any] | None = None, opset: int = 1, **more: Any) -> Any:
    inputs = inputs if isinstance(inputs, dict) else {"x": inputs}
    first = next(iter(inputs.values()))
    text = f"{op_type}-{opset}-{first.dtype}-{'-'.join(str(v)[:12] for v in (attributes or {}).values() if isinstance(v, (list, str)))}"
    return pytest.param(op_type, inputs, attributes or {}, {"opset": opset, **more}, id=text)


def tensor(values: Any, kind: Any) -> Any:
    return numpy_helper.from_array(np.array(values, kind))


THREE = {"coefficients": [float(v) for v in R.standard_normal(9)], "intercepts": [0.1, -0.2, 0.3]}
ONE = {"coefficients": [0.5, -1.25, 0.75], "intercepts": [0.1]}
TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")

ROWS = [
    *(row("Scaler", x, {"offset": [0.5, 1.0, -1.5], "scale": [2.0, 0.5, 3.0]}) for x in KINDS),
    row("Scaler", X, {"offset": [0.5], "scale": [2.0]}, shapes={"x": ["n", 3]}),
    row("Binarizer", X, {"threshold": 0.25}),
    *(row("Normalizer", x, {"norm": norm}) for norm in ("MAX", "L1", "L2") for x in (X, WHOLE)),
    row("Normalizer", np.zeros((2, 3), np.float32), {"norm": "L2"}),
    row("Imputer", HOLES, {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": float("nan")}),
    row("Imputer", X, {"imputed_value_floats": [7.0], "replaced_value_float": float(X[1, 1])}),
    row("Imputer", WHOLE, {"imputed_value_int64s": [100, 200, 300], "replaced_value_int64": int(WHOLE[0, 0])}),
    row("FeatureVectorizer", {"a": X, "b": X[:, :2].copy()}, {"inputdimensions": [3, 2]}),
    row("ArrayFeatureExtractor", {"x": X, "y": np.array([2, 0])}),
    row("ArrayFeatureExtractor", {"x": WHOLE, "y": np.array([1])}, shapes={"x": ["n", 3]}),
    row("OneHotEncoder", WHOLE, {"cats_int64s": [-2, 0, 3, 5]}),
    row("OneHotEncoder", WHOLE[0].copy(), {"cats_int64s": [-2, 0, 3, 5]}),
    row("LabelEncoder", WHOLE, {"keys_int64s": [-2, 0, 3], "values_int64s": [7, 8, 9]}, 2),
    row("LabelEncoder", WHOLE, {"keys_int64s": [-2, 0, 3], "values_floats": [0.7, 0.8, 0.9], "default_float": 0.5}, 2),
    row("LabelEncoder", HOLES, {"keys_floats": [1.0, 5.0], "values_int64s": [7, 8], "default_int64": 4}, 2),
    row("LabelEncoder", HOLES, {"keys_floats": [1.0, float("nan")], "values_floats": [7.0, 8.0]}, 4),
    row(
        "LabelEncoder",
        HOLES.astype(np.float64),
        {
            "keys_tensor": tensor([1, 6], np.float64),
            "values_tensor": tensor([0.25, 0.5], np.float64),
            "default_tensor": tensor([2.5], np.float64),
        },
        4,
    ),
    *(row("LinearRegressor", x, ONE) for x in KINDS[:1]),
    row("LinearRegressor", X, {**THREE, "targets": 3}, shapes={"x": ["n", 3]}),
    row("LinearRegressor", X, {"coefficients": [0.5, -1.25, 0.75]}),
    *(
        row("LinearClassifier", x, {**THREE, "classlabels_ints": [0, 1, 2], "post_transform": kind}, outputs=2)
        for kind in TRANSFORMS
        for x in (X, WHOLE)
    ),
    row("LinearClassifier", X, {**THREE, "classlabels_ints": [5, -1, 9], "multi_class": 1}, outputs=2),
    row("LinearClassifier", X, {**ONE, "classlabels_ints": [0, 1], "post_transform": "NONE"}, outputs=2),
    row("LinearClassifier", X, {**ONE, "classlabels_ints": [0, 1], "post_transform": "SOFTMAX"}, outputs=2),
    row("LinearClassifier", X, {**ONE, "classlabels_ints": [3, 8], "post_transform": "LOGISTIC"}, outputs=2),
]


@pytest.mark.parametrize(("op_type", "inputs", "attributes", "more"), ROWS)
def test_operator_gives_the_numbers_of_onnxruntime(
    op_type: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any], more: Mapping[str, Any]
) -> None:
    model = node_model(op_type, inputs, attributes=attributes, domain="ai.onnx.ml", **more)
    check_node(model, inputs)


@pytest.mark.parametrize("op_type", ["LinearRegressor", "LinearClassifier"])
def test_probit(op_type: str) -> None:
    shares = np.array([[0.0, 1.0, 0.25], [0.9, 0.01, 0.7], [1.5, 0.9999, -1.0]], np.float32)
    attributes: dict[str, Any] = {"coefficients": np.eye(3).reshape(-1).tolist(), "post_transform": "PROBIT"}
    if op_type == "LinearRegressor":
        attributes["targets"] = 3
    else:
        attributes.update(classlabels_ints=[5, 6, 7], intercepts=[0.0, 0.0, 0.0])
    outputs = 2 if op_type == "LinearClassifier" else 1
    model = node_model(op_type, {"x": shares}, attributes=attributes, outputs=outputs, domain="ai.onnx.ml", opset=1)
    check_node(model, {"x": shares})


def test_labels_of_16_bits_are_found() -> None:
    """onnxruntime has no kernel for such keys; the expected values are calculated by hand."""
    x = np.array([[5, -300], [7, 5]], np.int16)
    attributes = {"keys_tensor": tensor([5, -300], np.int16), "values_tensor": tensor([0.5, 2.5], np.float32)}
    attributes["default_tensor"] = tensor([9], np.float32)
    model = node_model("LabelEncoder", {"x": x}, attributes=attributes, domain="ai.onnx.ml", opset=4)
    check_node(model, {"x": x}, [np.array([[0.5, 2.5], [9, 0.5]], np.float32)])


@pytest.mark.parametrize(
    ("op_type", "x", "attributes", "message"),
    [
        ("OneHotEncoder", WHOLE, {"cats_strings": ["a"]}, "'cats_strings' holds strings"),
        ("LinearClassifier", X, {**THREE, "classlabels_strings": ["a", "b", "c"]}, "holds strings"),
        (
            "LinearClassifier",
            X,
            {**ONE, "classlabels_ints": [3, 4], "post_transform": "PROBIT"},
            "does not write the second one",
        ),
        ("Normalizer", X, {"norm": "L3"}, "norm must be MAX, L1 or L2"),
        ("Scaler", X, {"offset": [1.0, 2.0]}, "offset must have one number, or one for each of 3 features"),
    ],
)
def test_contradictions_are_named(op_type: str, x: Any, attributes: Mapping[str, Any], message: str) -> None:
    outputs = 2 if op_type == "LinearClassifier" else 1
    model = node_model(op_type, {"x": x}, attributes=attributes, outputs=outputs, domain="ai.onnx.ml", opset=1)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)


def test_a_map_at_the_end_can_be_cut_off() -> None:
    """How scikit-learn's converter ends its classifiers."""
    scores = helper.make_node("Normalizer", ["x"], ["p"], domain="ai.onnx.ml", norm="L1")
    names = helper.make_node("ZipMap", ["p"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2], name="zip")
    graph = helper.make_graph(
        [scores, names],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])],
        [onnx.ValueInfoProto(name="maps")],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=imports)
    with pytest.raises(converter.ConversionError, match=r"'zip' \(ai.onnx.ml.ZipMap.*the option 'output' can ask"):
        converter.convert_model(model)
    kept = converter.convert_model(model, output=["p"])
    x = np.array([[1, 2, 5], [3, 0, 1]], np.float32)
    np.testing.assert_allclose(ir_runtime.compile_model(kept)({"x": x})[0], x / x.sum(axis=1, keepdims=True))
