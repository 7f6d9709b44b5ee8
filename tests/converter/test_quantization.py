"""ONNX's quantisation through both engines, against onnxruntime or a calculation in float64.

OpenVINO's CPU plug-in divides by multiplying with the reciprocal, so a value that lies within
float32's rounding of the middle between two steps may fall to either side of it there. Rows about
such middles have scales that are powers of two, or run in NumPy alone.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import converter
from tests.engines import ENGINES, check_node, converted, node_model
from tests.random_data import generator

RNG = generator(31)
INTEGERS = [np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.uint4, ml_dtypes.int4]
SMALL_FLOATS = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def limits(dtype: Any) -> tuple[int, int]:
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def quantized(x: np.ndarray, scale: Any, zero: Any, dtype: Any) -> np.ndarray:
    """The specification's formula, in float64."""
    ratio = (x.astype(np.float32) / np.asarray(scale).astype(np.float32)).astype(np.float64)
    return np.clip(np.rint(ratio) + np.asarray(zero).astype(np.float64), *limits(dtype)).astype(dtype)


def dequantized(x: np.ndarray, scale: Any, zero: Any) -> np.ndarray:
    return (x.astype(np.float64) - np.asarray(zero).astype(np.float64)) * np.asarray(scale).astype(np.float64)


def model_of(op: str, opset: int, x: Any, scale: Any, zero: Any | None, given: bool = False, **attributes: Any) -> Any:
    more = {"scale": scale} if zero is None else {"scale": scale, "zero": zero}
    feeds = {"x": x, **more} if given else {"x": x}
    model = node_model(op, feeds, opset=opset, attributes=attributes, constants=None if given else more)
    return model, feeds


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 25])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("zero", [None, 0, 100])
@pytest.mark.parametrize("given", [False, True])
def test_quantize(opset: int, dtype: Any, zero: int | None, given: bool) -> None:
    if zero is None and dtype is np.int8:
        dtype = np.uint8
    x = np.concatenate([np.arange(-300, 301) + 0.5, [1e9, -1e9, 0.25]]).astype(np.float32) / 4
    scale = np.float32(0.25)
    model, feeds = model_of("QuantizeLinear", opset, x, scale, None if zero is None else dtype(zero), given)
    check_node(model, feeds, [quantized(x, scale, zero or 0, dtype)])


def test_quantize_rounds_middles_to_even_whatever_the_scale() -> None:
    for scale in (0.1, 0.3, 7.0, 1 / 3):
        x = ((np.arange(-20, 20) + 0.5) * np.float32(scale)).astype(np.float32)
        model, feeds = model_of("QuantizeLinear", 13, x, np.float32(scale), np.uint8(128))
        check_node(model, feeds, engines=["numpy"])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_quantize_per_axis(axis: int, dynamic: bool) -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    count = x.shape[axis]
    constants = {
        "scale": np.linspace(0.01, 0.03, count).astype(np.float32),
        "zero": np.arange(count).astype(np.uint8) + 100,
    }
    shapes = {"x": [None, None, None]} if dynamic else None
    model = node_model(
        "QuantizeLinear", {"x": x}, opset=13, attributes={"axis": axis}, constants=constants, shapes=shapes
    )
    check_node(model, {"x": x})


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("source", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32], ids=str)
def test_quantize_to_every_integer(dtype: Any, source: Any) -> None:
    x = np.array([-70000, -300, -8, -7, -1, 0, 1, 2, 3, 7, 15, 16, 127, 255, 256, 65000], np.float64).astype(source)
    scale = np.asarray(2, source)
    zero = np.asarray(3, dtype)
    model, feeds = model_of("QuantizeLinear", 21, x, scale, zero)
    check_node(model, feeds, [quantized(x, scale, zero, dtype)])


@pytest.mark.parametrize("dtype", SMALL_FLOATS, ids=str)
@pytest.mark.parametrize("saturate", [0, 1])
def test_quantize_to_floats_of_8_bits(dtype: Any, saturate: int) -> None:
    x = np.array([0.0, -1.0, 0.3, 17.0, 500.0, 1e6, -1e6, 448.0], np.float32)
    zero = np.zeros((), dtype)
    ratio = x / np.float32(2)
    if saturate:
        greatest = float(ml_dtypes.finfo(dtype).max)
        ratio = np.clip(ratio, -greatest, greatest)
    model, feeds = model_of("QuantizeLinear", 19, x, np.float32(2), zero, saturate=saturate)
    check_node(model, feeds, [ratio.astype(dtype)], engines=["numpy"] if not saturate else ENGINES)


