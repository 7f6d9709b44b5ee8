"""onnxruntime's group normalizations, which it has for graphics cards alone, and QLinearReduceMean, against NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.row import each, rows

R = np.random.default_rng(31)
microsoft = functools.partial(rows, opset=1, domain="com.microsoft")


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def normalized(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, activation: int, channels_last: int) -> np.ndarray:
    """``x`` in float64 with the channels in front; the groups have mean 0 and variance 1."""
    front = np.moveaxis(x, -1, 1) if channels_last else x
    parts = front.astype(np.float64).reshape(len(x), 4, -1)
    plain = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)
    y = plain.reshape(front.shape) * gamma.reshape(-1, 1, 1) + beta.reshape(-1, 1, 1)
    y = y / (1 + np.exp(-y)) if activation else y
    return (np.moveaxis(y, 1, -1) if channels_last else y).astype(np.float32)


def of_sum(x: Any, gamma: Any, beta: Any, skip: Any, bias: Any, activation: int, channels_last: int) -> list[Any]:
    total = x + (skip.reshape((2, 1, 1, 8) if channels_last else (2, 8, 1, 1)) if skip.ndim == 2 else skip)
    if bias is not None:
        total = total + (bias if channels_last else bias.reshape(8, 1, 1))
    return [normalized(total, gamma, beta, activation, channels_last), total]


def mean(x: Any, sx: Any, zx: Any, sy: Any, zy: Any, keepdims: int) -> np.ndarray:
    wide = ((x.astype(np.float64) - (0 if zx is None else zx)) * sx).mean((0, 2), keepdims=bool(keepdims))
    info = np.iinfo(x.dtype)
    return np.clip(np.rint(wide / sy) + (0 if zy is None else zy), info.min, info.max).astype(x.dtype)


def zeros(*values: Any) -> dict[str, Any]:
    first, second = values or (None, None)
    return {"sx": np.array(0.0131, np.float32), "zx": first, "sy": np.array(0.0097, np.float32), "zy": second}


NORM = {"gamma": f(8), "beta": f(8), "groups": 4}
ROWS = [
    *(row for last, x in enumerate((f(2, 8, 3, 5), f(2, 3, 5, 8))) for row in (
        *microsoft("GroupNorm", x=x, **NORM, activation=each(0, 1), channels_last=last, expect=normalized,
                   dims=each(None, {"x": ["n", None, None, 8] if last else ["n", 8, None, None]})),
        *microsoft("SkipGroupNorm", x=x, **NORM, activation=1, channels_last=last, outputs=2, expect=of_sum,
                   skip=each(f(*x.shape), f(2, 8), f(2, 1, 1, 8) if last else f(2, 8, 1, 1)), bias=each(None, f(8))))),
    *microsoft("GroupNorm", x=f(2, 3, 5, 8), **NORM, activation=2, refused="activation must be 0 or 1"),
    *microsoft("GatherND", x=f(2, 3, 4), indices=np.array([[0, -1], [1, 0]])),
    *(row for kind in (np.uint8, np.int8) for zero in ((),
    (np.array(101, kind), np.array(90, kind))) for row in microsoft(
        "QLinearReduceMean", x=R.integers(0, 256, (2, 3, 4)).astype(np.uint8).view(kind), **zeros(*zero), axes=[-1, 0],
        keepdims=each(0, 1), expect=mean)),
]  # fmt: skip
