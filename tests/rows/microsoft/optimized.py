"""What onnxruntime's tools write when they optimize and quantize, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import const, each, rows

R = np.random.default_rng(47)
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def u(*shape: int) -> np.ndarray:
    return R.integers(0, 256, shape).astype(np.uint8)


def s(*shape: int) -> np.ndarray:
    return R.integers(-128, 128, shape).astype(np.int8)


def grid(name: str, scale: float, zero: int, kind: Any = np.uint8) -> dict[str, np.ndarray]:
    return {f"s{name}": np.array(scale, np.float32), f"z{name}": np.array(zero, kind)}


A, B = {"a": u(3, 5), **grid("a", 0.013, 120)}, {"b": s(5, 4), **grid("b", 0.021, 3, np.int8)}
COLUMNS = {"b": s(5, 4), "sb": f(4) ** 2 / 50 + np.float32(0.01), "zb": s(4) // 16}
C, Y = {"c": R.integers(-5000, 5000, 4).astype(np.int32)}, grid("y", 0.11, 131)
NHWC, FILTERS = u(1, 6, 6, 4), {"w": const(s(8, 4, 3, 3)), **grid("w", 0.009, 0, np.int8), **grid("y", 0.9, 99)}
GRID, BIAS = grid("x", 0.02, 117), R.integers(-900, 900, 8).astype(np.int32)
convolution = functools.partial(microsoft, "QLinearConv")
pool = functools.partial(microsoft, "NhwcMaxPool")
ROWS = [
    *microsoft("QGemm", **A, **B),
    *microsoft("QGemm", **A, **B, **C, alpha=0.7),
    *microsoft("QGemm", **A, **B, **C, **Y, dims=each(None, {"a": ["m", 5]})),
    *microsoft("QGemm", **A, **B, c=None, **Y, alpha=1.3),
    *microsoft("QGemm", **A, **COLUMNS, **C, **Y),
    *microsoft("QGemm", **A | {"a": u(5, 3)}, **COLUMNS | {"b": s(4, 5)}, transA=1, transB=1),
    *microsoft("QGemm", a=s(3, 5), **grid("a", 0.01, -9, np.int8), **B, **C),
    *microsoft("QGemm", **A, **B, c=None, sy=Y["sy"], refused=r"'node' \(com.microsoft.QGemm.*must be given together"),
    *microsoft("TransposeMatMul", a=f(2, 4, 3), b=f(5, 4), transA=1, transB=1, alpha=0.5),
    *microsoft("TransposeMatMul", a=f(3, 4), b=f(4, 5)),
    *convolution(x=u(1, 4, 6, 6), **GRID, **FILTERS, pads=[1, 1, 1, 1]),
    *convolution(label="filters_as_input", x=u(1, 4, 6, 6), **GRID, **FILTERS | {"w": s(8, 4, 3, 3)}),
    *convolution(x=NHWC, **GRID, **FILTERS, channels_last=1, strides=[2, 1]),
    *convolution(x=NHWC, **GRID, **FILTERS, bias=BIAS, channels_last=1),
    *pool(x=NHWC, kernel_shape=[2, 3]),
    *pool(x=NHWC, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    *pool(x=s(2, 5, 5, 3), kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2]),
    *rows("LayerNormalization", each(11, 14, 16), x=f(2, 3, 8), s=const(f(8)), b=const(f(8))),
]  # fmt: skip
