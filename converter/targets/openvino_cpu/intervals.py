"""Analysis of the integers that float32 holds.

The plug-in computes much with integers in float32, which tells whole numbers apart up to 2^24. Rules leave a
layer as it is where its values are known to be no larger.
"""

from __future__ import annotations

from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph import Output

EXACT = (1 << 24) - 1
"""The greatest number that float32 tells from its successor."""
_OF_DIMENSIONS = EXACT // 2
"""Assumed upper bound of dimensions; sums of two are exact, too.

Models compute with dimensions all the time, and hardly ever with larger ones.
"""


def is_small(value: Output, limit: int = EXACT) -> bool:
    """True if no number of the tensor is beyond ``limit``, or if it has no integers."""
    if not value.element_type.is_integral:
        return True
    low, high = interval_of(value)
    return -limit <= low and high <= limit


def interval_of(value: Output) -> tuple[float, float]:
    """The least and the greatest integer that the tensor can have."""
    return value_range(value, _OF_DIMENSIONS)[:2]
