"""Analysis of integers that float32 represents exactly.

The plug-in computes many integer layers in float32, which represents all integers up to 2^24 exactly. Rules leave a
layer as it is where the analysis shows that its values are no larger.
"""

from __future__ import annotations

from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import Output

EXACT = (1 << 24) - 1
"""The largest integer that float32 distinguishes from both of its neighbors."""
_MAX_DIMENSION = EXACT // 2
"""Assumed upper bound of dimensions; sums of two are exact, too.

Models compute with dimensions all the time, and hardly ever with larger ones.
"""


def is_small(value: Output, limit: int = EXACT) -> bool:
    """True if the magnitudes of the tensor's integers are at most ``limit``, or if it is not of integers."""
    if not value.element_type.is_integral:
        return True
    low, high = interval_of(value)
    return -limit <= low and high <= limit


def interval_of(value: Output) -> tuple[float, float]:
    """Return the least and the greatest integer that the tensor can have."""
    return value_range(value, _MAX_DIMENSION)[:2]
