"""Constant factors in a row become one, and so do constant summands.

    x -> Multiply(a) -> Multiply(b)      becomes      x -> Multiply(a * b)
    x -> Add(a) -> Add(b)                becomes      x -> Add(a + b)

Only floats, and only where the result differs by rounding alone: factors of ordinary size, summands that do not round
what is in between. The constant in between is computed in float64 and rounded once.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Array, Node, Operation
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.elementwise import Add1, Multiply1
from ir_runtime.rewriting import Builder, Match, Pattern, Replacement, anything, constant, either, fail, layer

from .idioms import is_real
from .registry import passes

_MAX_BYTES = 1 << 16
"""Larger constants are not read: they are weights."""


def _twice(operation: type[Operation]) -> Pattern:
    inner = layer(operation, anything("x", is_real), constant("a"))
    return layer(operation, inner, constant("b"))


@passes.fuses("factors_in_a_row", either(_twice(Multiply1), _twice(Add1)))
def factor_in_a_row(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace two products or sums by one."""
    operation: type[Operation] = Multiply1 if isinstance(node.op, Multiply1) else Add1
    element_type = match["x"].element_type
    tensors = [match[name].tensor for name in "ab"]
    if any(tensor is None or tensor.byte_size > _MAX_BYTES for tensor in tensors) or element_type.bits < 16:
        return fail("a constant is too large to be looked at, or of a narrow type")
    a, b = (match.array(name).astype(np.float64) for name in "ab")
    largest = max(a.size, b.size)
    with np.errstate(all="ignore"):
        joined = a * b if operation is Multiply1 else a + b
    if joined.size > largest:
        return fail("the constants would become larger")
    info = finfo(element_type)
    usual = _are_usual(info.maxexp, a, b, joined) if operation is Multiply1 else _add_up(info.nmant, a, b, joined)
    if not usual:
        return fail("the constants are not of ordinary size, or round what is in between")
    factor = builder.computed(operation.type, joined, element_type, [match["a"], match["b"]])
    return builder.emit(operation(), match["x"], factor)


def _are_usual(exponent: int, *factors: Array) -> bool:
    """True if no product of a usual number and the factors leaves the range of the type on the way."""
    most = 2.0 ** (exponent / 6)
    return all(bool(((1 / most <= np.abs(each)) & (np.abs(each) <= most)).all()) for each in factors)


def _add_up(digits: int, a: Array, b: Array, total: Array) -> bool:
    """True if the summands add up, or are so small that nobody uses them to round what is in between.

    Adding a large number and taking it away again rounds to whole numbers. Otherwise the sum of constants is as exact
    as the two sums are, or more so.
    """
    largest = np.maximum(np.abs(a), np.abs(b))
    return bool((np.isfinite(total) & ((np.abs(total) >= largest) | (largest <= 2.0 ** (digits / 3)))).all())
