"""Ranges of values: the least and the greatest value that a tensor can have, as far as its layers tell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ir_runtime.errors import ModelError
from ir_runtime.graph import INFINITY, Array, ElementType, Output, element_types
from ir_runtime.graph.value_ranges import UNBOUNDED, Range, range_of

_SCAN_LIMIT = 1 << 22
"""Bytes of a constant that are worth reading to learn how large its values are."""
_DEEPEST = 12
"""Maximum number of layers that values are followed back."""


class ValueRange(NamedTuple):
    """Each element lies in ``[low, high]``, or is NaN where ``may_be_nan``. Ends are integers for integers."""

    low: float
    high: float
    may_be_nan: bool = False


def value_range(value: Output, largest_dimension: int = INFINITY) -> ValueRange:
    """The range of the elements of a tensor that has some.

    The operations that compute it answer, see :meth:`~ir_runtime.graph.operation.Operation.value_range`; where they do
    not, the range is that of the type, or infinite. Ranges of integers that may have wrapped are those of the type;
    ends of floating-point values include one rounding of each layer. A dimension without a bound counts as at most
    ``largest_dimension``.
    """
    return _Ranges(largest_dimension).of(value, _DEEPEST)


class _Ranges:
    """The ranges that one question needs."""

    def __init__(self, largest_dimension: int) -> None:
        self._largest = largest_dimension
        self._ranges: dict[Output, ValueRange] = {}

    def of(self, value: Output, deepest: int) -> ValueRange:
        if value not in self._ranges:
            self._ranges[value] = self._compute_range(value, deepest)
        return self._ranges[value]

    def _compute_range(self, value: Output, deepest: int) -> ValueRange:
        element_type = value.element_type
        if element_type is element_types.boolean:
            return ValueRange(0, 1)
        unknown = _of_type(element_type)
        bounds = value.type.known_bounds
        if bounds is not None:
            if not bounds.lower.size:
                return ValueRange(0, 0)
            low, high = range_of(bounds)
            return self._of_integers(low.min(), high.max(), element_type) or unknown
        if value.tensor is not None:
            return _of_constant(value.tensor.array()) if value.tensor.byte_size <= _SCAN_LIMIT else unknown
        if not deepest or not (element_type.is_integral or element_type.is_real):
            return unknown
        return self._compute(value, deepest - 1) or unknown

    def _compute(self, value: Output, deepest: int) -> ValueRange | None:
        """The range that follows from those of the inputs; None where nothing does."""
        node, element_type = value.node, value.element_type
        inputs = [self.of(source, deepest) for source in node.inputs]
        ranges = [_as_arrays(source_range, source.element_type) for source_range, source in zip(inputs, node.inputs)]
        try:
            with np.errstate(all="ignore"):
                result = node.op.value_range(ranges, node.outputs.index(value))
        except (ArithmeticError, ValueError, ModelError):  # values that the operation is not defined for
            return None
        if result is None:
            return None
        low, high = result[0].item(), result[1].item()
        if math.isnan(low) or math.isnan(high):
            return None
        may_be_nan = any(source_range.may_be_nan for source_range in inputs)
        if element_type.is_integral:
            return None if may_be_nan else self._of_integers(low, high, element_type)
        if not node.op.moved_inputs(len(inputs)):
            # A product with 0, a difference of infinities ...
            may_be_nan |= any(math.isinf(end) for source_range in inputs for end in source_range[:2])
            exact = {end for source_range in inputs for end in source_range[:2]}
            low, high = (_round(end, element_type, down, end in exact) for end, down in ((low, True), (high, False)))
        return ValueRange(low, high, may_be_nan)

    def _of_integers(self, low: float, high: float, element_type: ElementType) -> ValueRange | None:
        """None for what the type does not hold, which may have wrapped."""
        if math.isinf(low) or math.isinf(high):
            return None
        least, most = element_type.limits
        low = max(least, -self._largest - 1) if low <= -UNBOUNDED else math.floor(low)
        high = min(most, self._largest) if high >= UNBOUNDED else math.ceil(high)
        return ValueRange(low, high) if least <= low and high <= most else None


def _of_type(element_type: ElementType) -> ValueRange:
    if element_type.is_integral:
        return ValueRange(*element_type.limits)
    return ValueRange(-math.inf, math.inf, True)


def _of_constant(values: Array) -> ValueRange:
    if not values.size:
        return ValueRange(0, 0)
    if values.dtype.kind in "iu":
        return ValueRange(int(values.min()), int(values.max()))
    numbers = np.asarray(values, np.float64)
    may_be_nan = bool(np.isnan(numbers).any())
    if may_be_nan and np.isnan(numbers).all():
        return ValueRange(0.0, 0.0, True)
    return ValueRange(float(np.nanmin(numbers)), float(np.nanmax(numbers)), may_be_nan)


def _as_arrays(values: ValueRange, element_type: ElementType) -> Range:
    dtype = np.float64 if element_type.is_real else np.object_
    return np.array([values.low], dtype), np.array([values.high], dtype)


def _round(end: float, element_type: ElementType, down: bool, is_exact: bool) -> float:
    """An end of a range, moved outwards as far as one rounding in the type moves a number.

    An end that an input has already is not rounded where the type holds it: Maximum and its like only choose.
    """
    outwards = -1 if down else 1
    with np.errstate(over="ignore"):
        nearest = float(np.asarray(end, np.float64).astype(element_type.dtype).astype(np.float64))
    if nearest == outwards * math.inf or (is_exact and nearest == end):
        return nearest
    info = element_types.finfo(element_type)
    moved = end + outwards * (abs(end) * 2 * float(info.eps) + float(info.smallest_normal))
    # Rounding does not change a sign.
    if down and end >= 0:
        return max(moved, 0.0)
    return min(moved, 0.0) if not down and end <= 0 else moved
