"""ONNX's element-wise operators through both engines, against onnxruntime or NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import converter
from tests.engines import (
    ENGINES,
    assert_close,
    check_node,
    converted,
    node_model,
    run_numpy,
    run_onnxruntime,
    schema_types,
)

FLOATS = np.array([[-2.5, -1.0, -0.0], [0.25, 1.0, 3.75]], np.float32)
UNIT = np.array([-0.9, -0.5, 0.0, 0.3, 1.0], np.float32)
ABOVE_ONE = np.array([1.0, 1.5, 7.0], np.float32)
POSITIVE = np.array([0.01, 0.5, 1.0, 20.0], np.float32)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

LARGE = np.array([2**31 - 1, -(2**31), 2**24 + 1, 2**24, -(2**24) - 1, 123456789, -7, 0], np.int32)
"""Numbers that float32 cannot tell from their neighbours, and a few small ones."""


def truth(function: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """The function of each element, by Python's floats."""
    return np.array([function(float(value)) for value in x.reshape(-1)]).reshape(x.shape).astype(x.dtype)


@pytest.mark.parametrize(
    ("op_type", "opsets", "x", "function"),
    [
        ("Neg", (6, 13), FLOATS, lambda v: -v),
        ("Abs", (6, 13), FLOATS, abs),
        ("Sign", (9, 13), FLOATS, lambda v: (v > 0) - (v < 0)),
        ("Ceil", (6, 13), FLOATS, math.ceil),
        ("Floor", (6, 13), FLOATS, math.floor),
        ("Round", (11, 22), np.array([-2.5, -1.5, -0.4, 0.5, 1.5, 2.6], np.float32), round),
        ("Sqrt", (6, 13), POSITIVE, math.sqrt),
        ("Reciprocal", (6, 13), POSITIVE, lambda v: 1 / v),
        ("Exp", (6, 13), FLOATS, math.exp),
        ("Log", (6, 13), POSITIVE, math.log),
        ("Tanh", (6, 13), FLOATS, math.tanh),
        ("Erf", (9, 13), FLOATS, math.erf),
        ("Sin", (7, 22), FLOATS, math.sin),
        ("Cos", (7, 22), FLOATS, math.cos),
        ("Tan", (7, 22), UNIT, math.tan),
        ("Asin", (7, 22), UNIT, math.asin),
        ("Acos", (7, 22), UNIT, math.acos),
        ("Atan", (7, 22), FLOATS, math.atan),
        ("Sinh", (9, 22), FLOATS, math.sinh),
        ("Cosh", (9, 22), FLOATS, math.cosh),
        ("Asinh", (9, 22), FLOATS, math.asinh),
        ("Acosh", (9, 22), ABOVE_ONE, math.acosh),
        ("Atanh", (9, 22), UNIT[:-1], math.atanh),
    ],
)
def test_unary_of_every_float_type(
    op_type: str, opsets: tuple[int, ...], x: np.ndarray, function: Callable[..., Any]
) -> None:
    for opset in opsets:
        for dtype in schema_types(op_type, opset):
            if dtype.kind in "iu":
                continue
            value = x.astype(dtype)
            model = node_model(op_type, {"x": value}, opset=opset, shapes={"x": ["n", None][: x.ndim]})
            check_node(model, {"x": value}, [truth(function, value)])


@pytest.mark.parametrize("op_type", ["Neg", "Abs", "Ceil", "Floor", "Sqrt", "Reciprocal", "Exp", "Log", "Tanh"])
def test_unary_in_place_of_opset_1(op_type: str) -> None:
    model = node_model(op_type, {"x": POSITIVE}, opset=1, attributes={"consumed_inputs": [0]})
    newer = node_model(op_type, {"x": POSITIVE}, opset=13)
    check_node(model, {"x": POSITIVE}, run_onnxruntime(newer, {"x": POSITIVE}))


