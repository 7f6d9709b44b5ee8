"""AveragePool straight from the words of the ONNX specification: loops over windows, in float64.

Slow and plain on purpose: it shares nothing with the code under test.
https://onnx.ai/onnx/operators/onnx__AveragePool.html
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np


def geometry(
    dimension: int, kernel: int, stride: int, dilation: int, begin: int, end: int, auto_pad: str, ceil_mode: int
) -> tuple[int, int, int]:
    """(output dimension, padding in front, padding behind) of one spatial dimension."""
    span = (kernel - 1) * dilation + 1
    if auto_pad.startswith("SAME"):
        count = math.ceil(dimension / stride)
        total = max((count - 1) * stride + span - dimension, 0)
        small, large = total // 2, total - total // 2
        return (count, small, large) if auto_pad == "SAME_UPPER" else (count, large, small)
    if auto_pad == "VALID":
        begin = end = 0
    steps = (dimension + begin + end - span) / stride
    count = (math.ceil(steps) if ceil_mode else math.floor(steps)) + 1
    # "windows that would start in the right padded region are ignored"
    if ceil_mode and (count - 1) * stride >= dimension + begin:
        count -= 1
    return count, begin, end


def average_pool(
    x: np.ndarray,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> np.ndarray:
    """The specification's AveragePool of ``[N, C, ...]`` in float64."""
    rank = len(kernel_shape)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * (2 * rank)
    plan = [
        geometry(
            x.shape[2 + i], kernel_shape[i], strides[i], dilations[i], pads[i], pads[rank + i], auto_pad, ceil_mode
        )
        for i in range(rank)
    ]
    out = np.empty([*x.shape[:2], *(count for count, _, _ in plan)], np.float64)
    for cell in itertools.product(*(range(count) for count, _, _ in plan)):
        total, divisor = np.zeros(x.shape[:2], np.float64), 0
        for taps in itertools.product(*(range(k) for k in kernel_shape)):
            at = [c * s + t * d - plan[i][1] for i, (c, s, t, d) in enumerate(zip(cell, strides, taps, dilations))]
            on_data = all(0 <= a < n for a, n in zip(at, x.shape[2:]))
            on_padding = all(-p[1] <= a < n + p[2] for a, n, p in zip(at, x.shape[2:], plan))
            if on_data:
                total += x[(slice(None), slice(None), *at)].astype(np.float64)
            divisor += on_data or (bool(count_include_pad) and on_padding)
        with np.errstate(invalid="ignore"):
            out[(slice(None), slice(None), *cell)] = np.divide(total, divisor)
    return out
