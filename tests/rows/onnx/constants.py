"""Constants, casts of values and casts of bits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.engines import element_type_of, schema_types
from tests.rows.row import Row, const, each, graphs, rows

FLOATS = np.array([[-2.5, -1.0, -0.0], [0.25, 1.0, 3.75]], np.float32)


def dtype_of(name: str) -> Any:
    """The dtype of one of ONNX's types by its name."""
    return element_type_of(TensorProto.DataType.Value(name)).dtype


def sparse(values: Any, places: Any, shape: list[int]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.asarray(values), "s"), numpy_helper.from_array(np.asarray(places)), shape
    )


def dense(values: Any, places: Any, shape: list[int]) -> np.ndarray:
    made, at = np.zeros(shape, np.asarray(values).dtype), np.asarray(places)
    for value, place in zip(values, at):
        made[tuple(np.atleast_1d(np.unravel_index(place, shape) if at.ndim == 1 else place))] = value
    return made


SPARSE = [
    ([1.0, 8.0, 3.0], [[0, 0], [0, 3], [2, 2]], [3, 4]),
    ([1.0, 8.0, 3.0], [0, 3, 10], [3, 4]),
    ([5.0], [7], [2, 2, 2]),
    (np.empty(0), np.empty((0, 2), np.int64), [2, 3]),
    (np.empty(0), np.empty(0, np.int64), [2, 0]),
    (np.arange(5000.0), np.arange(5000) * 2, [10000]),
]
KINDS = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool")


def number(dtype: Any) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def cast(x: np.ndarray, dtype: Any, opsets: Any, label: str, **more: Any) -> Iterator[Row]:
    """Yield casts, by opsets of Cast, and by those of CastLike as negative numbers."""
    for opset in opsets:
        if opset > 0:
            yield from rows("Cast", opset, label=label, x=each(x), to=each(number(dtype)), **more)
        else:
            yield from rows("CastLike", -opset, label=label, x=each(x), like=const(np.zeros(0, dtype)), **more)


NUMBERS = {"f": [-1.5, -0.0, 0.3, 2.7, 100.0], "u": [0, 1, 100, 127, 255], "i": [0, 1, 100, 127, -128], "b": [0, 1]}
TYPES: list[Any] = [t for t in schema_types("Cast", 13, "T1") if t.kind in "iufb" or t == ml_dtypes.bfloat16]


def casts_of(source: Any) -> Iterator[Row]:
    """Yield casts of a type to each other."""
    x = np.array(NUMBERS.get(source.kind, NUMBERS["f"])).astype(source)
    for target in TYPES:
        value = x
        if target.kind == "u" and source.kind not in "ub":
            value = np.abs(x.astype(np.float32)).astype(source)
        opsets = [19, -15, *[13, 25] * (target.kind == "f"), *[9] * ("V" not in source.kind + target.kind)]
        yield from cast(value, target, opsets, "numbers")


SMALL_FLOATS = np.array([0.1, 448, 460, 470, 1e6, 57344, 65000, np.inf, -np.inf, np.nan, -1000, 1e-4], np.float32)


def casts_to_small_floats(name: str) -> Iterator[Row]:
    dtype, opsets = dtype_of(name), (19, 23, 28, -19, -25)
    yield from cast(SMALL_FLOATS, dtype, opsets, "saturate_0", saturate=0, expect=SMALL_FLOATS.astype(dtype))
    yield from cast(SMALL_FLOATS, dtype, opsets, "saturate_1", saturate=1)
    yield from cast(SMALL_FLOATS.astype(dtype), np.float32, [19], "from_small_floats")


def casts_of_packed_integers(name: str) -> Iterator[Row]:
    x = np.arange(-20, 20, dtype=np.int32)
    yield from cast(x, dtype_of(name), [25], "to_packed")
    for target in (np.int8, np.float32):
        yield from cast(x.astype(dtype_of(name)), target, [25], "from_packed")