@pytest.mark.parametrize(("op_type", "function"), [("Abs", np.abs), ("Sign", np.sign), ("Neg", np.negative)])
def test_unary_of_integers(op_type: str, function: np.ufunc) -> None:
    for dtype in schema_types(op_type, 13):
        if dtype.kind not in "iu":
            continue
        info = np.iinfo(dtype)
        limit = min(int(info.max), 2**31 - 1)
        x = np.array([0, 1, 100, limit, max(int(info.min), -limit)], dtype)
        check_node(node_model(op_type, {"x": x}, opset=13), {"x": x}, [function(x)])


def test_uint32_beyond_int32() -> None:
    x = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    y = x[::-1].copy()
    check_node(node_model("Abs", {"x": x}, opset=13), {"x": x}, [x])
    check_node(node_model("Sign", {"x": x}, opset=13), {"x": x}, [np.sign(x)])
    for op_type, function in [
        ("Max", np.maximum), ("Min", np.minimum), ("Less", np.less), ("LessOrEqual", np.less_equal),
        ("Greater", np.greater), ("GreaterOrEqual", np.greater_equal), ("Equal", np.equal),
    ]:  # fmt: skip
        check_node(node_model(op_type, {"x": x, "y": y}, opset=16), {"x": x, "y": y}, [function(x, y)])
    few = np.array([5, 2**31], np.uint32).reshape(2, 1)
    model = node_model("Less", {"x": x}, opset=16, constants={"c": few})
    check_node(model, {"x": x}, [x < few])


ARITHMETIC = [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)]


@pytest.mark.parametrize("opset", [7, 13, 14])
@pytest.mark.parametrize(("op_type", "function"), ARITHMETIC)
def test_arithmetic_of_every_type(op_type: str, function: np.ufunc, opset: int) -> None:
    for dtype in schema_types(op_type, opset):
        a = np.array([[3, 100, 7], [250, 1, 99]]).astype(dtype)
        b = np.array([2, 101, 9]).astype(dtype)
        expected = function(a, b).astype(dtype)
        if dtype == np.uint64 and op_type == "Sub":
            continue  # its negative results wrap at 2^32 in OpenVINO, which has 32 bits for them
        model = node_model(op_type, {"a": a, "b": b}, opset=opset, shapes={"a": ["n", None], "b": ["m"]})
        check_node(model, {"a": a, "b": b}, [expected])


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize(
    ("b_shape", "attributes", "placed"),
    [
        ((2, 3, 4, 5), {}, (2, 3, 4, 5)),
        ((), {"broadcast": 1}, ()),
        ((1, 1), {"broadcast": 1}, ()),
        ((5,), {"broadcast": 1}, (5,)),
        ((4, 5), {"broadcast": 1}, (4, 5)),
        ((3, 4), {"broadcast": 1, "axis": 1}, (3, 4, 1)),
        ((2,), {"broadcast": 1, "axis": 0}, (2, 1, 1, 1)),
        ((3,), {"broadcast": 1, "axis": -3}, (3, 1, 1)),
    ],
)
def test_limited_broadcast(
    opset: int, b_shape: tuple[int, ...], attributes: dict[str, Any], placed: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 3, 4, 5), np.float32) + 1, rng.random(b_shape, np.float32) + 1
    rows = [*ARITHMETIC, ("Div", np.divide)]
    for op_type, function in rows if opset == 1 else rows[:1]:
        extra = {"consumed_inputs": [0, 0]} if opset == 1 else {}
        model = node_model(op_type, {"a": a, "b": b}, opset=opset, attributes={**attributes, **extra})
        check_node(model, {"a": a, "b": b}, [function(a, b.reshape(placed))])


@pytest.mark.parametrize(
    ("op_type", "function", "dtype"),
    [
        ("Pow", np.power, np.float32),
        ("Less", np.less, np.float32),
        ("Greater", np.greater, np.float32),
        ("Equal", np.equal, np.int32),
        ("And", np.logical_and, np.bool_),
        ("Or", np.logical_or, np.bool_),
        ("Xor", np.logical_xor, np.bool_),
    ],
)
def test_limited_broadcast_beyond_arithmetic(op_type: str, function: np.ufunc, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 3, (2, 3, 4)).astype(dtype), rng.integers(0, 3, (3,)).astype(dtype)
    model = node_model(op_type, {"a": a, "b": b}, opset=1, attributes={"broadcast": 1, "axis": 1})
    check_node(model, {"a": a, "b": b}, [function(a, b.reshape(3, 1))])


