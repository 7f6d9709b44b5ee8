"""ONNX's BitCast, against NumPy's view of the same bytes; from_onnx/test_operators.py has floats of their bits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from tests.engines import element_type_of
from tests.rows.row import Row, const, each, rows

RNG = np.random.default_rng(10)


def number(dtype: Any) -> int:
    """ONNX's number of a type."""
    return next(n for n in range(1, 25) if n not in (8, 14, 15, 18, 20) and element_type_of(n).dtype == np.dtype(dtype))


def bit_cast(x: np.ndarray, to: Any, *kinds: Any, expected: Any = None, label: str = "") -> Iterator[Row]:
    """Yield a row for an input, or for each of the kinds of values."""
    expected = x.view(to) if expected is None else expected
    for kind in kinds or (np.asarray,):
        yield from rows("BitCast", 26, label=label, x=each(kind(x)), to=each(number(to)), expect=expected)


def finite(x: np.ndarray) -> np.ndarray:
    """The numbers among floats."""
    with np.errstate(invalid="ignore"):
        return x[~np.isnan(x.astype(np.float32))]


BOTH = (np.asarray, const)
INTEGERS = np.array([[0, 1, 127], [128, 254, 255]])
WIDE = np.array([0, 1, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 2**24 + 1, 2**32 - 1], np.uint32)
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
ROWS = [
    *(row for bits, x in ((8, INTEGERS), (16, INTEGERS * 257)) for names in [(f"uint{bits}", f"int{bits}")]
      for given, to in (names, names[::-1]) for row in bit_cast(x.astype(names[0]).view(given), to, *BOTH)),
    *bit_cast(WIDE, np.int32),
    *bit_cast(WIDE.view(np.int32), np.uint32),
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
      for row in bit_cast(FOUR_BITS[given], to, *BOTH, expected=FOUR_BITS[to], label=f"from_{given.__name__}")),
    *(row for kind in (np.uint8, np.int8) for x in [np.array([0, 1, 2, 100], kind)]
      for row in bit_cast(x, np.bool_, expected=x != 0)),
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
