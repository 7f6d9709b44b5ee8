"""Between which numbers the integers of a tensor lie, and so which of them float32 holds.

The plug-in computes much with integers in float32, which tells whole numbers apart up to 2^24. Rules leave a
layer as it is where constants, types, inferred bounds and the layers before it show that no number is larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ir_runtime.graph import INFINITY, Node, Output, element_types
from ir_runtime.graph.operation import Operation
from ir_runtime.operations import elementwise, generation, indexing, movement, reduction, sorting

Interval = tuple[float, float]
"""The ends of those of integers are integers."""

EXACT = (1 << 24) - 1
"""The greatest number that float32 tells from its successor."""
OF_DIMENSIONS = EXACT // 2
"""What numbers made from dynamic dimensions are taken to stay below; sums of two are exact, too."""
_SCAN_LIMIT = 1 << 22
"""Bytes of a constant that are worth reading to learn how large its values are."""
_FLOATS = (element_types.f32, element_types.f64)
_ROUNDING = 2.0**-22
"""How far rounding moves a float at most, as a part of it, in one layer."""
_DEEPEST = 5
"""How many layers back the values are looked for."""


def is_small(value: Output, limit: int = EXACT) -> bool:
    """Whether no number that the tensor may have is beyond ``limit``, or they are no integers."""
    if not value.element_type.is_integral:
        return True
    low, high = interval_of(value)
    return -limit <= low and high <= limit


def interval_of(value: Output, deepest: int = _DEEPEST) -> Interval:
    """The least and the greatest integer that the tensor may have.

    Bounds without an end are those of numbers that are made from dimensions, and these count as numbers that
    float32 holds: models compute with dimensions all the time, and hardly ever with larger ones.
    """
    kind = value.element_type
    if kind is element_types.boolean:
        return 0, 1
    whole = kind.limits
    bounds = value.type.known_bounds
    if bounds is not None:
        if not bounds.lower.size:
            return 0, 0
        low, high = int(bounds.lower.min()), int(bounds.upper.max())
        return (-OF_DIMENSIONS if low <= -INFINITY else low), (OF_DIMENSIONS if high >= INFINITY else high)
    tensor = value.tensor
    if tensor is not None:
        values = tensor.array() if tensor.byte_size <= _SCAN_LIMIT else None
        if values is None:
            return whole
        return (int(values.min()), int(values.max())) if values.size else (0, 0)
    if not deepest:
        return whole
    found = _followed(value, deepest)
    # What the type does not hold may have wrapped.
    return found if found is not None and whole[0] <= found[0] and found[1] <= whole[1] else whole


def _interval_of_floats(value: Output, deepest: int) -> Interval | None:
    """The least and the greatest float that are made from integers; None where they are not, or are not finite.

    Exporters compute with lengths as floats: Convert, Divide, Ceiling, Convert back.
    """
    tensor = value.tensor
    if tensor is not None:
        values = tensor.array() if 0 < tensor.byte_size <= _SCAN_LIMIT else None
        found = None if values is None else (float(values.min()), float(values.max()))
    else:
        found = _followed(value, deepest) if deepest else None
    if found is None or not all(math.isfinite(end) for end in found):
        return None
    low, high = found
    return low - abs(low) * _ROUNDING, high + abs(high) * _ROUNDING


def _followed(value: Output, deepest: int) -> Interval | None:
    """What follows from the inputs of the layer that makes the value."""
    if value.node.op.movement:
        return _Source(value.node.inputs[0], deepest - 1).interval
    for operations, follow in _FOLLOWED:
        if isinstance(value.node.op, operations):
            return follow(value, value.node, [_Source(source, deepest - 1) for source in value.node.inputs])
    return None


class _Source:
    """An input of a layer, whose interval is looked for when it is asked for."""

    def __init__(self, value: Output, deepest: int) -> None:
        self.value = value
        self._deepest = deepest

    @property
    def interval(self) -> Interval | None:
        """None where the input's type has none. Those of floats have floats for ends."""
        kind = self.value.element_type
        if kind in _FLOATS:
            return _interval_of_floats(self.value, self._deepest)
        if not (kind.is_integral or kind is element_types.boolean):
            return None
        return interval_of(self.value, self._deepest)