@pytest.mark.parametrize(
    ("op_type", "opset", "shapes", "attributes", "reason"),
    [
        ("Add", 6, [(2, 3), (3,)], {}, "without 'broadcast'"),
        ("Sum", 6, [(2, 3), (3,)], {}, "without 'broadcast'"),
        ("Add", 6, [(2, 3), (3,)], {"broadcast": 1, "axis": 2}, "axis 2 does not place"),
        ("Add", 6, [(2, 3), (3,)], {"broadcast": 1, "axis": 0}, "does not fit into the first"),
        ("Add", 13, [(2, 3), (2,)], {}, "cannot be broadcast"),
    ],
)
def test_broadcast_errors(
    op_type: str, opset: int, shapes: list[tuple[int, ...]], attributes: dict[str, Any], reason: str
) -> None:
    feeds = {name: np.ones(shape, np.float32) for name, shape in zip("ab", shapes)}
    model = node_model(op_type, feeds, opset=opset, attributes=attributes)
    with pytest.raises(converter.ConversionError, match=reason):
        converter.convert_model(model)


# --- division, remainders and powers of integers ---


def c_divide(a: Any, b: Any) -> Any:
    """Rounded towards zero, by Python's integers."""
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return (quotient * np.sign(a.astype(np.int64)) * np.sign(b.astype(np.int64))).astype(a.dtype)


