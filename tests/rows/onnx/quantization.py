"""ONNX's quantization, against onnxruntime or a calculation in float64.

OpenVINO's CPU plug-in divides by multiplying with the reciprocal, so a value that lies within float32's rounding of
the middle between two steps may fall to either side of it there. Rows about such middles have scales that are powers of
two, or are known to differ.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tests.rows.row import const, each, rows

RNG = np.random.default_rng(31)
INTEGERS = (np.uint8, np.int8, np.uint16, np.int16, ml_dtypes.uint4, ml_dtypes.int4)
SMALL_FLOATS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
OPSETS = each(10, 13, 19, 21, 23, 25)


def any_of(dtype: Any, *shape: int, below: int = 1 << 16) -> np.ndarray:
    """Random numbers of a type, those of an integer type from its whole range."""
    info = ml_dtypes.iinfo(dtype) if dtype not in SMALL_FLOATS else None
    low, high = (int(info.min), int(info.max)) if info else (-8, 8)
    return RNG.integers(max(low, -below), min(high, below), shape, endpoint=True).astype(dtype)


def row_product(a: Any, b: Any, a_scale: Any, a_zero: Any) -> np.ndarray:
    left = (a.astype(np.int64) - a_zero[:, None]) * a_scale[:, None]
    return np.clip(np.rint(left @ ((b.astype(np.int64) - 128) * 0.5) / 64) + 128, 0, 255).astype(np.uint8)


def parameters(scale: float, *zeros: Any) -> Any:
    """Return scale and zero point, if any, as initializers and as inputs."""
    return each(*(
        {"scale": of(np.float32(scale)), **({} if zero is None else {"zero": of(zero)})}
        for of in (const, np.asarray) for zero in zeros
    ))  # fmt: skip


def blocks(op_type: str, axis: int, block_size: int) -> dict[str, Any]:
    x = any_of(np.uint8, 4, 6, 10)
    shape = [-(-n // block_size) if i == axis % 3 else n for i, n in enumerate(x.shape)]
    return {
        "x": x if op_type == "DequantizeLinear" else (20 * RNG.standard_normal(x.shape)).astype(np.float32),
        "scale": const(0.5 + RNG.integers(1, 4, shape), np.float32), "zero": const(RNG.integers(0, 5, shape), np.uint8),
        "axis": axis, "block_size": block_size,
    }  # fmt: skip


MIDDLES = (np.concatenate([np.arange(-300, 301) + 0.5, [1e9, -1e9, 0.25]]) / 4).astype(np.float32)
EXTREMES = np.array([-65000, -300, -8, -7, -1, 0, 1, 2, 3, 7, 15, 16, 127, 255, 256, 65000], np.float64)
FLOATS = np.array([0.0, -1.0, 0.3, 17.0, 500.0, 1e6, -1e6, 448.0], np.float32)
CUBE = RNG.standard_normal((2, 3, 4)).astype(np.float32)
Y = {"ys": const(0.21, np.float32), "yz": const(130, np.uint8)}
X = {"xs": const(0.02, np.float32), "xz": const(110, np.uint8)}
ZEROS = np.zeros((2, 3), np.float32)
ROWS = [
    *rows("QuantizeLinear", OPSETS, x=MIDDLES,
          also=parameters(0.25, None, np.uint8(0), np.uint8(100), np.int8(0), np.int8(100))),
    *rows("QuantizeLinear", 13, label="middles", also=each(
        *({"x": ((np.arange(-20, 20) + 0.5) * np.float32(scale)).astype(np.float32), "scale": const(scale, np.float32),
           "zero": const(128, np.uint8)} for scale in (0.1, 0.3, 7.0, 1 / 3)))),
    *(row for axis in (0, 1, -1) for n in CUBE.shape[axis:][:1] for row in rows(
        "QuantizeLinear", 13, x=CUBE, scale=const(np.linspace(0.01, 0.03, n), np.float32),
        zero=const(np.arange(n) + 100, np.uint8), axis=axis)),
    *(row for dtype in INTEGERS for source in (np.float32, np.float16, ml_dtypes.bfloat16, np.int32) for row in rows(
        "QuantizeLinear", 21, label="to_integers", x=EXTREMES.astype(source),
        scale=const(2, source), zero=const(3, dtype))),
    *rows("QuantizeLinear", 21, x=np.array([np.inf, -np.inf], np.float16), scale=const(2, np.float16),
          zero=const(3, np.int8)),
    *rows("QuantizeLinear", 19, label="to_8_bits", x=FLOATS, scale=const(2, np.float32),
          zero=each(*(const(0, dtype) for dtype in SMALL_FLOATS)), saturate=each(0, 1)),
    *rows("QuantizeLinear", 21, x=np.array([-3.0, 0.5, 200.0], np.float32), scale=const(1, np.float32), output_dtype=3),
    *(row for dtype, zeros in ((np.uint8, (None, 0, 100)), (np.int8, (None, 0, 100)), (np.int32, (None, 0)))
      for row in rows("DequantizeLinear", OPSETS, x=RNG.integers(0, 100, (3, 4)).astype(dtype),
                      also=parameters(0.3, *(None if zero is None else dtype(zero) for zero in zeros)))),
    *(row for dtype in (*INTEGERS, *SMALL_FLOATS) for target in (np.float32, np.float16, ml_dtypes.bfloat16)
      for row in rows("DequantizeLinear", 21, label="of_weights", also=each(
          *({"x": const(any_of(dtype, 4, 6, below=1000)), "scale": const(np.full(count, 0.25), target),
             "zero": const(np.full(count, int(dtype in INTEGERS)), dtype), **attributes}
            for count, attributes in (((), {}), (4, {"axis": 0}), (6, {"axis": 1})))))),
    *(row for op_type in ("QuantizeLinear", "DequantizeLinear") for row in rows(
        op_type, 21, label="blocks", also=each(*(blocks(op_type, *of) for of in ((0, 2), (1, 3), (1, 4), (-1, 5)))))),
    *rows("DequantizeLinear", 13, label="weights", x=const(any_of(np.int8, 512, 512)), axis=0,
          scale=const(np.linspace(0.1, 0.2, 512), np.float32), layers=["Convert-1", "Multiply-1"]),
    *rows("DynamicQuantizeLinear", 11, outputs=3, x=each(np.zeros(3, np.float32), np.array([[1, 2.1], [3.34, 4]], "f4"))),
    *(row for dtype, zero in ((np.uint8, 120), (np.int8, 0)) for group in (1, 2) for row in rows(
        "QLinearConv", 10, x=any_of(np.uint8, 1, 4, 7, 8), **X, w=const(any_of(dtype, 6, 4 // group, 3, 3)), also=each(
            *({"ws": ws, "wz": const(wz, dtype), **Y, **biases, **({"group": 2} if group == 2 else windows)}
              for ws, wz in ((const(0.013, np.float32), zero), (const(np.arange(13, 19) / 1000, np.float32), [0] * 6))
              for biases in ({}, {"b": const(RNG.integers(-5000, 5000, 6), np.int32)})
              for windows in ({}, {"pads": [1, 1, 1, 1], "strides": [2, 2]})[: 3 - group])))),
    *rows("QLinearMatMul", each(10, 21), a=any_of(np.uint8, 2, 3, 20), **X, b=const(any_of(np.int8, 20, 4)), also=each(
        {"bs": const(0.013, np.float32), "bz": const(0, np.int8), **Y},
        {"bs": const(np.linspace(0.01, 0.02, 4), np.float32), "bz": const([0] * 4, np.int8), **Y})),
    *rows("QLinearMatMul", 10, label="zero_of_each_row", a=any_of(np.uint8, 3, 8),
          a_scale=const([0.5, 0.25, 0.125], np.float32), a_zero=const([100, 3, 200], np.uint8),
          b=const(any_of(np.uint8, 8, 2)), bs=const(0.5, np.float32), bz=const(128, np.uint8), ys=const(64, np.float32),
          yz=const(128, np.uint8), expect=row_product),
    *rows("QuantizeLinear", 21, x=ZEROS, scale=const(np.ones(5), np.float32), zero=const([0] * 5, np.uint8),
          refused="5 scales or zero points"),
    *rows("QuantizeLinear", 21, x=ZEROS, scale=const(np.ones((2, 2)), np.float32), refused="be a number or a list"),
    *rows("QuantizeLinear", 21, x=ZEROS, scale=const(1, np.float32), zero=const(0, np.uint8), output_dtype=3,
          refused="output_dtype is i8"),
    *rows("QuantizeLinear", 21, x=ZEROS, scale=const(np.ones((2, 2)), np.float32), block_size=3,
          refused="have 1 blocks of 3"),
]  # fmt: skip
