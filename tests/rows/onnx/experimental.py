"""Experimental operators, and those of training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import Row, each, rows

X = np.random.default_rng(5).standard_normal((2, 3, 5, 6)).astype(np.float32)
FREE = each(None, {"x": ["n", 3, None, None]})
PARTS = {"starts": np.array([0, -3]), "ends": np.array([2, 2**31 - 1])}

ROWS = [
    *rows("Affine", 8, x=X, also=each({}, {"alpha": 2.5, "beta": -1.0})),
    *rows("ThresholdedRelu", 8, x=X, also=each({}, {"alpha": 0.5})),
    *rows("Scale", 8, x=X, scale=0.5),
    *rows(each("ScaledTanh", "ParametricSoftplus"), 8, x=X, alpha=1.5, beta=0.25),
    *rows("ImageScaler", 8, x=X, scale=2.0, bias=[1.0, -2.0, 3.0], dims=FREE),
    *rows("Crop", 8, x=X, border=each([1, 0, 2, 3], [0] * 4)),
    *rows("Crop", 8, x=X, border=[2, 1, 0, 0], scale=[3, 2]),
    *rows("MeanVarianceNormalization", 8, x=X, across_channels=each(0, 1), normalize_variance=each(0, 1), dims=FREE),
    *rows("MeanVarianceNormalization", 8, x=X, across_channels=each(0, 1), normalize_variance=each(0, 1)),
    *rows("DynamicSlice", 9, x=X, **PARTS),
    *rows("DynamicSlice", 9, x=X, **PARTS, axes=np.array([1, -1])),
    *rows("ConstantFill", 7, shape=[2, 3], value=1.5, expect=np.full((2, 3), 1.5, np.float32)),
    *rows("ConstantFill", 7, value=3.0, dtype=7, expect=np.array(3, np.int64)),
    *rows("ConstantFill", 7, x=X, expect=np.zeros_like(X)),
    *rows("ConstantFill", 7, x=X[0, 0], extra_shape=[2], value=1.0, dtype=9, expect=np.ones((5, 6, 2), bool)),
    *rows("ConstantFill", 7, label="by_shape", input_as_shape=1, x=np.array([2, 3]), value=7.0, dtype=6,
          expect=np.full((2, 3), 7, np.int32)),
    *rows("ConstantFill", 7, label="by_shape", input_as_shape=1, x=np.array([2], np.int32), extra_shape=[4],
          expect=np.zeros((2, 4), np.float32)),
    *rows("Crop", 7, x=X, border=[1, 1], refused="border must be four numbers"),
    *rows("Crop", 7, x=X, border=[3, 0, 3, 0], refused="nothing is left of dimension 3"),
    *rows("Crop", 7, x=X, border=[1] * 4, scale=[5, 2], refused="6 elements of dimension 2 are needed"),
    *rows("ImageScaler", 7, x=X, bias=[1.0], refused="1 biases for the channels"),
    *rows("ScaledTanh", 7, x=X, alpha=1.0, refused="no defaults"),
    *rows("ParametricSoftplus", 7, x=X, beta=1.0, refused="no defaults"),
    *rows("ConstantFill", 7, x=X, shape=[2], refused="the shape comes from the input"),
]  # fmt: skip

# --- training ---

RNG = np.random.default_rng(10)


def adagrad(
    r: float, t: int, x: Any, g: Any, h: Any, norm_coefficient: Any = 0, decay_factor: Any = 0, epsilon: Any = 1e-6
) -> list[Any]:
    g = norm_coefficient * x + g
    h = h + g * g
    return [x - r / (1 + t * decay_factor) * g / (np.sqrt(h) + epsilon), h]


def adam(
    r: float, t: int, x: Any, g: Any, v: Any, h: Any, alpha: Any = 0.9, beta: Any = 0.999, norm_coefficient: Any = 0,
    norm_coefficient_post: Any = 0, epsilon: Any = 1e-6,
) -> list[Any]:  # fmt: skip
    g = norm_coefficient * x + g
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    rate = r * np.sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else r
    return [(1 - norm_coefficient_post) * (x - rate * v / (np.sqrt(h) + epsilon)), v, h]


def momentum(
    r: float, t: int, x: Any, g: Any, v: Any, alpha: Any, beta: Any, norm_coefficient: Any, mode: str
) -> list[Any]:
    g = norm_coefficient * x + g
    v = alpha * v + (beta if t > 0 else 1) * g
    return [x - r * (g + alpha * v if mode == "nesterov" else v), v]


OPTIMIZERS: dict[str, Any] = {"Adagrad": (adagrad, 3), "Adam": (adam, 4), "Momentum": (momentum, 3)}


def optimized(op_type: str, t: int, dtype: str = "float32", refused: str = "", **attributes: Any) -> Iterator[Row]:
    """Yield a row of two tensors of different shapes: all values, then all gradients, then the states."""
    formula, kinds = OPTIMIZERS[op_type]
    kinds -= refused.endswith("for each")
    states = {f"{kind}{i}": RNG.uniform(0.1, 2, shape).astype(dtype) for kind in range(kinds)
              for i, shape in enumerate(((3,), (2, 4)))}  # fmt: skip

    def expect() -> list[np.ndarray]:
        wide = [value.astype(np.float64) for value in states.values()]
        results = [formula(float(np.array(0.1, dtype)), t, *wide[i::2], **attributes) for i in (0, 1)]
        return [result[kind].astype(dtype) for kind in range(kinds - 1) for result in results]

    yield from rows(
        op_type, 1, domain="ai.onnx.preview.training", label=dtype, r=np.array(0.1, dtype), t=np.array(t), **states,
        **attributes, outputs=2 * (kinds - 1), expect=expect, refused=refused,
    )  # fmt: skip


COMMON = {"alpha": 0.75, "beta": 0.5, "norm_coefficient": 0.25}
ROWS += [
    *(row for dtype in ("float32", "float64") for t in (0, 3) for row in (
        *optimized("Adagrad", t, dtype, norm_coefficient=0.0, decay_factor=0.5, epsilon=0.125),
        *optimized("Adagrad", t, dtype, norm_coefficient=0.25, decay_factor=0.5, epsilon=0.125),
        *optimized("Adam", t, dtype, **COMMON, norm_coefficient_post=0.125, epsilon=0.0625),
        *optimized("Momentum", t, dtype, **COMMON, mode="standard"),
        *optimized("Momentum", t, dtype, **COMMON, mode="nesterov"))),
    *optimized("Adagrad", 2),
    *optimized("Adam", 2),
    *optimized("Momentum", 2, **COMMON, mode="fast", refused="mode must be standard or nesterov"),
    *optimized("Momentum", 2, **COMMON, mode="standard", refused="must be 3 for each"),
]  # fmt: skip