def division_pairs(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    info = np.iinfo(dtype)
    high = min(int(info.max), 2**31 - 1)
    low = 0 if info.min == 0 else -high
    a = rng.integers(low, high, 400, endpoint=True)
    b = rng.integers(low, high, 400, endpoint=True)
    for start, most in ((100, 1000), (200, 7), (300, 70000)):
        b[start : start + 100] = rng.integers(1, min(most, high), 100)
    b[b == 0] = 3
    # Neighbours of multiples, where rounding in float32 shows.
    factor = rng.integers(1, 9, 50)
    a[:50] = np.clip(b[:50] // 9 * factor, low, high) + rng.integers(0, 2, 50)
    b[:50] = b[:50] // 9 | 1
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_division_of_integers(dtype: str) -> None:
    a, b = division_pairs(dtype)
    feeds = {"a": a, "b": b}
    quotient = c_divide(a, b)
    check_node(node_model("Div", feeds, opset=14), feeds, [quotient])
    check_node(node_model("Mod", feeds, opset=13), feeds, [np.mod(a, b)])
    check_node(node_model("Mod", feeds, opset=13, attributes={"fmod": 1}), feeds, [np.fmod(a, b)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_division_of_small_integers(dtype: str) -> None:
    # With dimensions known at run time the plug-in takes other kernels.
    a, b = division_pairs(dtype)
    values = np.unique(a)
    quotient = c_divide(a, b)
    check_node(
        node_model("Div", {"a": a, "b": b}, opset=14, shapes={"a": ["n"], "b": ["n"]}), {"a": a, "b": b}, [quotient]
    )
    for divisor in (1, 2, 3, 5, 7, 127):
        by = np.array(divisor, dtype)
        for shapes in (None, {"a": ["n"]}):
            model = node_model("Div", {"a": values}, opset=14, constants={"b": by}, shapes=shapes)
            check_node(model, {"a": values}, [c_divide(values, by)])


@pytest.mark.parametrize("divisor", [1, 2, 3, 8, -5, 1 << 20])
def test_division_by_a_constant(divisor: int) -> None:
    a = np.concatenate([LARGE[2:], [2**31 - 2, -(2**31) + 1]]).astype(np.int64)
    b = np.array(divisor, np.int64)
    for op_type, function in (("Div", c_divide), ("Mod", np.mod)):
        model = node_model(op_type, {"a": a}, opset=13, constants={"b": b}, shapes={"a": [None]})
        check_node(model, {"a": a}, [function(a, b)])


@pytest.mark.parametrize("opset", [12, 13, 15])
@pytest.mark.parametrize(
    ("base", "exponent"),
    [
        (np.array([1.5, 2.0, 3.0], np.float32), np.array([2, 0, 3], np.int64)),
        (np.array([1.5, 2.0, 3.0], np.float32), np.array([2, 0.5, 3], np.float64)),
        (np.array([-7, 2, 0, 1], np.int32), np.array([9, 30, 0, 5], np.int32)),
        (np.array([7, 2, 10, 1], np.int64), np.array([9, 30, 0, 5], np.int32)),
        (np.array([7, 4, 10, 1], np.int32), np.array([2, 0.5, 0, 5], np.float32)),
        (np.array([-7, 2, 0, 1], np.int32), np.array([9, 30, 0, 5], np.uint8)),
    ],
)
def test_power(opset: int, base: np.ndarray, exponent: np.ndarray) -> None:
    expected = np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(base.dtype)
    feeds = {"x": base, "y": exponent}
    check_node(node_model("Pow", feeds, opset=opset), feeds, [expected])


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 9])
def test_integer_to_a_constant_power(exponent: int) -> None:
    x = np.array([[-7, 2, 0], [1, 10, 3]], np.int64)
    for shape in ((), (1,), (1, 1, 1)):
        constant = np.full(shape, exponent, np.int64)
        check_node(node_model("Pow", {"x": x}, opset=13, constants={"y": constant}), {"x": x}, [x**constant])


def test_integer_to_a_negative_power_rounds_to_zero() -> None:
    x, y = np.array([1, -1, -1, 2, -3], np.int32), np.array([-3, -3, -2, -1, -2], np.int32)
    feeds = {"x": x, "y": y}
    check_node(node_model("Pow", feeds, opset=13), feeds, [np.array([1, -1, 1, 0, 0], np.int32)])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_remainder_of_floats(dtype: Any) -> None:
    a = np.array([-4.25, 7.5, 5.0, -4.5, 3.0], dtype)
    b = np.array([2.0, -3.0, 8.0, 1.5, np.inf], dtype)
    if dtype == np.float64:
        a, b = a[:4], b[:4]  # OpenVINO reads an infinite float64 as the greatest float32
    feeds = {"a": a, "b": b}
    check_node(node_model("Mod", feeds, opset=13, attributes={"fmod": 1}), feeds, [np.fmod(a, b)])
    for opset in (13, 28):  # Before 28 it breaks the schema.
        check_node(node_model("Mod", feeds, opset=opset), feeds, [np.mod(a, b)])


# --- any number of inputs ---


@pytest.mark.parametrize("opset", [1, 6, 8, 13])
@pytest.mark.parametrize("op_type", ["Sum", "Mean", "Max", "Min"])
def test_any_number_of_inputs(op_type: str, opset: int) -> None:
    rng = np.random.default_rng(3)
    functions: dict[str, Callable[[list[np.ndarray]], np.ndarray]] = {
        "Sum": lambda v: v[0] + v[1] + v[2],
        "Mean": lambda v: (v[0] + v[1] + v[2]) / np.float32(3),
        "Max": lambda v: np.maximum(np.maximum(v[0], v[1]), v[2]),
        "Min": lambda v: np.minimum(np.minimum(v[0], v[1]), v[2]),
    }
    shapes = [(2, 3), (3,), (2, 1)] if opset >= 8 else [(2, 3)] * 3
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    feeds = dict(zip("abc", values))
    attributes = {"consumed_inputs": [0]} if opset == 1 else {}
    check_node(node_model(op_type, feeds, opset=opset, attributes=attributes), feeds, [functions[op_type](values)])
    single = {"a": values[0]}
    check_node(node_model(op_type, single, opset=opset), single, [values[0]])


@pytest.mark.parametrize("opset", [12, 13])
@pytest.mark.parametrize(("op_type", "function"), [("Max", np.maximum), ("Min", np.minimum)])
def test_extremes_of_every_type(op_type: str, function: np.ufunc, opset: int) -> None:
    for dtype in schema_types(op_type, opset):
        a, b = np.array([1, 100, 7], dtype), np.array([[2], [50]], dtype)
        feeds = {"a": a, "b": b}
        check_node(node_model(op_type, feeds, opset=opset), feeds, [function(a, b)])


# --- comparison and logic ---

COMPARISONS = [
    ("Equal", np.equal, 13),
    ("Less", np.less, 13),
    ("LessOrEqual", np.less_equal, 12),
    ("LessOrEqual", np.less_equal, 16),
    ("Greater", np.greater, 13),
    ("GreaterOrEqual", np.greater_equal, 12),
    ("GreaterOrEqual", np.greater_equal, 16),
]


@pytest.mark.parametrize(("op_type", "function", "opset"), COMPARISONS)
def test_comparison_of_every_type(op_type: str, function: np.ufunc, opset: int) -> None:
    for dtype in schema_types(op_type, opset):
        a, b = np.array([0, 1, 2, 2]).astype(dtype), np.array([[1], [2]]).astype(dtype)
        feeds = {"a": a, "b": b}
        model = node_model(op_type, feeds, opset=opset, shapes={"a": ["n"], "b": [None, 1]})
        check_node(model, feeds, [function(a, b)])


@pytest.mark.parametrize(("op_type", "function", "opset"), COMPARISONS)
def test_comparison_of_large_integers(op_type: str, function: np.ufunc, opset: int) -> None:
    for dtype in (np.int32, np.int64):
        a = LARGE.astype(dtype)
        b = (LARGE + np.array([0, 0, -1, 1, 1, 0, 1, 1])).astype(dtype)
        feeds = {"a": a, "b": b.reshape(-1, 1)}
        check_node(node_model(op_type, feeds, opset=opset), feeds, [function(a, b.reshape(-1, 1))])
        model = node_model(op_type, {"a": a}, opset=opset, constants={"b": b.reshape(-1, 1)})
        check_node(model, {"a": a}, [function(a, b.reshape(-1, 1))])


@pytest.mark.parametrize(("op_type", "function", "opset"), COMPARISONS)
def test_comparison_with_nan(op_type: str, function: np.ufunc, opset: int) -> None:
    a, b = np.array([np.nan, 1, np.inf, -np.inf], np.float32), np.array([np.nan, np.nan, np.inf, 0], np.float32)
    check_node(node_model(op_type, {"a": a, "b": b}, opset=opset), {"a": a, "b": b}, [function(a, b)])


@pytest.mark.parametrize("opset", [7, 9])
@pytest.mark.parametrize(("op_type", "function"), [("Less", np.less), ("Greater", np.greater), ("Equal", np.equal)])
def test_comparison_of_earlier_opsets(op_type: str, function: np.ufunc, opset: int) -> None:
    dtype = np.int64 if op_type == "Equal" else np.float32
    feeds = {"a": np.array([1, 2, 3], dtype), "b": np.array([[2]], dtype)}
    check_node(node_model(op_type, feeds, opset=opset), feeds)


def test_equality_of_strings() -> None:
    """In NumPy alone: OpenVINO's CPU plug-in compares no strings, for which the model is refused."""
    a, b = np.array(["ä", "b"], object), np.array([["b"], ["ä"]], object)
    feeds = {"a": a, "b": b}
    model = node_model("Equal", feeds, opset=19)
    assert_close(run_numpy(converted(model, "any"), feeds)[0], a == b)
    with pytest.raises(converter.UnsupportedModelError, match=r"plug-in does not compare strings.*Equal"):
        converter.convert_model(model)


@pytest.mark.parametrize(
    ("op_type", "function"), [("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)]
)
def test_logic(op_type: str, function: np.ufunc) -> None:
    feeds = {"a": np.array([True, False]), "b": np.array([[True], [False]])}
    check_node(node_model(op_type, feeds, opset=7), feeds, [function(*feeds.values())])


def test_negation() -> None:
    x = np.array([True, False])
    check_node(node_model("Not", {"x": x}, opset=1), {"x": x}, [~x])


@pytest.mark.parametrize("opset", [9, 16])
def test_where(opset: int) -> None:
    condition = np.array([[True], [False]])
    for dtype in schema_types("Where", opset):
        x, y = np.array([1, 2, 1], dtype), np.array(0, dtype)
        feeds = {"c": condition, "x": x, "y": y}
        model = node_model("Where", feeds, opset=opset, shapes={"c": ["n", 1], "x": [None]})
        check_node(model, feeds, [np.where(condition, x, y)])
    feeds = {"c": condition[:, 0], "x": LARGE[:2].astype(np.int64), "y": LARGE[2:4].astype(np.int64)}
    check_node(node_model("Where", feeds, opset=opset), feeds)


@pytest.mark.parametrize(("op_type", "function"), [("Less", np.less), ("Equal", np.equal)])
def test_where_behind_a_comparison_moves_large_integers_exactly(op_type: str, function: np.ufunc) -> None:
    a, b = np.array([1, 2, 3], np.int64), np.array([3, 2, 1], np.int64)
    x, y = np.array([2**31 - 1, 2**24 + 1, -(2**31) + 1], np.int64), np.array([2**30 + 1, 7, 2**28 + 3], np.int64)
    feeds = {"a": a, "b": b, "x": x, "y": y}
    nodes = [helper.make_node(op_type, ["a", "b"], ["c"]), helper.make_node("Where", ["c", "x", "y"], ["z"])]
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [3]) for name in feeds]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="z")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=10)
    check_node(model, feeds, [np.where(function(a, b), x, y)])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, BFLOAT16])
