"""ONNX's activations through both engines, against float64 formulas or onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, converted, node_model, schema_types

X = np.array([[-90.0, -3.5, -1.0, -0.0], [0.25, 1.0, 3.75, 90.0]], np.float32)


def truth(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    """The function of each element, by Python's floats."""
    return np.array([function(float(value)) for value in x.reshape(-1)]).reshape(x.shape).astype(x.dtype)


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v))


def softplus(v: float) -> float:
    return math.log1p(math.exp(v))


def elu(v: float, alpha: float = 1.0) -> float:
    return v if v > 0 else alpha * math.expm1(v)


def celu(v: float, alpha: float = 1.0) -> float:
    return max(0.0, v) + min(0.0, alpha * math.expm1(v / alpha))


def gelu_tanh(v: float) -> float:
    return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))


@pytest.mark.parametrize(
    ("op_type", "opsets", "attributes", "function"),
    [
        ("Relu", (1, 6, 13, 14), {}, lambda v: max(v, 0.0)),
        ("Sigmoid", (1, 6, 13), {}, sigmoid),
        ("HardSwish", (14, 22), {}, lambda v: v * min(max(v / 6 + 0.5, 0), 1)),
        ("Softplus", (1, 22), {}, softplus),
        ("Softsign", (1, 22), {}, lambda v: v / (1 + abs(v))),
        ("Mish", (18, 22), {}, lambda v: v * math.tanh(softplus(v))),
        ("LeakyRelu", (1, 6, 16), {}, lambda v: v if v >= 0 else 0.01 * v),
        ("LeakyRelu", (1, 6, 16), {"alpha": 0.2}, lambda v: v if v >= 0 else 0.2 * v),
        ("LeakyRelu", (6,), {"alpha": -1.5}, lambda v: v if v >= 0 else -1.5 * v),
        ("Elu", (1, 6, 22), {}, elu),
        ("Elu", (1, 6, 22), {"alpha": 2.5}, lambda v: elu(v, 2.5)),
        ("Celu", (12, 28), {}, celu),
        ("Celu", (12, 28), {"alpha": 2.5}, lambda v: celu(v, 2.5)),
        ("Celu", (28,), {"alpha": -40.0}, lambda v: celu(v, -40.0)),
        ("Selu", (1,), {}, lambda v: 1.0507 * elu(v, 1.6732)),
        ("Selu", (6, 22), {}, lambda v: 1.0507009873554805 * elu(v, 1.6732632423543772)),
        ("Selu", (1, 6, 22), {"alpha": 2.0, "gamma": 3.0}, lambda v: 3 * elu(v, 2.0)),
        ("ThresholdedRelu", (10, 22), {}, lambda v: v if v > 1 else 0.0),
        ("ThresholdedRelu", (10, 22), {"alpha": -2.0}, lambda v: v if v > -2 else 0.0),
        ("HardSigmoid", (1, 6, 22), {}, lambda v: min(max(0.2 * v + 0.5, 0), 1)),
        ("HardSigmoid", (1, 6, 22), {"alpha": 0.5, "beta": 0.25}, lambda v: min(max(0.5 * v + 0.25, 0), 1)),
        ("Gelu", (20,), {}, lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2),
        ("Gelu", (20,), {"approximate": "tanh"}, gelu_tanh),
        ("Swish", (24,), {}, lambda v: v * sigmoid(v)),
        ("Swish", (24,), {"alpha": 0.7}, lambda v: v * sigmoid(0.7 * v)),
    ],
)
def test_activation_of_every_float_type(
    op_type: str, opsets: tuple[int, ...], attributes: dict[str, Any], function: Callable[[float], float]
) -> None:
    for opset in opsets:
        for dtype in schema_types(op_type, opset):
            if dtype.kind in "iu":
                continue
            x = X.astype(dtype)
            model = node_model(op_type, {"x": x}, opset=opset, attributes=attributes, shapes={"x": ["n", None]})
            check_node(model, {"x": x}, [truth(function, x)])


IN_PLACE = ["Relu", "Sigmoid", "LeakyRelu", "Elu", "Selu", "HardSigmoid"]


