"""onnxruntime's group normalisations against NumPy, as onnxruntime itself has them for graphics cards alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(31)


def f(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def normalized(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, last: bool, swish: bool, groups: int) -> np.ndarray:
    """``x`` in float64 with the channels in front; the groups have mean 0 and variance 1."""
    front = np.moveaxis(x, -1, 1) if last else x
    parts = front.astype(np.float64).reshape(len(x), groups, -1)
    plain = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    column = (1, -1, *[1] * (x.ndim - 2))
    y = plain.reshape(front.shape) * gamma.reshape(column) + beta.reshape(column)
    y = y / (1 + np.exp(-y)) if swish else y
    return (np.moveaxis(y, 1, -1) if last else y).astype(np.float32)


def model(op_type: str, feeds: dict[str, Any], *, outputs: int = 1, shapes: Any = None, **attributes: Any) -> Any:
    given = {"groups": 4, **attributes}
    return node_model(op_type, feeds, opset=1, domain="com.microsoft", attributes=given, outputs=outputs, shapes=shapes)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_group_norm(last: int, activation: int, dynamic: bool) -> None:
    feeds = {"x": f(2, 3, 5, 8) if last else f(2, 8, 3, 5), "gamma": f(8), "beta": f(8)}
    shapes = {"x": ["n", None, None, 8] if last else ["n", 8, None, None]} if dynamic else None
    made = model("GroupNorm", feeds, shapes=shapes, activation=activation, channels_last=last)
    check_node(made, feeds, [normalized(*feeds.values(), bool(last), bool(activation), 4)])


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("skip", ["whole", "channels", "ones"])
@pytest.mark.parametrize("bias", [False, True])
def test_sum_before(last: int, skip: str, bias: bool) -> None:
    x = f(2, 3, 5, 8) if last else f(2, 8, 3, 5)
    column = (2, 1, 1, 8) if last else (2, 8, 1, 1)
    added = f(*x.shape) if skip == "whole" else f(*column)
    feeds = {"x": x, "gamma": f(8), "beta": f(8), "skip": added.reshape(2, 8) if skip == "channels" else added}
    total = x + added
    if bias:
        feeds["bias"] = f(8)
        total = total + (feeds["bias"] if last else feeds["bias"].reshape(8, 1, 1))
    made = model("SkipGroupNorm", feeds, outputs=2, activation=1, channels_last=last)
    check_node(made, feeds, [normalized(total, feeds["gamma"], feeds["beta"], bool(last), True, 4), total])


def test_an_activation_that_there_is_not() -> None:
    feeds = {"x": f(2, 3, 5, 8), "gamma": f(8), "beta": f(8)}
    with pytest.raises(converter.ConversionError, match="activation must be 0 or 1"):
        converter.convert_model(model("GroupNorm", feeds, activation=2))


def test_gather_nd() -> None:
    feeds = {"x": f(2, 3, 4), "indices": np.array([[0, -1], [1, 0]])}
    check_node(node_model("GatherND", feeds, opset=1, domain="com.microsoft"), feeds)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_quantised_mean(keepdims: int, zero: bool, kind: Any) -> None:
    info = np.iinfo(kind)
    x = RNG.integers(info.min, info.max + 1, (2, 3, 4)).astype(kind)
    scale, small = np.float32(0.0131), np.float32(0.0097)
    first, second = (kind(101), kind(90)) if zero else (kind(0), kind(0))
    mean = ((x.astype(np.float64) - first) * scale).mean((0, 2), keepdims=bool(keepdims))
    expected = np.clip(np.rint(mean / small) + second, info.min, info.max).astype(kind)
    feeds: dict[str, Any] = {"x": x, "s": scale, "z": first, "t": small, "u": second}
    order = ["x", "s", "z", "t", "u"] if zero else ["x", "s", "", "t", ""]
    feeds = {name: np.asarray(value) for name, value in feeds.items() if name in order}
    made = node_model(
        "QLinearReduceMean",
        feeds,
        opset=1,
        domain="com.microsoft",
        order=order,
        attributes={"axes": [-1, 0], "keepdims": keepdims},
    )
    check_node(made, feeds, [expected])
