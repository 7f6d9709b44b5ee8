"""Weights that a conversion has scaled: each output channel is the tensor's, times one factor, rounded once.

The file does not hold the factors. But every weight tells between which factors that of its channel lies, and where
these ranges do not meet, a weight is wrong, even by its last bit, which no comparison of layers shows.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.matmul import MatMul1

_MIN_SIZE = 4
"""Channels of fewer weights have nearly any factor."""
_SLACK = 1 + 2.0**-10
"""Where a weight was rounded twice, to float32 and then to float16, it is that much further away."""


def channel_axes_of(reader: Node, value: Output) -> tuple[int, ...]:
    """The axes of weights that make an output channel of what reads them; none where they are no weights."""
    if isinstance(reader.op, MatMul1):
        if len(value.shape) != 2 or reader.inputs.count(value) != 1:
            return ()
        is_right = reader.inputs[1] is value
        return (1 - reader.op.transpose_b,) if is_right else (0 + reader.op.transpose_a,)
    axes: tuple[int, ...] = getattr(reader.op, "channel_axes", ())
    return axes if len(reader.inputs) > 1 and reader.inputs[1] is value else ()


def find_unscaled(expected: Array, actual: Array, axes: tuple[int, ...]) -> Array:
    """Return the mask of the values that are not those of ``expected`` times the factor of their channel.

    Both have the same shape, of which ``axes`` make the channels. Small channels have no factor: each value counts.
    """
    order = [*axes, *(axis for axis in range(actual.ndim) if axis not in axes)]
    count = int(np.prod([actual.shape[axis] for axis in axes]))
    channels, held = (values.transpose(order).reshape(count, -1) for values in (expected, actual))
    if held.shape[1] < _MIN_SIZE:
        return np.ones(actual.shape, bool)
    wrong = np.array([_find_outliers(channel, stored) for channel, stored in zip(channels, held)])
    return wrong.reshape([actual.shape[axis] for axis in order]).transpose(np.argsort(order))


def _find_outliers(channel: Array, held: Array) -> Array:
    """Return the mask of the values without the factor that most of the others have."""
    wide, value = channel.astype(np.float64), held.astype(np.float64)
    is_zero = wide == 0
    with np.errstate(all="ignore"):
        half = np.spacing(np.abs(held)).astype(np.float64) / 2 * _SLACK
        low, high = np.sort([(value - half) / wide, (value + half) / wide], axis=0)
    low[is_zero], high[is_zero] = -np.inf, np.inf
    # The factor that lies in most of the ranges: where they begin one more holds, where they end one less.
    bounds = np.concatenate([low, high])
    steps = np.repeat([1, -1], len(low))
    order = np.lexsort((-steps, bounds))
    factor = bounds[order][np.argmax(np.cumsum(steps[order]))]
    return np.where(is_zero, value != 0, ~((low <= factor) & (factor <= high)))
