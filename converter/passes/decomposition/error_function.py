"""The inverse of the error function, by quotients of polynomials."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.error_function import END, MIDDLE, OUTER, ErfInv17
from ir_runtime.rewriting.expressions import Expression, where


def _ratio(coefficients: tuple[Sequence[float], Sequence[float]], x: Expression) -> Expression:
    """The quotient of two polynomials, by Horner's rule from the highest power down."""
    above, below = (
        functools.reduce(lambda value, fraction: value * x + fraction, rest, x.of(first))
        for first, *rest in coefficients
    )
    return above / below


@decomposes(ErfInv17)
def erf_inv(op: ErfInv17, x: Expression) -> Expression:
    """Quotients of polynomials in float64: in the middle, towards the ends and at the ends"""
    half = x.as_type("f64") * 0.5
    reach = abs(half)
    middle = half * _ratio(MIDDLE, 0.180625 - half * half)
    # The depth is infinite at -1 and 1, and NaN beyond.
    depth = (-(0.5 - reach).log()).sqrt()
    tail = where(depth > 5, _ratio(END, depth - 5), _ratio(OUTER, depth - 1.6))
    tail = where(reach.equal(0.5), tail.of(np.inf), tail) * half.sign()
    return (where(reach <= 0.425, middle, tail) / np.sqrt(2)).as_type(x.element_type)