@pytest.mark.parametrize("op_type", IN_PLACE)
def test_in_place_of_opset_1(op_type: str) -> None:
    marked = node_model(op_type, {"x": X}, opset=1, attributes={"consumed_inputs": [0]})
    assert converted(marked)[1] == converted(node_model(op_type, {"x": X}, opset=1))[1]


@pytest.mark.parametrize("op_type", [*IN_PLACE, "Softplus", "Softsign", "ThresholdedRelu", "HardSwish", "Celu"])
def test_scalar(op_type: str) -> None:
    x = np.array(-0.5, np.float32)
    check_node(node_model(op_type, {"x": x}, opset=16), {"x": x})


def test_relu_of_integers() -> None:
    for dtype in schema_types("Relu", 14):
        if dtype.kind == "i":
            x = np.array([-100, 0, 100, min(np.iinfo(dtype).max, 2**31 - 1)], dtype)
            check_node(node_model("Relu", {"x": x}, opset=14), {"x": x}, [np.maximum(x, 0)])


def test_swiglu() -> None:
    for dtype in schema_types("SwiGLU", 28):
        a, b = X.astype(dtype), X[::-1].astype(dtype)
        expected = truth(lambda v: v * sigmoid(1.5 * v), X.astype(dtype).astype(np.float64)) * b.astype(np.float64)
        model = node_model("SwiGLU", {"a": a, "b": b}, opset=28, attributes={"alpha": 1.5})
        check_node(model, {"a": a, "b": b}, [expected.astype(dtype)], rtol=2e-2 if dtype.itemsize == 2 else 1e-4)
    with pytest.raises(converter.ConversionError, match="must have one shape"):
        converter.convert_model(node_model("SwiGLU", {"a": X, "b": X[:1]}, opset=28))


@pytest.mark.parametrize(("bias", "lambd"), [(0.0, 0.5), (1.5, 1.5), (-1.0, 2.0)])
def test_shrink(bias: float, lambd: float) -> None:
    for dtype in schema_types("Shrink", 9):
        x = np.array([0, 1, 2, 3, 50]).astype(dtype)
        if dtype.kind != "u":
            x = np.concatenate([x, -x]).astype(dtype)
        wide = x.astype(np.float64)
        expected = np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0)).astype(dtype)
        model = node_model("Shrink", {"x": x}, opset=9, attributes={"bias": bias, "lambd": lambd})
        check_node(model, {"x": x}, [expected])


# --- PRelu ---


@pytest.mark.parametrize("opset", [7, 9, 16])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("shape", "slope_shape"),
    [
        ((2, 3, 4, 5), ()), ((2, 3, 4, 5), (1,)), ((2, 3, 4, 5), (3, 1, 1)), ((2, 3, 4, 5), (1, 3, 1, 1)),
        ((2, 3, 4, 5), (5,)), ((2, 3, 4, 5), (4, 5)), ((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3), (3,)), ((3,), (3,)),
        ((2, 3, 4, 5), (1, 1, 1, 1)), ((), ()),
    ],
)  # fmt: skip
def test_prelu(opset: int, known: bool, shape: tuple[int, ...], slope_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = np.asarray(rng.standard_normal(shape), np.float32)
    slope = {"slope": np.asarray(rng.standard_normal(slope_shape), np.float32)}
    expected = np.where(x < 0, x * slope["slope"], x)
    feeds = {"x": x} if known else {"x": x, **slope}
    dynamic = {"x": ["n", *[None] * (len(shape) - 1)][: len(shape)]}
    model = node_model("PRelu", feeds, opset=opset, constants=slope if known else {}, shapes=dynamic)
    check_node(model, feeds, [expected])


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("slope_shape", [(1,), (3,), (3, 1, 1)])
def test_prelu_of_channels(opset: int, slope_shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    slope = rng.standard_normal(slope_shape).astype(np.float32)
    attributes = {"consumed_inputs": [0, 0]} if opset == 1 else {}
    model = node_model("PRelu", {"x": x}, opset=opset, constants={"slope": slope}, attributes=attributes)
    check_node(model, {"x": x}, [np.where(x < 0, x * slope.reshape(-1, 1, 1), x)])
    flat = x.reshape(-1, 3)
    if len(slope_shape) == 1:
        model = node_model("PRelu", {"x": flat}, opset=opset, constants={"slope": slope})
        check_node(model, {"x": flat}, [np.where(flat < 0, flat * slope, flat)])


@pytest.mark.parametrize("slope_shape", [(2,), (1, 2, 3, 4)])
def test_prelu_errors(slope_shape: tuple[int, ...]) -> None:
    x, slope = np.ones((2, 3, 4), np.float32), np.ones(slope_shape, np.float32)
    with pytest.raises(converter.ConversionError, match="cannot be broadcast to x"):
        converter.convert_model(node_model("PRelu", {"x": x}, opset=16, constants={"slope": slope}))


# --- Softmax and its relatives ---


def along(op_type: str, x: np.ndarray, axis: int) -> np.ndarray:
    wide = x.astype(np.float64)
    if op_type == "Hardmax":
        first = np.argmax(wide, axis=axis)
        hot = np.arange(x.shape[axis]) == np.expand_dims(first, -1)
        return np.moveaxis(hot, -1, axis).astype(x.dtype)
    powers = np.exp(wide - wide.max(axis=axis, keepdims=True))
    shares = powers / powers.sum(axis=axis, keepdims=True)
    return (shares if op_type == "Softmax" else np.log(shares)).astype(x.dtype)


FAMILY = ["Softmax", "LogSoftmax", "Hardmax"]


@pytest.mark.parametrize("op_type", FAMILY)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2])
def test_softmax_along_an_axis(op_type: str, axis: int | None) -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 5)) * 3
    for dtype in schema_types(op_type, 13):
        value = x.astype(dtype)
        attributes = {} if axis is None else {"axis": axis}
        for shapes in (None, {"x": ["n", None, "m"]}):
            model = node_model(op_type, {"x": value}, opset=13, attributes=attributes, shapes=shapes)
            expected = along(op_type, value, -1 if axis is None else axis)
            check_node(model, {"x": value}, [expected], atol=3e-2 if dtype.itemsize == 2 else 1e-5)


