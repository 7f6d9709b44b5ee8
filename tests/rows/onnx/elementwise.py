"""ONNX's element-wise operators, against Python's floats, NumPy and onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.engines import schema_types
from tests.rows.row import InOpset, Row, const, each, graphs, rows

FLOATS = np.array([[-2.5, -1.0, -0.0], [0.25, 1.0, 3.75]], np.float32)
UNIT = np.array([-0.9, -0.5, 0.0, 0.3, 1.0], np.float32)
POSITIVE = np.array([0.01, 0.5, 1.0, 20.0], np.float32)
HALVES = np.array([-2.5, -1.5, -0.4, 0.5, 1.5, 2.6], np.float32)
SPECIAL = np.array([1, np.nan, -np.inf, np.inf])
NANS = {"a": np.array([np.nan, 1, np.inf, -np.inf], np.float32), "b": np.array([np.nan, np.nan, np.inf, 0], np.float32)}
LARGE = np.array([2**31 - 1, -(2**31), 2**24 + 1, 2**24, -(2**24) - 1, 123456789, -7, 0], np.int32)
"""Numbers that float32 cannot tell from their neighbours, and a few small ones."""
NEIGHBOURS = LARGE + np.array([0, 0, -1, 1, 1, 0, 1, 1])
U32 = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
BOOLS = np.array([True, False])
RNG = np.random.default_rng(1)
A, B = np.array([[3, 100, 7], [250, 1, 99]]), np.array([2, 101, 9])


def typed(op_type: str, opset: int, *arrays: Any, kinds: str = "iufbV", named: str = "ab") -> Any:
    """Return the arrays in each type of the operator."""
    dtypes = [dtype for dtype in schema_types(op_type, opset) if dtype.kind in kinds]
    return each(*({name: np.asarray(a).astype(dtype) for name, a in zip(named, arrays)} for dtype in dtypes))


UNARY: list[tuple[str, tuple[int, ...], np.ndarray]] = [
    ("Neg Abs Ceil Floor Exp Tanh", (6, 13), FLOATS), ("Sqrt Reciprocal Log", (6, 13), POSITIVE),
    ("Sign Erf", (9, 13), FLOATS), ("Round", (11, 22), HALVES), ("Sin Cos Atan", (7, 22), FLOATS),
    ("Tan Asin Acos", (7, 22), UNIT), ("Sinh Cosh Asinh", (9, 22), FLOATS), ("Atanh", (9, 22), UNIT[:-1]),
    ("Acosh", (9, 22), np.array([1.0, 1.5, 7.0], np.float32)),
]  # fmt: skip
LIMITED: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Equal": np.equal,
    "Less": np.less, "Greater": np.greater, "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor,
}  # fmt: skip
"""Operators with one broadcasting."""
COMPARISONS = {13: "Equal Less Greater", 12: "LessOrEqual GreaterOrEqual", 16: "LessOrEqual GreaterOrEqual"}


def binary(op_types: str, opset: Any, **arguments: Any) -> Iterator[Row]:
    return rows(each(*op_types.split()), opset, **arguments)


def comparisons(**arguments: Any) -> Iterator[Row]:
    for opset, op_types in COMPARISONS.items():
        yield from binary(op_types, opset, **arguments)


# The operators with one broadcasting, where b lies in a by dimension.
WHOLE = RNG.random((2, 3, 4, 5), np.float32) + 1
LAID: list[dict[str, Any]] = [
    {"shape": (2, 3, 4, 5)},
    {"shape": (), "broadcast": 1},
    {"shape": (1, 1), "broadcast": 1},
    {"shape": (5,), "broadcast": 1},
    {"shape": (4, 5), "broadcast": 1},
    {"shape": (3, 4), "broadcast": 1, "axis": 1},
    {"shape": (2,), "broadcast": 1, "axis": 0},
    {"shape": (3,), "broadcast": 1, "axis": -3},
]


def laid(opset: int) -> Any:
    """Second inputs and attributes of opset 1 or 6."""
    old = {"consumed_inputs": [0, 0]} if opset == 1 else {}
    return each(*(
        {"b": np.asarray(RNG.random(shape, np.float32) + 1), **more, **old} for item in LAID for more in [dict(item)]
        for shape in [more.pop("shape")]
    ))  # fmt: skip


def limited(op_type: str) -> Callable[..., Any]:
    """Return a function of a and b, whose first dimension is a's dimension ``axis``."""

    def apply(a: np.ndarray, b: np.ndarray, axis: int | None = None) -> Any:
        behind = 0 if axis is None else a.ndim - axis % a.ndim - b.ndim
        return LIMITED[op_type](a, b.reshape((*b.shape, *[1] * behind)))

    return apply


