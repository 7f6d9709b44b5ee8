"""onnxruntime's quantized operators and those that came into ONNX later, against onnxruntime."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import Tolerance, by_onnxruntime, const, each, graphs, normal_by, rows

R = np.random.default_rng(23)
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")
f = normal_by(R)


def u(*shape: int) -> np.ndarray:
    return R.integers(0, 256, shape).astype(np.uint8)


def s(*shape: int) -> np.ndarray:
    return R.integers(-128, 128, shape).astype(np.int8)


def grid(name: str, scale: float, zero: int, kind: Any = np.uint8) -> dict[str, np.ndarray]:
    return {f"s{name}": np.array(scale, np.float32), f"z{name}": np.array(zero, kind)}


def with_zeros(**values: Any) -> Any:
    """onnxruntime's type inference stumbles over zero points that are left out, although its schema allows for it."""
    values = {name: np.array(0, np.uint8) if value is None else value for name, value in values.items()}
    return by_onnxruntime("QLinearAdd", domain="com.microsoft", **values, zc=np.array(0, np.uint8))


def with_channels_behind(x: np.ndarray, w: np.ndarray, b: np.ndarray, **attributes: Any) -> Any:
    values = {"x": x.transpose(0, 3, 1, 2), "w": w.transpose(0, 3, 1, 2), "b": b}
    return by_onnxruntime("Conv", 11, **values, **attributes)[0].transpose(0, 2, 3, 1)


def lstm(count: int, *columns: int) -> dict[str, Any]:
    """Weights with a scale each, or one for each column."""
    values = {"w": s(count, 6, 32), "r": s(count, 8, 32), "b": f(count, 64) / 4, "lengths": None, "h": None, "c": None}
    values |= {"p": None}
    for name in "wr":
        values[f"s{name}"] = R.uniform(0.01, 0.02, (count, *columns)).astype(np.float32)
        values[f"z{name}"] = np.zeros((count, *columns), np.int8)
    return {name: value if value is None else const(value) for name, value in values.items()}


