"""Weights that a conversion has scaled: each output channel is the tensor's, times one factor, rounded once.

The file does not hold the factors. But every weight tells between which factors that of its channel lies, and where
these ranges do not meet, a weight is wrong, even by its last bit.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Array, Node, Output
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.records import record

_MIN_SIZE = 4
"""Channels of fewer weights have nearly any factor."""
_UNSCALED_SHARE = 0.5
_MIN_SHARE = 0.5
_SLACK = 1 + 2.0**-10
"""Where a weight was rounded twice, to float32 and then to float16, it is that much further away."""


@record
class ScaledWeights:
    """Mask of the weights without the factor of their channel, in the order of the constant."""

    wrong: Array

    @property
    def reason(self) -> str:
        """The reason why the weights are wrong."""
        flat = self.wrong.reshape(-1)
        return (
            f"{int(flat.sum())} of {flat.size} values are not the constant's times the factor of their channel, the"
            f" first at {int(np.argmax(flat))}"
        )


def channel_axes_of(reader: Node, value: Output) -> tuple[int, ...]:
    """The axes of weights that make an output channel of what reads them; none where they are no weights."""
    if isinstance(reader.op, MatMul1):
        if len(value.shape) != 2 or reader.inputs.count(value) != 1:
            return ()
        is_right = reader.inputs[1] is value
        return (1 - reader.op.transpose_b,) if is_right else (0 + reader.op.transpose_a,)
    axes: tuple[int, ...] = getattr(reader.op, "channel_axes", ())
    return axes if len(reader.inputs) > 1 and reader.inputs[1] is value else ()


def scaled_weights(expected: Array, actual: Array, axes: tuple[int, ...]) -> ScaledWeights | None:
    """Compare ``actual`` with ``expected`` times a factor per channel; None where it is not, or all factors are 1.

    Both have the same shape, of which ``axes`` make the channels.
    """
    expected_channels, held = _by_channel(expected, axes), _by_channel(actual, axes)
    if held.shape[1] < _MIN_SIZE:
        return None
    with np.errstate(all="ignore"):
        rounded = expected_channels.astype(held.dtype)
        unequal = rounded != held
        telling = (rounded != 0) | (held != 0)  # what is zero, or rounded to zero, has every factor
        counts = np.count_nonzero(telling, axis=1)
        is_unscaled = np.count_nonzero(~unequal & telling, axis=1) >= _UNSCALED_SHARE * counts
        if is_unscaled.all():
            return None
        wrong = unequal
        for channel in np.flatnonzero(unequal.any(axis=1)):
            # Small numbers of float16 have so few bits that a factor leaves many of them equal.
            apart = _apart(expected_channels[channel], held[channel])
            if apart.sum() < unequal[channel].sum():
                wrong[channel] = apart
    if np.mean(wrong) > 1 - _MIN_SHARE:
        return None
    order = _channels_first(actual.ndim, axes)
    shape = [actual.shape[axis] for axis in order]
    return ScaledWeights(wrong.reshape(shape).transpose(np.argsort(order)))


def nearest_scaled(expected: Array, actual: Array, axes: tuple[int, ...]) -> Array:
    """``expected`` with the factor for each channel that brings it nearest to ``actual``, in float64."""
    wide = expected.astype(np.float64)
    reduced = tuple(axis for axis in range(actual.ndim) if axis not in axes)
    squares = (wide * wide).sum(axis=reduced, keepdims=True)
    products = (wide * actual).sum(axis=reduced, keepdims=True)
    return np.asarray(wide * np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0))


def _apart(expected_channels: Array, held: Array) -> Array:
    """Return the mask of the values of a channel without the factor that most of the others have."""
    half = np.spacing(np.abs(held)).astype(np.float64) / 2 * _SLACK
    wide, value = expected_channels.astype(np.float64), held.astype(np.float64)
    has_width = wide != 0
    ends = np.sort([(value - half)[has_width] / wide[has_width], (value + half)[has_width] / wide[has_width]], axis=0)
    low, high = ends
    wrong = ~has_width & (held != 0)
    if not has_width.any():
        return wrong
    factor = low.max()
    if not factor <= high.min():
        # The factor that lies in most of the ranges: where they begin one more holds, where they end one less.
        at = np.concatenate([low, high])
        steps = np.concatenate([np.ones(len(low), int), np.full(len(high), -1)])
        order = np.lexsort((-steps, at))
        factor = at[order][np.argmax(np.cumsum(steps[order]))]
    wrong[has_width] = ~((low <= factor) & (factor <= high))
    return wrong


def _channels_first(rank: int, axes: tuple[int, ...]) -> list[int]:
    return [*axes, *(axis for axis in range(rank) if axis not in axes)]


def _by_channel(values: Array, axes: tuple[int, ...]) -> Array:
    """The values as a matrix with a row for each channel."""
    count = int(np.prod([values.shape[axis] for axis in axes]))
    return values.transpose(_channels_first(values.ndim, axes)).reshape(count, -1)