_Follow = Callable[[Output, Node, Sequence[_Source]], Interval | None]


def _of_first(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    return sources[0].interval


def _converted(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    """Of floats that become integers, without their fraction."""
    known = sources[0].interval
    if known is None or not value.element_type.is_integral:
        return known
    return math.trunc(known[0]), math.trunc(known[1])


def _of_any(first: int) -> _Follow:
    """The values of the inputs from ``first`` on, mixed."""

    def follow(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
        found = [source.interval for source in sources[first:]]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        return min(low for low, _ in known), max(high for _, high in known)

    return follow


def _between(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    """Of a range: from the start to the stop, whichever is greater."""
    start, stop, step = (source.interval for source in sources)
    if start is None or stop is None or step is None:
        return None
    return min(start[0], stop[0]), max(start[1], stop[1])


def _of_ends(kernel: Callable[[float, float], float]) -> _Follow:
    """Of a sum, a difference, a product ...: its values where both inputs are at an end."""

    def follow(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
        a, b = (source.interval for source in sources)
        if a is None or b is None:
            return None
        corners = [kernel(x, y) for x in a for y in b]
        return min(corners), max(corners)

    return follow


def _quotient(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    a, b = (source.interval for source in sources)
    if a is None or b is None or b[0] <= 0 <= b[1]:
        return None
    corners = [x / y for x in a for y in b]
    # Quotients of integers are cut off, or rounded down.
    is_whole = value.element_type.is_integral
    return (math.floor(min(corners)), math.ceil(max(corners))) if is_whole else (min(corners), max(corners))


def _rounded(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    known = sources[0].interval
    return None if known is None else (math.floor(known[0]), math.ceil(known[1]))


def _of_positions(value: Output, node: Node, sources: Sequence[_Source]) -> Interval:
    return 0, OF_DIMENSIONS


def _of_most_frequent(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    return _of_positions(value, node, sources) if value is node.outputs[1] else sources[0].interval


def _of_magnitude(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    known = sources[0].interval
    return None if known is None else (0, max(abs(known[0]), abs(known[1])))


def _of_remainder(value: Output, node: Node, sources: Sequence[_Source]) -> Interval | None:
    a, b = (source.interval for source in sources)
    if a is None or b is None:
        return None
    most = max(abs(b[0]), abs(b[1]))
    return (-most if a[0] < 0 or b[0] < 0 else 0), most


_FOLLOWED: Sequence[tuple[tuple[type[Operation], ...], _Follow]] = (
    ((reduction.ReduceMax1, reduction.ReduceMin1), _of_first),
    ((elementwise.Convert1,), _converted),
    ((elementwise.Divide1,), _quotient),
    ((elementwise.Ceiling1, elementwise.Floor1, elementwise.Round5), _rounded),
    ((movement.Concat1,), _of_any(0)),
    ((elementwise.Select1,), _of_any(1)),
    ((elementwise.Add1,), _of_ends(lambda a, b: a + b)),
    ((elementwise.Subtract1,), _of_ends(lambda a, b: a - b)),
    ((elementwise.Multiply1,), _of_ends(lambda a, b: a * b)),
    ((elementwise.Maximum1,), _of_ends(max)),
    ((elementwise.Minimum1,), _of_ends(min)),
    ((elementwise.Abs1,), _of_magnitude),
    ((elementwise.Mod1, elementwise.FloorMod1), _of_remainder),
    ((generation.Range4,), _between),
    ((generation.ShapeOf3, indexing.NonZero3), _of_positions),
    ((sorting.TopK3, sorting.TopK11), _of_most_frequent),
)
"""How an interval follows from those of the inputs."""