def test_quantize_to_the_type_that_an_attribute_names() -> None:
    x = np.array([-3.0, 0.5, 200.0], np.float32)
    model, feeds = model_of("QuantizeLinear", 21, x, np.float32(1), None, output_dtype=3)
    check_node(model, feeds, [quantized(x, 1, 0, np.int8)])


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 25])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
@pytest.mark.parametrize("zero", [None, 0, 100])
@pytest.mark.parametrize("given", [False, True])
def test_dequantize(opset: int, dtype: Any, zero: int | None, given: bool) -> None:
    x = RNG.integers(0, 100, (3, 4)).astype(dtype)
    if dtype is np.int32:
        zero = None if zero is None else 0
    model, feeds = model_of("DequantizeLinear", opset, x, np.float32(0.3), None if zero is None else dtype(zero), given)
    check_node(model, feeds)


@pytest.mark.parametrize("dtype", [*INTEGERS, *SMALL_FLOATS], ids=str)
@pytest.mark.parametrize("target", [np.float32, np.float16, ml_dtypes.bfloat16], ids=str)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_dequantize_weights_of_every_type(dtype: Any, target: Any, axis: int | None) -> None:
    integral = dtype not in SMALL_FLOATS
    low, high = limits(dtype) if integral else (-8, 8)
    weights = RNG.integers(max(low, -1000), min(high, 1000), (4, 6), endpoint=True).astype(dtype)
    count = () if axis is None else (weights.shape[axis],)
    scale = np.full(count, 0.25, target)
    zero = np.full(count, 1 if integral else 0).astype(dtype)
    column = (slice(None), None) if axis == 0 else ...
    expected = dequantized(weights, scale[column], zero[column]).astype(target)
    attributes = {} if axis is None else {"axis": axis}
    model = node_model(
        "DequantizeLinear",
        {},
        opset=21,
        attributes=attributes,
        constants={"w": weights, "scale": scale, "zero": zero},
    )
    check_node(model, {}, [expected])


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
@pytest.mark.parametrize(("axis", "block"), [(0, 2), (1, 3), (1, 4), (-1, 5)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_blocks(op: str, axis: int, block: int, dynamic: bool) -> None:
    shape = (4, 6, 10)
    blocks = list(shape)
    blocks[axis] = -(-shape[axis] // block)
    scale = (0.5 + RNG.integers(1, 4, blocks)).astype(np.float32)
    zero = RNG.integers(0, 5, blocks).astype(np.uint8)
    index = np.arange(shape[axis]) // block
    wide_scale, wide_zero = np.take(scale, index, axis), np.take(zero, index, axis)
    if op == "QuantizeLinear":
        x = (20 * RNG.standard_normal(shape)).astype(np.float32)
        expected = quantized(x, wide_scale, wide_zero, np.uint8)
    else:
        x = RNG.integers(0, 255, shape).astype(np.uint8)
        expected = dequantized(x, wide_scale, wide_zero).astype(np.float32)
    model = node_model(
        op,
        {"x": x},
        opset=21,
        attributes={"axis": axis, "block_size": block},
        constants={"scale": scale, "zero": zero},
        shapes={"x": [None, None, None]} if dynamic else None,
    )
    check_node(model, {"x": x}, [expected])


def test_quantized_weights_stay_quantised() -> None:
    weights = RNG.integers(-128, 127, (512, 512)).astype(np.int8)
    constants = {"w": weights, "scale": np.linspace(0.1, 0.2, 512).astype(np.float32)}
    model = node_model("DequantizeLinear", {}, opset=13, attributes={"axis": 0}, constants=constants)
    _, data = converted(model)
    assert weights.nbytes <= len(data) < 1.1 * weights.nbytes


@pytest.mark.parametrize(
    "x",
    [
        [0.0, 2.0, -3.0, -2.4, 1.34, 0.5],
        [1.0, 2.1, 1.3, 2.5, 3.34, 4.0],
        [-1.0, -2.1, -1.3, -2.5, -3.34, -4.0],
        [0.0, 0.0, 0.0],
        [[1.0, 2.1, 1.3], [2.5, 3.34, 4.0]],
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_dynamic_quantize(x: list[Any], dynamic: bool) -> None:
    data = np.array(x, np.float32)
    shapes = {"x": [None] * data.ndim} if dynamic else None
    model = node_model("DynamicQuantizeLinear", {"x": data}, opset=11, outputs=3, shapes=shapes)
    check_node(model, {"x": data})


@pytest.mark.parametrize("w_type", [np.uint8, np.int8])
@pytest.mark.parametrize("per_filter", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 1, 1, 1], "strides": [2, 2]}, {"group": 2}])
def test_qlinear_conv(w_type: Any, per_filter: bool, biased: bool, attributes: dict[str, Any]) -> None:
    group = attributes.get("group", 1)
    x = RNG.integers(0, 255, (1, 4, 7, 8)).astype(np.uint8)
    low, high = limits(w_type)
    w = RNG.integers(low, high, (6, 4 // group, 3, 3)).astype(w_type)
    count = (6,) if per_filter else ()
    zero = np.full(count, 0 if per_filter or w_type is np.int8 else 120, w_type)
    constants = {
        "xs": np.float32(0.02),
        "xz": np.uint8(110),
        "w": w,
        "ws": np.full(count, 0.013, np.float32)
        * np.linspace(1, 2, 6 if per_filter else 1).astype(np.float32).reshape(count),
        "wz": zero,
        "ys": np.float32(0.21),
        "yz": np.uint8(130),
    }
    if biased:
        constants["b"] = RNG.integers(-5000, 5000, 6).astype(np.int32)
    model = node_model("QLinearConv", {"x": x}, opset=10, attributes=attributes, constants=constants)
    check_node(model, {"x": x})


@pytest.mark.parametrize("opset", [10, 21])
@pytest.mark.parametrize("per_column", [False, True])
def test_qlinear_matmul(opset: int, per_column: bool) -> None:
    a = RNG.integers(0, 255, (2, 3, 20)).astype(np.uint8)
    b = RNG.integers(-128, 127, (20, 4)).astype(np.int8)
    count = (4,) if per_column else ()
    constants = {
        "as": np.float32(0.02),
        "az": np.uint8(110),
        "b": b,
        "bs": np.linspace(0.01, 0.02, 4).astype(np.float32) if per_column else np.float32(0.013),
        "bz": np.zeros(count, np.int8),
        "ys": np.float32(0.21),
        "yz": np.uint8(130),
    }
    check_node(node_model("QLinearMatMul", {"a": a}, opset=opset, constants=constants), {"a": a})


def test_qlinear_matmul_with_a_zero_point_a_row() -> None:
    a, b = RNG.integers(0, 255, (3, 8)).astype(np.uint8), RNG.integers(0, 255, (8, 2)).astype(np.uint8)
    constants = {
        "as": np.array([0.5, 0.25, 0.125], np.float32),
        "az": np.array([100, 3, 200], np.uint8),
        "b": b,
        "bs": np.float32(0.5),
        "bz": np.uint8(128),
        "ys": np.float32(64),
        "yz": np.uint8(128),
    }
    left = (a.astype(np.int64) - constants["az"][:, None]) * constants["as"][:, None]
    product = left @ ((b.astype(np.int64) - 128) * 0.5)
    expected = quantized(product, 64, 128, np.uint8)
    check_node(node_model("QLinearMatMul", {"a": a}, opset=10, constants=constants), {"a": a}, [expected])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": np.ones(5, np.float32), "zero": np.zeros(5, np.uint8)}, "5 scales or zero points"),
        ({"scale": np.ones((2, 2), np.float32), "zero": None}, "must be a number or a list"),
        ({"scale": np.float32(1), "zero": np.uint8(0), "output_dtype": 3}, "output_dtype is i8"),
        ({"scale": np.ones((2, 2), np.float32), "zero": None, "block_size": 3}, "have 1 blocks of 3"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    x = np.zeros((2, 3), np.float32)
    model, _ = model_of("QuantizeLinear", 21, x, options.pop("scale"), options.pop("zero"), **options)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)