A, B, C, I8 = grid("a", 0.0131, 120), grid("b", 0.0217, 7), grid("c", 0.0411, 131), np.int8
X, Y, IMAGE, LAST = grid("x", 0.0131, 120), grid("y", 0.0097, 117), u(1, 3, 6, 6), u(1, 6, 6, 3)
COLUMNS = np.abs(f(5))
T, U, V = np.float32(1 / np.float32(127.5)), np.float32(1 / np.float32(255)), const(np.uint8(0))
attention = functools.partial(microsoft, "QAttention", x=u(2, 3, 8), w=s(8, 24), b=f(24), num_heads=2)
pool = functools.partial(microsoft, "QLinearAveragePool", kernel_shape=[3, 3])
vectors = functools.partial(microsoft, "CDist", a=f(3, 4), b=f(5, 4))
SOFTMAX = """g (uint8[2,3,5] x, float sx, uint8 zx, float sy, uint8 zy) => (y) {{
    q = com.microsoft.QLinearSoftmax <opset={}, axis={}> (x, sx, zx, sy, zy)  y = Cast <to=1> (q)
}}"""
ROWS = [
    *microsoft(each("QLinearAdd", "QLinearMul"), a=u(2, 3, 4), **A, b=u(3, 4), **B, **C,
               dims=each(None, {"a": ["n", None, 4]})),
    *microsoft("QLinearAdd", a=s(2, 3), **grid("a", 0.0131, -3, I8), b=s(3), **grid("b", 0.0217, 5, I8),
               **grid("c", 0.0411, 1, I8)),
    *microsoft("QLinearAdd", label="no_zero_points", a=u(2, 3, 4), **A | {"za": None}, b=u(3, 4), **B | {"zb": None},
               sc=C["sc"], expect=with_zeros),
    *microsoft("QLinearAdd", a=u(2, 3), sa=A["sa"], refused="input 'B' is required"),
    # 1 + erf in 8 bits, as a quantized Gelu has it: every sum is a whole number of steps and a half.
    *microsoft("QLinearAdd", label="half_steps", x=np.arange(256, dtype=np.uint8), s=const(T), z=const(np.uint8(128)),
               one=const([255], np.uint8), t=const(U), zero=V, sy=const(T), zy=V),
    *microsoft("QLinearWhere", c=u(2, 3, 4) % 2 == 0, x=u(2, 3, 4), **X, y=u(3, 4), **grid("y", 0.0217, 9),
               **grid("z", 0.0411, 131)),
    *microsoft("QLinearWhere", c=np.array([True, False]), x=s(3, 2), **grid("x", 0.0131, 12, I8), y=s(2),
               **grid("y", 0.0217, -9, I8), **grid("z", 0.0111, -3, I8)),
    *microsoft("QLinearSigmoid", x=u(2, 3, 4), **grid("x", 0.05, 128), **grid("y", 1 / 256, 0)),
    *microsoft("QLinearLeakyRelu", x=s(3, 8), **grid("x", 0.0513, 3, I8), **grid("y", 0.0317, -9, I8), alpha=0.137),
    *microsoft("QLinearConcat", **grid("y", 0.0317, 100), a=u(2, 3), **A, b=u(2, 5), **grid("b", 0.0217, 9), axis=1),
    *microsoft("QLinearConcat", **Y, a=u(2, 3), sa=A["sa"], axis=0, refused="needs a scale and a zero point"),
    *pool(x=IMAGE, **X, **Y, also=each({}, {"pads": [1, 1, 1, 1], "strides": [2, 2], "count_include_pad": 1})),
    *pool(x=LAST, **X, **Y, channels_last=1),
    *microsoft("QLinearGlobalAveragePool", x=IMAGE, **X, **Y),
    *microsoft("QLinearGlobalAveragePool", x=u(2, 6, 6, 3), **X, **Y, channels_last=1),
    *microsoft("DynamicQuantizeMatMul", a=f(2, 3, 8), b=u(8, 5), **grid("b", 0.02, 100)),
    *microsoft("DynamicQuantizeMatMul", a=f(3, 8), b=s(8, 5), sb=COLUMNS, zb=None, bias=f(5),
               dims=each(None, {"a": ["n", 8]})),
    *microsoft("MatMulIntegerToFloat", a=u(2, 3, 8), b=u(8, 5), sa=np.array(0.03, np.float32),
               sb=B["sb"], za=np.array(99, np.uint8), zb=np.array(100, np.uint8), bias=f(5)),
    *microsoft("MatMulIntegerToFloat", a=u(3, 8), b=s(8, 5), sa=A["sa"], sb=COLUMNS, za=None, zb=s(5)),
    *attention(sx=X["sx"], sw=B["sb"], m=None, zx=np.array(128, np.uint8), zw=np.array(3, np.int8)),
    *attention(sx=X["sx"], sw=np.abs(f(24)) / 30, m=np.array([2, 3], np.int32), zx=np.array(128, np.uint8),
               zw=np.zeros(24, np.int8)),
    # Data and states are rounded to 8 bits before each product, as by onnxruntime with one thread: with more of them
    # each takes the range of its part of the batch.
    *(row for direction in ("forward", "reverse", "bidirectional") for columns in ((), (32,))
      for count in [1 + (direction == "bidirectional")] for row in microsoft(
          "DynamicQuantizeLSTM", x=f(7, 2, 6), **lstm(count, *columns) | {"h": f(count, 2, 8), "c": f(count, 2, 8)},
          outputs=3, hidden_size=8, direction=direction, also=each({}, {"lengths": np.array([5, 4], np.int32)}))),
    # onnxruntime adds up rounded powers, so that its result may be the neighbouring number.
    *(row for opset, axis in ((13, -1), (13, 1), (12, 1)) for row in graphs(
        SOFTMAX.format(opset, axis), label="QLinearSoftmax", domain="com.microsoft", x=u(2, 3, 5),
        **grid("x", 0.0213, 120), **grid("y", 1 / 256, 0), tolerance=Tolerance(0, 1))),
    *microsoft("QuantizeLinear", x=f(3, 4) * 9, **grid("s", 0.0031, 30000, np.uint16)),
    *microsoft("QuantizeLinear", x=f(3, 4), s=np.abs(f(3)) / 50, z=s(3), axis=0),
    *microsoft("QuantizeLinear", x=f(3, 4), s=np.array(0.03, np.float32)),
    *microsoft("DequantizeLinear", x=R.integers(-32768, 32768, (3, 4)).astype(np.int16),
               **grid("s", 0.0031, -77, np.int16)),
    *microsoft("DequantizeLinear", x=u(3, 4), s=np.abs(f(4)), z=u(4), axis=1),
    *microsoft("Trilu", x=f(2, 4, 5), k=np.array(1)),
    *microsoft("Trilu", x=f(4, 5), upper=0),
    *microsoft("Pad", x=f(2, 3), p=const([0, 1, 2, 0]), v=const([1.5], np.float32)),
    *microsoft("Pad", x=f(3, 4), p=const([[0, 1, 2, 0]]), mode="reflect"),
    *microsoft("Range", a=np.array(1, np.int32), b=np.array(9, np.int32), d=np.array(3, np.int32)),
    *microsoft("Range", a=np.array(1.5, np.float32), b=np.array(6.0, np.float32)),
    *microsoft("ExpandDims", x=f(3, 4), a=const(-1, np.int32)),
    *microsoft("Inverse", x=f(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)),
    *vectors(also=each({}, {"metric": "euclidean"}), dims=each(None, {"a": ["m", 4], "b": [None, 4]})),
    *vectors(metric="cosine", refused="the metric 'cosine' is not supported"),
    *microsoft("BiasAdd", x=f(2, 3, 4), bias=f(4), skip=f(2, 3, 4), expect=lambda x, bias, skip: x + bias + skip),
    *microsoft("NhwcConv", x=f(1, 6, 6, 4), w=const(f(6, 3, 3, 2)), b=f(6), group=2, pads=[1, 0, 1, 0],
               expect=with_channels_behind),
]  # fmt: skip