def test_not_a_number(dtype: Any) -> None:
    x = np.array([1, np.nan, -np.inf, np.inf]).astype(dtype)
    check_node(node_model("IsNaN", {"x": x}, opset=20), {"x": x}, [np.array([False, True, False, False])])


@pytest.mark.parametrize(("negative", "positive"), [(1, 1), (1, 0), (0, 1), (0, 0)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, BFLOAT16])
def test_infinite(dtype: Any, negative: int, positive: int) -> None:
    x = np.array([1, np.nan, -np.inf, np.inf]).astype(dtype)
    model = node_model(
        "IsInf", {"x": x}, opset=20, attributes={"detect_negative": negative, "detect_positive": positive}
    )
    expected = np.array([False, False, bool(negative), bool(positive)])
    # OpenVINO's CPU plug-in reads an infinite float64 as the greatest float32.
    check_node(model, {"x": x}, [expected], engines=ENGINES if dtype != np.float64 else ["numpy"])


# --- bits ---


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shift(dtype: str, direction: str) -> None:
    info = np.iinfo(dtype)
    bits = min(info.bits, 32)
    top = int(info.max) if info.bits < 64 else 2**31 - 1
    x = np.array([top, 1, 77, top // 3, min(-1, info.min) if info.min else top], np.int64).astype(dtype)
    if info.bits == 64:
        x[4] = 12345
    y = np.array([0, 1, bits // 2, bits - 2, 1], dtype)
    opset = 11 if dtype.startswith("u") else 28
    wide = [int(v) << int(k) if direction == "LEFT" else int(v) >> int(k) for v, k in zip(x, y)]
    if info.bits == 64:
        # OpenVINO computes in 32 bits: compare what fits.
        kept = [-(2**31) <= v < 2**31 for v in wide]
        x, y, wide = x[kept], y[kept], [v for v, keep in zip(wide, kept) if keep]
    expected = np.array([v & ((1 << info.bits) - 1) for v in wide], np.uint64).astype(dtype)
    model = node_model("BitShift", {"x": x, "y": y}, opset=opset, attributes={"direction": direction})
    check_node(model, {"x": x, "y": y}, [expected])
    known = node_model("BitShift", {"x": x}, opset=opset, attributes={"direction": direction}, constants={"y": y})
    check_node(known, {"x": x}, [expected])


def test_shift_beyond_the_width() -> None:
    x, y = np.array([5, -5, 5, -5], np.int32), np.array([32, 100, -1, -3], np.int32)
    feeds = {"x": x, "y": y}
    right = node_model("BitShift", feeds, opset=28, attributes={"direction": "RIGHT"})
    check_node(right, feeds, [np.array([0, -1, 0, -1], np.int32)])
    left = node_model("BitShift", feeds, opset=28, attributes={"direction": "LEFT"})
    check_node(left, feeds, [np.zeros(4, np.int32)])
    with pytest.raises(converter.ConversionError, match="LEFT or RIGHT"):
        converter.convert_model(node_model("BitShift", feeds, opset=28, attributes={"direction": "UP"}))


@pytest.mark.parametrize(
    ("op_type", "function"),
    [("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)],
)
def test_bitwise(op_type: str, function: np.ufunc) -> None:
    for dtype in schema_types(op_type, 18):
        feeds = {"a": np.array([12, 7, 100], dtype), "b": np.array([[10], [3]], dtype)}
        check_node(node_model(op_type, feeds, opset=18), feeds, [function(*feeds.values())])


def test_bitwise_negation() -> None:
    for dtype in schema_types("BitwiseNot", 18):
        x = np.array([12, 7, 100], dtype)
        # OpenVINO has 32 bits for a uint64.
        engines = ["numpy"] if dtype == np.uint64 else ENGINES
        check_node(node_model("BitwiseNot", {"x": x}, opset=18), {"x": x}, [~x], engines=engines)


# --- Clip ---


@pytest.mark.parametrize(
    ("opset", "attributes", "expected"),
    [
        (1, {}, FLOATS),
        (1, {"min": -1.0}, np.maximum(FLOATS, -1)),
        (1, {"max": 0.5}, np.minimum(FLOATS, np.float32(0.5))),
        (1, {"min": 0.0, "max": 1.0, "consumed_inputs": [0]}, np.clip(FLOATS, 0, 1)),
        (6, {}, FLOATS),
        (6, {"min": 0.0, "max": 6.0}, np.clip(FLOATS, 0, 6)),
        (6, {"min": 2.0, "max": 1.0}, np.full_like(FLOATS, 1)),
    ],
)
def test_clip_by_attributes(opset: int, attributes: dict[str, Any], expected: np.ndarray) -> None:
    check_node(node_model("Clip", {"x": FLOATS}, opset=opset, attributes=attributes), {"x": FLOATS}, [expected])


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize(("low", "high"), [(1, 3), (1, None), (None, 3), (None, None), (3, 1)])
def test_clip_of_every_type(opset: int, low: int | None, high: int | None) -> None:
    for dtype in schema_types("Clip", opset):
        x = np.array([[0, 1, 2], [3, 4, 100]]).astype(dtype)
        expected = x if low is None else np.maximum(x, np.array(low, dtype))
        expected = expected if high is None else np.minimum(expected, np.array(high, dtype))
        bounds = {n: np.array(v, dtype) for n, v in (("low", low), ("high", high)) if v is not None}
        order = ["x", "low" if low is not None else "", "high" if high is not None else ""]
        known = node_model("Clip", {"x": x}, opset=opset, constants=bounds, order=order, shapes={"x": [None, "n"]})
        check_node(known, {"x": x}, [expected])
        given = node_model("Clip", {"x": x, **bounds}, opset=opset, order=order)
        check_node(given, {"x": x, **bounds}, [expected])


def test_clip_with_bounds_of_one_element() -> None:
    x = np.array(5.0, np.float32)
    feeds = {"x": x, "low": np.array([0.0], np.float32), "high": np.array([2.0], np.float32)}
    check_node(node_model("Clip", feeds, opset=13), feeds, [np.array(2.0, np.float32)])
    with pytest.raises(converter.ConversionError, match="must be a scalar"):
        converter.convert_model(node_model("Clip", {"x": x, "low": np.ones(2, np.float32)}, opset=13))


def test_clip_limits_infinity_to_the_type() -> None:
    x = np.array([np.inf, -np.inf, 1], np.float32)
    check_node(node_model("Clip", {"x": x}, opset=13), {"x": x})


def test_unknown_rank() -> None:
    """In NumPy alone: OpenVINO's CPU plug-in needs the ranks of outputs."""
    a, b = np.ones((2, 1), np.float32), np.ones(3, np.float32)
    model = node_model("Add", {"a": a, "b": b}, opset=13, shapes={"a": None, "b": None})
    check_node(model, {"a": a, "b": b}, engines=["numpy"])
