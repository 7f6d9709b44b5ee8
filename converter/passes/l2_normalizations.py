"""Fuse the node sequence for a division by the Euclidean norm into NormalizeL2.

    x -> ReduceL2 -> Maximum(e) -> n;  x, n -> Divide              becomes      x -> NormalizeL2(e * e, max)
    x -> Power(2) -> ReduceSum -> Maximum(e) -> Sqrt -> n
    x, n -> Divide                                                 becomes      x -> NormalizeL2(e, max)
    x -> Power(2) -> ReduceSum -> Add(e) -> Sqrt -> n
    x, n -> Divide                                                 becomes      x -> NormalizeL2(e, add)

torch writes the first for ``functional.normalize``, TensorFlow the second, by a product with the reciprocal. A norm
without a number that keeps it from 0 stays, and so do floats of 16 bits, which have no such small squares.
"""

from __future__ import annotations

import math

import numpy as np

from ir_runtime.graph import Node, Output, element_types
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Divide1, Maximum1, Power1, Sqrt1
from ir_runtime.operations.normalization import NormalizeL21
from ir_runtime.operations.reduction import ReduceL2_4, ReduceSum1
from ir_runtime.rewriting import (
    Builder,
    Match,
    Pattern,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
    number,
)

from .idioms import has_shape_of, is_real, keeps_dims, plus, times
from .registry import passes

_LEAST_EPSILON = float(np.finfo(np.float32).tiny)
"""Smaller numbers may count as 0."""


def _has_no_upper_limit(value: Output) -> str | None:
    """Clip without an upper limit has that of its type: only a norm that overflows differs, whose quotient is 0."""
    limit = float(np.finfo(np.float32).max)
    return None if value.node.op.max >= limit else "has an upper limit"  # type: ignore[attr-defined]


def _pattern() -> Pattern:
    x, axes, epsilon = anything("x", is_real), constant("axes"), constant("epsilon")
    norm = layer(ReduceL2_4, x, axes, check=keeps_dims)
    limited = either(
        layer(Maximum1, norm, epsilon, name="limited norm"),
        layer(Clamp1, norm, check=_has_no_upper_limit, name="clamped norm"),
    )
    total = layer(ReduceSum1, either(layer(Power1, x, number(2)), times(x, x)), axes, check=keeps_dims)
    largest = layer(Maximum1, total, epsilon, name="limited squares")
    inside = either(largest, plus(total, epsilon))
    root = either(limited, layer(Sqrt1, inside), layer(Power1, inside, number(0.5)))
    reciprocal = either(layer(Divide1, number(1), root), layer(Power1, inside, number(-0.5)))
    return either(layer(Divide1, x, root), times(x, reciprocal))


_QUOTIENT = _pattern()


@passes.fuses("l2_normalizations", _QUOTIENT)
def l2_normalization(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace the norm and the quotient by NormalizeL2."""
    x = match["x"]
    if x.element_type not in (element_types.f32, element_types.f64):
        return fail("the numbers are floats of 16 bits")
    epsilon = _epsilon(match)
    if epsilon is None or not _LEAST_EPSILON <= epsilon < math.inf:
        return fail("what keeps the norm from 0 is not one number of ordinary size")
    if not has_shape_of(node.outputs[0], x) or not match.array("axes").size:
        return fail("its rank is not that of the input, or nothing is summed")
    is_least = any(name in match for name in ("limited norm", "clamped norm", "limited squares"))
    op = NormalizeL21(eps=epsilon, eps_mode="max" if is_least else "add")
    return builder.emit(op, x, builder.constant(match.array("axes").reshape(-1)))


def _epsilon(match: Match) -> float | None:
    """Return the summand of the sum of squares, or its lower bound; None where it is no scalar."""
    if "clamped norm" in match:
        limit = float(match.node("clamped norm").op.min)  # type: ignore[attr-defined]
        return limit * limit if limit > 0 else None
    epsilon = match.array("epsilon")
    if epsilon.size != 1 or not float(epsilon.reshape(-1)[0]) > 0:
        return None
    value = float(epsilon.reshape(-1)[0])
    return value * value if "limited norm" in match else value