WIDE, LARGE = np.array([300, -129, 65537, -1, 2**31 - 1], np.int32), np.array([0, 1, -(2**31), 256], np.int32)
NOT_ZERO = np.array([np.nan, np.inf, -0.0, 0.0, 1e-30, -2], np.float32)
ROUNDED = np.array([0.0, 0.124, 0.25, 1.1, 2.0, 3.5, np.inf, 1.5, 3.0], np.float32)
ROWS = [
    *rows("Constant", each(1, 9, 11, 12, 13, 19, 21, 23, 24, 25), value=numpy_helper.from_array(FLOATS)),
    *rows("Constant", each(12, 13, 25), value_float=1.5),
    *rows("Constant", each(12, 13, 25), value_floats=[1.5, -2.0]),
    *rows("Constant", each(12, 13, 25), value_int=7),
    *rows("Constant", each(12, 13, 25), value_ints=[7, -(2**31)]),
    *rows("Constant", 13, label="text", value_string="ä"),
    *rows("Constant", 13, label="text", value_strings=["a", "b"]),
    *(row for name in ("FLOAT16", "BFLOAT16", "DOUBLE", "INT8", "UINT16", "UINT32", "BOOL", "INT4", "UINT4",
                       "FLOAT8E5M2")
      for row in rows("Constant", 25, label=name, value=numpy_helper.from_array(np.arange(2).astype(dtype_of(name))))),
    *rows("Constant", 13, refused="exactly one attribute"),
    *rows("Constant", 13, value_int=1, value_float=2.0, refused="exactly one attribute"),
    *(row for kind in KINDS for values, places, shape in SPARSE for typed in [np.asarray(values).astype(kind)]
      for row in rows("Constant", each(11, 13, 25), label="sparse", sparse_value=sparse(typed, places, shape),
                      expect=dense(typed, places, shape))),
    *(row for values, places, shape, message in (
        ([1.0], [3], [3], "places outside its shape"), ([1.0], [-1], [3], "places outside its shape"),
        ([1.0], [[0, 3]], [2, 3], "places outside its shape"), ([1.0, 2.0], [1], [3], "has 2 values, but places"),
        ([1.0], [[0, 0, 0]], [2, 3], "has 1 values, but places"), ([[1.0]], [[0, 0]], [2, 3], "must be a list"),
        ([1.0], np.array([1], np.int32), [3], "has 1 values, but places"), ([1.0], [1], [-3], "has the shape"),
        ([1.0], [1], [1 << 20, 1 << 20], "too large"),
    ) for row in rows("Constant", 13, sparse_value=sparse(values, places, shape), refused=message)),
    *(row for value in (np.array([7]), np.array([1.5], np.float32), None) for shape in ([2, 3], [1], [0, 2])
      for label, s in (("", const(shape)), ("at_execution", np.array(shape)))
      for row in rows("ConstantOfShape", each(9, 20, 21, 23, 24, 25), label=label, s=s,
                      **({} if value is None else {"value": numpy_helper.from_array(value)}))),
    *rows("ConstantOfShape", 9, s=const([], np.int64)),
    *rows("ConstantOfShape", 9, s=const([1024, 1024]), layers=["Broadcast-3"]),
    *rows("ConstantOfShape", 9, s=const([2]), value=numpy_helper.from_array(np.ones(2)), refused="have one element"),
    *rows("ConstantOfShape", 9, s=const([-1]), refused="negative dimension"),
    *rows("ConstantOfShape", 9, s=const([[2]]), refused="must be a list"),
    *rows("Identity", each(1, 13, 14, 16, 19, 21, 23, 24, 25), x=each(FLOATS, const(FLOATS))),
    *graphs("g (float[2, 3] x) => (a, b, c) { a = Abs (x)  b = Identity (a)  c = Identity (b) }", opset=13, x=FLOATS,
            label="several_names_of_an_output"),
    *(row for source in TYPES for row in casts_of(source)),
    *(row for name in ("FLOAT", "INT32", "BOOL", "FLOAT16")
      for row in rows("Cast", 1, x=FLOATS, to=name, expect=FLOATS.astype(dtype_of(name)))),
    *(row for target in (np.int8, np.uint8, np.int16, np.uint16) for row in cast(WIDE, target, [13], "lowest_bits")),
    *(row for x in (NOT_ZERO, LARGE) for row in cast(x, np.bool_, [13], "truth")),
    *casts_to_small_floats("FLOAT8E4M3FN"),
    *casts_to_small_floats("FLOAT8E5M2"),
    *casts_of_packed_integers("INT4"),
    *casts_of_packed_integers("UINT4"),
    *casts_of_packed_integers("UINT2"),
    *(row for mode in ("up", "down", "nearest")
      for row in cast(ROUNDED, ml_dtypes.float8_e8m0fnu, [24], f"powers_of_two_{mode}", round_mode=mode)),
    *rows("Cast", 13, label="texts", c=const(["1.5", "-2e3", "INF", "nan"], object), to=TensorProto.FLOAT),
    *rows("Cast", 13, label="texts", c=const(["12", "-7"], object), to=TensorProto.INT64),
    *rows("Cast", 13, x=FLOATS, to=TensorProto.STRING, refused="does not convert f32 to string"),
    *rows("Cast", 13, x=np.array(["1"], object), to=TensorProto.FLOAT, refused="does not convert string to f32"),
    *rows("Cast", 19, x=FLOATS, to=TensorProto.FLOAT8E4M3FNUZ, refused="no element type for ONNX's FLOAT8E4M3FNUZ"),
    *rows("Cast", 24, x=FLOATS, to=TensorProto.FLOAT8E8M0, saturate=0, refused="does not saturate"),
    *rows("Cast", 24, x=FLOATS, to=TensorProto.FLOAT8E8M0, round_mode="off", refused="round_mode must be"),
    *rows("Cast", 1, x=FLOATS, to="float", refused="not the name of an element type"),
    *rows("Cast", 13, x=FLOATS, refused="'to' is required"),
]  # fmt: skip

# --- bits ---

RNG = np.random.default_rng(10)