# Division, remainders and powers of integers.


def division_pairs(dtype: str) -> dict[str, np.ndarray]:
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
    return {"a": a.astype(dtype), "b": b.astype(dtype)}


INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
PAIRS = each(*map(division_pairs, INTEGERS))
DIVIDENDS = np.concatenate([LARGE[2:], [2**31 - 2, -(2**31) + 1]]).astype(np.int64)
POWERS = each(
    {"a": np.array([1.5, 2.0, 3.0], np.float32), "b": np.array([2, 0, 3], np.int64)},
    {"a": np.array([1.5, 2.0, 3.0], np.float32), "b": np.array([2, 0.5, 3], np.float64)},
    {"a": np.array([-7, 2, 0, 1], np.int32), "b": np.array([9, 30, 0, 5], np.int32)},
    {"a": np.array([7, 2, 10, 1], np.int64), "b": np.array([9, 30, 0, 5], np.int32)},
    {"a": np.array([7, 4, 10, 1], np.int32), "b": np.array([2, 0.5, 0, 5], np.float32)},
    {"a": np.array([-7, 2, 0, 1], np.int32), "b": np.array([9, 30, 0, 5], np.uint8)},
)
FRACTIONS = {"a": np.array([-4.25, 7.5, 5.0, -4.5, 3.0]), "b": np.array([2.0, -3.0, 8.0, 1.5, np.inf])}
REMAINDERS = each(*({name: v.astype(t) for name, v in FRACTIONS.items()} for t in (np.float16, np.float32)),
                  {name: v[:4] for name, v in FRACTIONS.items()})  # fmt: skip
"""The plug-in reads an infinite float64 as the greatest float32."""


# Any number of inputs.


def of_three(opset: int) -> Any:
    shapes = [(2, 3), (3,), (2, 1)] if opset >= 8 else [(2, 3)] * 3
    old = {"consumed_inputs": [0]} if opset == 1 else {}
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in zip("abc", shapes)} | old


# Bits.


