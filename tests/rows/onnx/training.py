"""ONNX's optimizers, against the specification's formulas in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.rows.row import Row, rows

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
ROWS = [
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
