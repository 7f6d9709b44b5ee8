"""ONNX's optimisers through both engines, against the specification's formulas in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

DOMAIN = "ai.onnx.preview.training"
RNG = generator(10)


def tensors(kinds: int, dtype: str) -> dict[str, np.ndarray]:
    """Two optimised tensors of different shapes: all values, then all gradients, then the states."""
    return {
        f"{kind}{i}": RNG.uniform(0.1, 2, shape).astype(dtype)
        for kind in range(kinds)
        for i, shape in ((0, (3,)), (1, (2, 4)))
    }


def adagrad(
    r: float, t: int, x: Any, g: Any, h: Any, norm: float = 0, decay: float = 0, epsilon: float = 1e-6
) -> list[Any]:
    g = norm * x + g
    h = h + g * g
    return [x - r / (1 + t * decay) * g / (np.sqrt(h) + epsilon), h]


def adam(
    r: float, t: int, x: Any, g: Any, v: Any, h: Any, a: float, b: float, norm: float, post: float, epsilon: float
) -> list[Any]:
    g = norm * x + g
    v, h = a * v + (1 - a) * g, b * h + (1 - b) * g * g
    rate = r * np.sqrt(1 - b**t) / (1 - a**t) if t > 0 else r
    return [(1 - post) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h]


def momentum(r: float, t: int, x: Any, g: Any, v: Any, a: float, b: float, norm: float, nesterov: bool) -> list[Any]:
    g = norm * x + g
    v = a * v + (b if t > 0 else 1) * g
    return [x - r * (g + a * v if nesterov else v), v]


def check(op_type: str, attributes: dict[str, Any], t: int, kinds: int, formula: Any, dtype: str) -> None:
    states = tensors(kinds, dtype)
    feeds = {"r": np.array(0.1, dtype), "t": np.array(t), **states}
    wide = [value.astype(np.float64) for value in states.values()]
    each = [formula(float(feeds["r"]), t, *wide[i::2]) for i in (0, 1)]
    expected = [result[kind].astype(dtype) for kind in range(kinds - 1) for result in each]
    model = node_model(op_type, feeds, outputs=len(expected), attributes=attributes, opset=1, domain=DOMAIN)
    check_node(model, feeds, expected)


@pytest.mark.parametrize("t", [0, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("norm", [0.0, 0.25])
def test_adagrad(t: int, dtype: str, norm: float) -> None:
    attributes = {"norm_coefficient": norm, "decay_factor": 0.5, "epsilon": 0.125}
    check("Adagrad", attributes, t, 3, lambda *a: adagrad(*a, norm, 0.5, 0.125), dtype)


def test_defaults_of_adagrad() -> None:
    check("Adagrad", {}, 2, 3, adagrad, "float32")


@pytest.mark.parametrize("t", [0, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adam(t: int, dtype: str) -> None:
    names = ("alpha", "beta", "norm_coefficient", "norm_coefficient_post", "epsilon")
    values = (0.75, 0.5, 0.25, 0.125, 0.0625)
    check("Adam", dict(zip(names, values)), t, 4, lambda *a: adam(*a, *values), dtype)


def test_defaults_of_adam() -> None:
    check("Adam", {}, 2, 4, lambda *a: adam(*a, 0.9, 0.999, 0, 0, 1e-6), "float32")


@pytest.mark.parametrize("t", [0, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_momentum(t: int, dtype: str, mode: str) -> None:
    attributes = {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.25, "mode": mode}
    check("Momentum", attributes, t, 3, lambda *a: momentum(*a, 0.75, 0.5, 0.25, mode == "nesterov"), dtype)


@pytest.mark.parametrize(
    ("attributes", "count", "message"),
    [
        ({"mode": "fast"}, 3, "mode must be standard or nesterov"),
        ({"mode": "standard"}, 2, "must be 3 for each"),
    ],
)
def test_contradictions(attributes: dict[str, Any], count: int, message: str) -> None:
    feeds = {"r": np.float32(1), "t": np.array(1), **{f"x{i}": np.ones(2, np.float32) for i in range(count)}}
    given = {"alpha": 0.5, "beta": 0.5, "norm_coefficient": 0.0, **attributes}
    model = node_model("Momentum", feeds, attributes=given, outputs=2, opset=1, domain=DOMAIN)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)