def shifts(dtype: str, direction: str) -> Iterator[Row]:
    """Yield shifts of numbers of a type; of 64 bits where the results fit into the 32 with which the plug-in computes."""
    info = np.iinfo(dtype)
    bits = min(info.bits, 32)
    top = int(info.max) if info.bits < 64 else 2**31 - 1
    x = np.array([top, 1, 77, top // 3, min(-1, info.min) if info.min else top], np.int64).astype(dtype)
    y = np.array([0, 1, bits // 2, bits - 2, 1], dtype)
    if info.bits == 64:
        x[4] = 12345
        wide = [int(v) << int(k) if direction == "LEFT" else int(v) >> int(k) for v, k in zip(x, y)]
        x, y = x[[-(2**31) <= v < 2**31 for v in wide]], y[[-(2**31) <= v < 2**31 for v in wide]]
    opset = 11 if dtype.startswith("u") else 28
    for label, second in (("input", y), ("stored", const(y))):
        yield from rows("BitShift", opset, label=f"{label}_{direction}_{dtype}", x=x, y=second, direction=direction)


# Clip.


def bounds(opset: int, stored: bool) -> Any:
    return each(*(
        {"x": np.array([[0, 1, 2], [3, 4, 100]]).astype(dtype), **{
            name: None if v is None else const(v, dtype) if stored else np.array(v, dtype)
            for name, v in zip(("low", "high"), pair)}}
        for dtype in schema_types("Clip", opset) for pair in ((1, 3), (1, None), (None, 3), (None, None), (3, 1))
    ))  # fmt: skip


CHOSEN = """g (int64[3] a, int64[3] b, int64[3] x, int64[3] y) => (int64[3] z) {{
    c = {} (a, b)  z = Where (c, x, y)
}}"""
ROWS = [
    *(row for op_types, opsets, x in UNARY for op_type in op_types.split() for opset in opsets
      for row in rows(op_type, opset, also=typed(op_type, opset, x, kinds="fV", named="x"))),
    *(row for op_type in ("Neg", "Abs", "Ceil", "Floor", "Sqrt", "Reciprocal", "Exp", "Log", "Tanh")
      for row in rows(op_type, 1, label="in_place", x=POSITIVE, consumed_inputs=[0])),
    *(row for op_type in ("Abs", "Sign", "Neg") for row in rows(
        op_type, 13, label="integers", x=each(*(
            np.array([0, 1, 100, limit, max(int(np.iinfo(dtype).min), -limit)], dtype)
            for dtype in schema_types(op_type, 13) if dtype.kind in "iu"
            for limit in [min(int(np.iinfo(dtype).max), 2**31 - 1)])))),
    *rows("Abs", 13, label="beyond_int32", x=U32),
    *rows("Sign", 13, label="beyond_int32", x=U32),
    *binary("Max Min Less LessOrEqual Greater GreaterOrEqual Equal", 16, label="beyond_int32", a=U32, b=U32[::-1].copy()),
    *binary("Less", 16, label="beyond_int32", a=U32, b=const([[5], [2**31]], np.uint32)),
    *(row for opset in (7, 13, 14) for op_type in ("Add", "Sub", "Mul")
      for row in binary(op_type, opset, also=typed(op_type, opset, A, B))),
    *(row for op_type, opset in (("Add", 1), ("Sub", 1), ("Mul", 1), ("Div", 1), ("Add", 6))
      for row in rows(op_type, opset, label="limited", a=WHOLE, also=laid(opset), expect=limited(op_type))),
    *(row for op_type, dtype in [("Pow", "f"), ("Less", "f"), ("Greater", "f"), ("Equal", "i"), ("And", "?"), ("Or", "?"),
                                 ("Xor", "?")]
      for row in rows(op_type, 1, label="limited", a=RNG.integers(0, 3, (2, 3, 4)).astype(dtype),
                      b=RNG.integers(0, 3, 3).astype(dtype), broadcast=1, axis=1, expect=limited(op_type))),
    *rows(each("Add", "Sum"), 6, a=FLOATS, b=FLOATS[0], refused="without 'broadcast'"),
    *rows("Add", 6, a=FLOATS, b=FLOATS[0], broadcast=1, axis=2, refused="axis 2 does not place"),
    *rows("Add", 6, a=FLOATS, b=FLOATS[0], broadcast=1, axis=0, refused="does not fit into the first"),
    *rows("Add", 13, a=FLOATS, b=FLOATS[0, :2], refused="cannot be broadcast"),
    *rows("Div", 14, also=PAIRS),
    *rows("Mod", 13, also=PAIRS, fmod=each(0, 1)),
    *(row for dtype in INTEGERS[:4]
      for row in rows("Div", 14, label="small", a=np.unique(division_pairs(dtype)["a"]),
                      b=const(each(1, 2, 3, 5, 7, 127), dtype))),
    *rows("Div", 13, label="constant", a=DIVIDENDS, b=const(each(1, 2, 3, 8, -5, 1 << 20), np.int64)),
    *rows("Mod", 13, label="constant", a=DIVIDENDS, b=const(each(1, 2, 3, 8, -5, 1 << 20), np.int64)),
    *rows("Pow", each(12, 13, 15), also=POWERS),
    *(row for exponent in (0, 1, 2, 5, 9) for row in rows(
        "Pow", 13, label="constant", a=np.array([[-7, 2, 0], [1, 10, 3]]),
        b=each(*(const(np.full(shape, exponent)) for shape in ((), (1,), (1, 1, 1)))))),
    *rows("Pow", 13, label="negative", a=np.array([1, -1, -1, 2, -3], np.int32),
          b=np.array([-3, -3, -2, -1, -2], np.int32)),
    *rows("Mod", 13, label="floats", also=REMAINDERS, fmod=each(0, 1)),
    *rows("Mod", 28, label="floats", also=REMAINDERS),
    *(row for op_type in ("Sum", "Mean", "Max", "Min") for opset in (1, 6, 8, 13) for row in (
        *rows(op_type, opset, label="three", also=each(of_three(opset)), expect=InOpset(max(6, opset))),
        *rows(op_type, opset, label="one", a=FLOATS))),
    *(row for op_type in ("Max", "Min") for opset in (12, 13)
      for row in binary(op_type, opset, also=typed(op_type, opset, [1, 100, 7], [[2], [50]]))),
    *(row for opset, op_types in COMPARISONS.items() for op_type in op_types.split()
      for row in binary(op_type, opset, dims=each(None, {"a": ["n"], "b": [None, 1]}),
                        also=typed(op_type, opset, [0, 1, 2, 2], [[1], [2]]))),
    *(row for b in (lambda v: v, const) for row in comparisons(label="large", also=each(*(
        {"a": LARGE.astype(t), "b": b(NEIGHBOURS.astype(t).reshape(-1, 1))} for t in (np.int32, np.int64))))),
    *comparisons(label="nan", also=each(NANS)),
    *rows(each("Less", "Greater"), each(7, 9), a=FLOATS[0], b=FLOATS[:1, :1]),
    *rows("Equal", each(7, 9), a=np.array([1, 2, 3]), b=np.array([[2]])),
    *binary("And Or Xor", 7, a=BOOLS, b=BOOLS[:, None]),
    *(row for opset in (9, 16) for row in rows(
        "Where", opset, c=BOOLS[:, None], also=typed("Where", opset, [1, 2, 1], 0, named="xy"),
        dims=each(None, {"c": ["n", 1], "x": [None]}))),
    *rows("Where", each(9, 16), c=BOOLS, x=LARGE[:2].astype(np.int64), y=LARGE[2:4].astype(np.int64)),
    *(row for name in ("Less", "Equal") for row in graphs(
        CHOSEN.format(name), label=f"chosen_by_{name}", opset=16, a=np.array([1, 2, 3]), b=np.array([3, 2, 1]),
        x=np.array([2**31 - 1, 2**24 + 1, -(2**31) + 1]), y=np.array([2**30 + 1, 7, 2**28 + 3]))),
    *rows("IsNaN", 20, x=each(*map(SPECIAL.astype, ("f2", "f4", "f8", ml_dtypes.bfloat16)))),
    *(row for label, kinds in (("", ("f2", "f4", ml_dtypes.bfloat16)), ("float64", ("f8",))) for row in rows(
        "IsInf", 20, label=label, x=each(*map(SPECIAL.astype, kinds)), detect_negative=each(0, 1),
        detect_positive=each(0, 1))),
    *(row for dtype in INTEGERS for direction in ("LEFT", "RIGHT") for row in shifts(dtype, direction)),
    *rows("BitShift", 28, label="beyond", x=np.array([5, -5, 5, -5], np.int32), y=np.array([32, 100, -1, -3], np.int32),
          direction=each("LEFT", "RIGHT")),
    *rows("BitShift", 28, x=LARGE, y=LARGE, direction="UP", refused="LEFT or RIGHT"),
    *(row for op_type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
      for row in binary(op_type, 18, also=typed(op_type, 18, [12, 7, 100], [[10], [3]]))),
    *rows("BitwiseNot", 18, x=each(*(np.array([12, 7, 100, 1, 0], t) for t in schema_types("BitwiseNot", 18)))),
    *rows("Clip", 1, x=FLOATS, expect=InOpset(6), also=each(
        {}, {"min": -1.0}, {"max": 0.5}, {"min": 0.0, "max": 1.0, "consumed_inputs": [0]})),
    *rows("Clip", 6, x=FLOATS, min=2.0, max=1.0, expect=np.full_like(FLOATS, 1)),
    *(row for opset in (11, 12, 13) for stored in (True, False)
      for row in rows("Clip", opset, also=bounds(opset, stored))),
    *rows("Clip", 13, x=np.array(5.0, np.float32), low=np.zeros(1, np.float32), high=np.full(1, 2, np.float32)),
    *rows("Clip", 13, x=FLOATS, low=np.ones(2, np.float32), refused="must be a scalar"),
    *rows("Clip", 13, label="infinity", x=SPECIAL[[3, 2, 0]].astype(np.float32)),
    *rows("Add", 13, label="unknown_rank", a=FLOATS[:, :1], b=FLOATS[0], dims={"a": None, "b": None}),
]  # fmt: skip
