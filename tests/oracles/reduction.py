"""The reductions straight from the ONNX specification: exact Python integers, or float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np


def _mean(values: Sequence[Any]) -> Any:
    if not values:
        return math.nan
    total = sum(values) if isinstance(values[0], int) else math.fsum(values)
    if isinstance(values[0], int):
        return math.trunc(Fraction(total, len(values)))
    return total / len(values)


_KERNELS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "ReduceMean": _mean,
    "ReduceSum": sum,
    "ReduceL1": lambda values: sum(abs(v) for v in values),
    "ReduceL2": lambda values: math.sqrt(sum(v * v for v in values)),
    "ReduceSumSquare": lambda values: sum(v * v for v in values),
    "ReduceProd": math.prod,
    "ReduceMax": lambda values: max(values, default=-math.inf),
    "ReduceMin": lambda values: min(values, default=math.inf),
    "ReduceLogSum": lambda values: math.log(sum(values)) if sum(values) > 0 else -math.inf,
    "ReduceLogSumExp": lambda values: math.log(sum(math.exp(v) for v in values)) if values else -math.inf,
}


def _wrapped(value: Any, dtype: np.dtype[Any]) -> Any:
    """What an integer type holds of an exact result."""
    bits = np.iinfo(dtype).bits
    low = int(value) % (1 << bits)
    return low - (1 << bits) if dtype.kind == "i" and low >= 1 << (bits - 1) else low


def reduce(
    op_type: str, x: np.ndarray, axes: Sequence[int] | None, keepdims: bool, noop_with_empty_axes: bool = False
) -> np.ndarray:
    """The specification's answer, in the type of ``x``."""
    if axes is None or len(axes) == 0:
        axes = [] if noop_with_empty_axes else list(range(x.ndim))
    reduced = sorted(axis % x.ndim for axis in axes) if x.ndim else []
    kept = [axis for axis in range(x.ndim) if axis not in reduced]
    exact = x.dtype.kind in "iu"
    moved = np.transpose(x, kept + reduced).reshape([x.shape[axis] for axis in kept] + [-1] if x.size else [0])
    shape = [1 if axis in reduced else n for axis, n in enumerate(x.shape)]
    count = math.prod(x.shape[axis] for axis in reduced)
    cells = moved.reshape(-1, count) if count else np.empty((math.prod(shape), 0), x.dtype)
    kernel = _KERNELS[op_type]
    results = [kernel([int(v) if exact else float(v) for v in row]) for row in cells]
    if exact:
        results = [_wrapped(value, x.dtype) for value in results]
    out = np.array(results, x.dtype if exact else np.float64).reshape(shape)
    out = out.astype(x.dtype)
    return out if keepdims else out.reshape([n for axis, n in enumerate(x.shape) if axis not in reduced])
