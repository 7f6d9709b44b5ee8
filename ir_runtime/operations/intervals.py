"""Arithmetic on bounds of whole numbers, in Python's integers, which cannot wrap. This module has no operation."""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import INFINITY, Array, ElementType
from ir_runtime.graph.operation import Bounds

_ENDLESS = 1 << 200
"""Stands for a missing bound: no product or quotient with it comes near a known number."""

_KNOWN = 1 << 100
"""Bounds from here on come from :data:`_ENDLESS`: they are none."""


def ends_of(bounds: Bounds) -> tuple[Array, Array]:
    """Lower and upper bound as Python's integers, which cannot wrap."""
    if bounds.is_exact:
        value = bounds.lower.astype(np.object_)
        return value, value
    exact = bounds.lower == bounds.upper
    lower = np.where(~exact & (bounds.lower == -INFINITY - 1), -_ENDLESS, bounds.lower.astype(np.object_))
    return lower, np.where(~exact & (bounds.upper == INFINITY), _ENDLESS, bounds.upper.astype(np.object_))


def bounds_of_type(low: Array, high: Array, kind: ElementType) -> Bounds | None:
    """Bounds of these ends (Python's integers); None where a value of the type might have wrapped.

    A value without a bound is a dimension, or computed from one, and taken to be far from the limits of its type; or
    nothing is known of it.
    """
    if not kind.is_integral or kind.bits < 32:
        return None
    limits = np.iinfo(kind.dtype)
    least, greatest = max(int(limits.min), -INFINITY - 1), min(int(limits.max), INFINITY)
    lower, upper = [], []
    for a, b in zip(low.reshape(-1).tolist(), high.reshape(-1).tolist()):
        below, above = a <= -_KNOWN and limits.min < 0, b >= _KNOWN
        if not (below or least <= a <= greatest) or not (above or least <= b <= greatest):
            return None
        if (above and a > greatest // 2) or (below and b < least // 2):
            return None
        lower.append(-INFINITY - 1 if below else a)
        upper.append(INFINITY if above else b)
    return Bounds(np.array(lower, np.int64).reshape(low.shape), np.array(upper, np.int64).reshape(low.shape))