def bit_cast(x: np.ndarray, to: Any, *kinds: Any, label: str = "") -> Iterator[Row]:
    """Yield a row for an input, or for each of the kinds of values."""
    kinds = kinds or (np.asarray,)
    yield from rows("BitCast", 26, label=label, x=each(*(kind(x) for kind in kinds)), to=each(number(to)))


def finite(x: np.ndarray) -> np.ndarray:
    """The numbers among floats."""
    with np.errstate(invalid="ignore"):
        return x[~np.isnan(x.astype(np.float32))]


BOTH = (np.asarray, const)
INTEGERS = np.array([[0, 1, 127], [128, 254, 255]])
BEYOND_32 = np.array([0, 1, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 2**24 + 1, 2**32 - 1], np.uint32)
LONG = np.array([0, 1, -1, -5, 2**31 - 1, -(2**31)])
"""What lies beyond 32 bits is beyond the plug-in, too."""
EVERY, BYTES, NIBBLES = (
    np.arange(1 << 16, dtype=np.uint16),
    np.arange(256, dtype=np.uint8),
    np.arange(16, dtype=np.uint8),
)
WORDS = np.concatenate([
    np.array([0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x3F800000, 0x3F7FFFFF], np.uint32),
    np.array([0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32),
    (np.arange(1, 255, dtype=np.uint32) << 23) | RNG.integers(0, 1 << 23, 254, dtype=np.uint32),
    RNG.integers(0, 1 << 23, 50, dtype=np.uint32),
])  # fmt: skip
"""Bits of positive float32 numbers: neighbours of powers of two, one of each exponent, denormal ones."""
FOUR_BITS = {
    ml_dtypes.uint4: NIBBLES.astype(ml_dtypes.uint4),
    ml_dtypes.int4: ((NIBBLES.astype(np.int8) ^ 8) - 8).astype(ml_dtypes.int4),
    ml_dtypes.float4_e2m1fn: NIBBLES.view(ml_dtypes.float4_e2m1fn),
}
ROWS += [
    *(row for bits, x in ((8, INTEGERS), (16, INTEGERS * 257)) for names in [(f"uint{bits}", f"int{bits}")]
      for given, to in (names, names[::-1]) for row in bit_cast(x.astype(names[0]).view(given), to, *BOTH)),
    *bit_cast(BEYOND_32, np.int32),
    *bit_cast(BEYOND_32.view(np.int32), np.uint32),
    *bit_cast(LONG, np.uint64),
    *bit_cast(LONG.view(np.uint64), np.int64),
    *bit_cast(np.array([True, False]), np.uint8, *BOTH),
    *(row for given, to in (("float32", "int32"), ("int64", "float64"), ("uint32", "float32"), ("float16", "uint16"))
      for row in bit_cast(np.array([0, 1, 2, 3], given), to, const)),
    *(row for given in (np.float16, ml_dtypes.bfloat16) for to in (np.int16, np.uint16)
      for row in bit_cast(finite(EVERY.view(given)), to, label="every_small_float")),
    *(row for kind in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu)
      for x in [finite(BYTES.view(kind))] for whole in (np.uint8, np.int8)
      for row in (*bit_cast(x, whole), *bit_cast(x.view(whole), kind))),
    *bit_cast(np.arange(-60, 60, dtype=np.int8).view(ml_dtypes.float8_e4m3fn), ml_dtypes.float8_e5m2),
    *bit_cast(EVERY[:31000:7].view(np.float16), ml_dtypes.bfloat16),
    *bit_cast(EVERY[:31000:7].view(ml_dtypes.bfloat16), np.float16),
    *(row for given, to in itertools.permutations(FOUR_BITS, 2)
      for row in bit_cast(FOUR_BITS[given], to, *BOTH, label=f"from_{given.__name__}")),
    *(row for kind in (np.uint8, np.int8) for x in [np.array([0, 1, 2, 100], kind)]
      for row in bit_cast(x, np.bool_)),
    *(row for kind in (np.int32, np.uint32) for sign in (0, 1 << 31)
      for row in bit_cast(finite((WORDS | np.uint32(sign)).view(np.float32)), kind)),
    *(row for given, to in (("float32", "int32"), ("float16", "int16"), ("float32", "uint32"))
      for row in bit_cast(np.array([np.nan, 1.0], given), to, label="nan")),
    *(row for given, to in (("float32", "int32"), ("int32", "float32"), ("float16", "uint16"))
      for shape in ((), (2, 1, 3), (0, 4))
      for row in bit_cast(np.asarray(RNG.integers(-100, 100, shape)).astype(given), to, label="shapes")),
    *rows("BitCast", 26, x=np.ones(3, np.float64), to=number(np.int64), refused="computes with 32 bits"),
    *rows("BitCast", 26, x=np.ones(3, np.int64), to=number(np.float64), refused="computes with 32 bits"),
    *rows("BitCast", 26, x=np.ones(3, np.float32), to=number(np.int64), refused="f32 has 32 bits, but i64 has 64"),
]  # fmt: skip
