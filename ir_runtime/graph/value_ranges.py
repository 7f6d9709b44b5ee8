"""Ranges of values: bounds of the elements of small integer tensors, and interval arithmetic.

A :data:`Range` is a pair of arrays, the least and the greatest value of each element: Python's integers, which
cannot wrap, in arrays of objects for integers and booleans, and float64 for floating-point types. Arrays of one
element are the ends of all elements of a tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..records import record
from .element_types import Array, ElementType
from .shapes import INFINITY, Dimension

Range = tuple[Array, Array]

_ENDLESS = 1 << 300
"""Stands for a missing bound: no product or quotient with it comes near a product of numbers of 64 bits."""

UNBOUNDED = 1 << 200
"""Ends from here on stand for a missing bound."""

DIMENSION: Range = (np.array([0], np.object_), np.array([_ENDLESS], np.object_))
"""The range of dimensions, positions and counts."""


@record
class Bounds:
    """Bounds of a small integer tensor's values: each lies in ``[lower, upper]``.

    The least and the greatest int64 stand for no bound; a u64 without an upper bound may exceed int64.
    """

    lower: Array
    upper: Array

    def __init__(self, lower: Array, upper: Array) -> None:
        values = self.__dict__
        # ``evaluate`` returns plain numbers where arrays have no dimensions.
        values["lower"], values["upper"] = np.asarray(lower), np.asarray(upper)

    @property
    def is_exact(self) -> bool:
        return self.lower is self.upper or self.lower.tolist() == self.upper.tolist()

    def dimensions(self) -> list[Dimension]:
        """The values as dimensions; negative ones count as unknown."""
        pairs = zip(self.lower.reshape(-1).tolist(), self.upper.reshape(-1).tolist())
        return [Dimension(low, high) if low >= 0 else Dimension() for low, high in pairs]


def equal_bounds(bounds: Bounds | None, other: Bounds | None) -> bool:
    """True if both bounds are the same, or neither is known."""
    if bounds is other or bounds is None or other is None:
        return bounds is other
    return np.array_equal(bounds.lower, other.lower) and np.array_equal(bounds.upper, other.upper)


def range_of(bounds: Bounds) -> Range:
    """The bounds as Python's integers; a missing one is beyond every number of 64 bits."""
    if bounds.is_exact:
        value = bounds.lower.astype(np.object_)
        return value, value
    exact = bounds.lower == bounds.upper
    lower = np.where(~exact & (bounds.lower == -INFINITY - 1), -_ENDLESS, bounds.lower.astype(np.object_))
    return lower, np.where(~exact & (bounds.upper == INFINITY), _ENDLESS, bounds.upper.astype(np.object_))


def bounds_of(values: Range, element_type: ElementType) -> Bounds | None:
    """The range of each element as bounds; None where a value of the type might have wrapped.

    A value without a bound is a dimension, or computed from one, and taken to be far from the limits of its type; or
    nothing is known of it.
    """
    low, high = values
    if not element_type.is_integral or element_type.bits < 32 or low.dtype != np.object_:
        return None
    limits = np.iinfo(element_type.dtype)
    least, greatest = max(int(limits.min), -INFINITY - 1), min(int(limits.max), INFINITY)
    lower, upper = [], []
    for a, b in zip(low.reshape(-1).tolist(), high.reshape(-1).tolist()):
        below, above = a <= -UNBOUNDED and limits.min < 0, b >= UNBOUNDED
        if not (below or least <= a <= greatest) or not (above or least <= b <= greatest):
            return None
        if (above and a > greatest // 2) or (below and b < least // 2):
            return None
        lower.append(-INFINITY - 1 if below else a)
        upper.append(INFINITY if above else b)
    return Bounds(np.array(lower, np.int64).reshape(low.shape), np.array(upper, np.int64).reshape(low.shape))


def hull(ranges: Iterable[Range]) -> Range:
    """The least range that holds all of these, element by element."""
    lows, highs = zip(*ranges)
    return _extremes(lows)[0], _extremes(highs)[1]


def values_and_positions(op: object, inputs: Sequence[Range], output: int = 0) -> Range:
    """The ranges of an operation that chooses elements of its first input, and returns their positions, too."""
    return DIMENSION if output else inputs[0]


def values_and_zeros(op: object, inputs: Sequence[Range], output: int = 0) -> Range:
    """The range of the elements of the first input, zeros, and what lies between."""
    zero = np.zeros_like(inputs[0][0])
    return hull([inputs[0], (zero, zero)])


def positions(op: object, inputs: Sequence[Range], output: int = 0) -> Range:
    """The range of an operation that returns positions."""
    return DIMENSION


def corners(function: Callable[..., Any], ranges: Sequence[Range], turning_points: Sequence[float] = ()) -> Range:
    """The least and the greatest value of a function that is monotonic in each argument.

    The first argument may have turning points, between which the function is monotonic.
    """
    shape = np.broadcast_shapes(*[low.shape for low, _ in ranges])
    points: list[list[Array]] = [[low] if low is high else [low, high] for low, high in ranges]
    if len(points[0]) > 1:
        low, high = ranges[0]
        points[0].extend(np.minimum(np.maximum(low, turn), high) for turn in turning_points)
    # NumPy returns plain numbers for arrays of objects without dimensions.
    values = [function(*map(np.atleast_1d, chosen)) for chosen in itertools.product(*points)]
    least, most = _extremes(values)
    return least.reshape(shape), most.reshape(shape)


def _extremes(values: Sequence[Any]) -> Range:
    stacked = np.stack(np.broadcast_arrays(*values))
    if stacked.dtype == np.object_ and any(isinstance(element, float) for element in stacked.reshape(-1).tolist()):
        stacked = stacked.astype(np.float64)  # a square root of integers, which may be NaN
    # For scalars min and max return plain numbers.
    return np.asarray(stacked.min(axis=0), stacked.dtype), np.asarray(stacked.max(axis=0), stacked.dtype)