@pytest.mark.parametrize("op_type", FAMILY)
@pytest.mark.parametrize("opset", [1, 11])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1, -3])
def test_softmax_over_the_rest(op_type: str, opset: int, axis: int | None) -> None:
    if axis is not None and axis < 0 and opset < 11:
        axis = 2
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 1)).astype(np.float32)
    at = 1 if axis is None else axis % 4
    flat = x.reshape(int(np.prod(x.shape[:at])), -1)
    attributes = {} if axis is None else {"axis": axis}
    for shapes in (None, {"x": ["n", None, "m", None]}):
        model = node_model(op_type, {"x": x}, opset=opset, attributes=attributes, shapes=shapes)
        check_node(model, {"x": x}, [along(op_type, flat, 1).reshape(x.shape)])


def test_softmax_before_ones_is_one_layer() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3, 1, 1)
    model = node_model("Softmax", {"x": x}, opset=9)
    types = [node.op.type for node in converter.convert_model(model, static=True).nodes()]
    assert types == ["Parameter", "SoftMax", "Result"]
    # The other shapes that the model may be given later have something behind the channels.
    check_node(model, {"x": x})


def test_hardmax_takes_the_first_of_equals() -> None:
    x = np.array([[3, 1, 3], [2, 2, 2]], np.float32)
    expected = np.array([[1, 0, 0], [1, 0, 0]], np.float32)
    check_node(node_model("Hardmax", {"x": x}, opset=13), {"x": x}, [expected])


def test_softmax_of_infinities() -> None:
    x = np.array([[-np.inf, 0, 1], [1, 2, -np.inf]], np.float32)
    check_node(node_model("Softmax", {"x": x}, opset=13), {"x": x})


@pytest.mark.parametrize(
    ("op_type", "opset", "attributes", "reason"),
    [
        ("Softmax", 13, {"axis": 2}, "axis 2 lies outside"),
        ("Softmax", 11, {"axis": -3}, "axis -3 lies outside"),
        ("Gelu", 20, {"approximate": "erf"}, "approximate must be"),
        ("Celu", 12, {"alpha": 0.0}, "must not be 0"),
        ("LeakyRelu", 16, {"beta": 1.0}, "no attribute 'beta'"),
    ],
)
def test_errors(op_type: str, opset: int, attributes: dict[str, Any], reason: str) -> None:
    model = node_model(op_type, {"x": X}, opset=opset, attributes=attributes)
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(model)
