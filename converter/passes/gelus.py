"""Fuse the node sequence that exporters emit for GELU, exact or by the hyperbolic tangent.

    x -> Divide(sqrt 2) -> Erf -> Add(1) -> t          becomes      x -> Gelu(ERF)
    x, t, 0.5 -> Multiply, Multiply

    x, x^3 * 0.044715 -> Add -> Multiply(sqrt(2 / pi)) -> Tanh -> Add(1) -> t
    x, t, 0.5 -> Multiply, Multiply                    becomes      x -> Gelu(TANH)

Factors and summands come in any order, and constants as quotients or products: torch, Transformers, tf2onnx and Keras
each have an order of their own.
"""

from __future__ import annotations

import math

from ir_runtime.graph import Node
from ir_runtime.operations.activation import Gelu7
from ir_runtime.operations.elementwise import Erf1, Power1, Tanh1
from ir_runtime.rewriting import Builder, Match, Pattern, Replacement, anything, either, fail, layer, number

from .idioms import divided_by, has_shape_of, is_real, plus, times
from .registry import passes

_CUBIC = 0.044715
_SLOPE = math.sqrt(2 / math.pi)


def _half_product(x: Pattern, total: Pattern) -> Pattern:
    """x * total / 2, in the three orders."""
    return either(times(divided_by(x, 2), total), divided_by(times(x, total), 2), times(x, divided_by(total, 2)))


def _exact() -> Pattern:
    x = anything("x", is_real)
    return _half_product(x, plus(layer(Erf1, divided_by(x, math.sqrt(2)), name="erf"), number(1)))


def _approximate() -> Pattern:
    x = anything("x", is_real)
    square = either(times(x, x), layer(Power1, x, number(2)))
    cube = either(layer(Power1, x, number(3)), times(x, square))
    small = either(times(square, number(_CUBIC)), times(x, times(x, number(_CUBIC))))
    polynomial = plus(x, either(times(cube, number(_CUBIC)), times(x, small)))
    # x (1 + c x^2), as Keras and Bloom have it
    grown = plus(number(1), small)
    inner = either(times(either(polynomial, times(x, grown)), number(_SLOPE)), times(times(x, number(_SLOPE)), grown))
    return _half_product(x, plus(layer(Tanh1, inner), number(1)))


_PATTERN = either(_exact(), _approximate())


@passes.fuses("gelus", _PATTERN)
def gelu(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace the product by Gelu."""
    if not has_shape_of(node.outputs[0], match["x"]):
        return fail("its rank is not that of the input")
    mode = "ERF" if "erf" in match else "TANH"
    return builder.emit(Gelu7(approximation_mode=mode), match["x"])
