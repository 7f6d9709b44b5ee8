"""Fuse the node sequences that exporters emit for activations into the layers of the IR.

x -> Sigmoid -> Multiply(x)                              becomes      x -> Swish
x -> Multiply(beta) -> Sigmoid -> Multiply(x)            becomes      x -> Swish(beta)
x -> Add(3) -> Clamp(0, 6) -> Divide(6)                  becomes      x -> HSigmoid
x -> HSigmoid, or HardSigmoid(1 / 6, 0.5) -> Multiply(x) becomes      x -> HSwish
x -> Exp -> Add(1) -> Log                                becomes      x -> SoftPlus
x -> SoftPlus -> Tanh -> Multiply(x)                     becomes      x -> Mish
x -> Abs -> Add(1) -> s;  x, s -> Divide                 becomes      x -> SoftSign
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ir_runtime.graph import Node, Operation, Output, normalize_axis
from ir_runtime.operations import activation as ir
from ir_runtime.operations import elementwise
from ir_runtime.operations.activation import Clamp1, Gelu7, LogSoftmax5, PReLU1, ReLU1, SoftMax8
from ir_runtime.operations.reduction import ReduceMax1, ReduceSum1
from ir_runtime.rewriting import Builder, Match, Pattern, Replacement, anything, constant, either, fail, layer, number

from .idioms import divided_by, has_shape_of, is_real, is_stored, keeps_dims, of_channels, plus, times
from .registry import passes


def _one_element(value: Output) -> str | None:
    values = value.type.constant
    return None if values is not None and values.size == 1 else "has more than one element"


def _clamps_from_0_to_6(value: Output) -> str | None:
    op = value.node.op
    assert isinstance(op, ir.Clamp1)
    return None if (op.min, op.max) == (0, 6) else f"clamps from {op.min:g} to {op.max:g}"


def _swish(x: Pattern) -> Pattern:
    return times(x, layer(ir.Sigmoid1, either(x, times(x, constant("beta", _one_element)))))


def _hsigmoid(x: Pattern) -> Pattern:
    return divided_by(_clamp(x), 6)


def _clamp(x: Pattern) -> Pattern:
    return layer(ir.Clamp1, plus(x, number(3)), check=_clamps_from_0_to_6)


def _hswish(x: Pattern) -> Pattern:
    hard = either(_hsigmoid(x), layer(ir.HSigmoid5, x), layer(ir.HardSigmoid1, x, number(1 / 6), number(0.5)))
    # The division may come before or after the product with x.
    return either(times(x, hard), divided_by(times(x, _clamp(x)), 6), times(divided_by(x, 6), _clamp(x)))


def _of(write: Callable[[Pattern], Pattern]) -> Pattern:
    return write(anything("x", is_real))


def _inputs(builder: Builder, match: Match) -> list[Output]:
    x = match["x"]
    return [x, builder.like(match.array("beta").reshape(()), x)] if "beta" in match else [x]


def _register(name: str, pattern: Pattern, op: type[Operation]) -> None:
    """Register the pass that fuses ``pattern`` into one activation."""

    def fuse(builder: Builder, node: Node, match: Match) -> Replacement:
        if not has_shape_of(node.outputs[0], match["x"]):
            return fail("its rank is not that of the input")
        return builder.emit(op(), *_inputs(builder, match))

    fuse.__doc__ = f"Replace the layers that exporters emit for {op.type} by that layer."
    passes.fuses(name, pattern)(fuse)


_register("swishes", _of(_swish), ir.Swish4)
_register("hswishes", _of(_hswish), ir.HSwish4)
_register("hsigmoids", _of(_hsigmoid), ir.HSigmoid5)
_register(
    "softpluses", _of(lambda x: layer(elementwise.Log1, plus(layer(elementwise.Exp1, x), number(1)))), ir.SoftPlus4
)
_register("mishes", _of(lambda x: times(x, layer(elementwise.Tanh1, layer(ir.SoftPlus4, x)))), ir.Mish4)
_register(
    "softsigns", _of(lambda x: layer(elementwise.Divide1, x, plus(layer(elementwise.Abs1, x), number(1)))), ir.SoftSign9
)


@passes.replaces("clamps")
def clamp(builder: Builder, node: Node) -> Replacement:
    """Join limits from below and above to one Clamp.

        x -> Maximum(a) -> Minimum(b)      becomes      x -> Clamp(a, b)
        x -> ReLU -> Minimum(6)            becomes      x -> Clamp(0, 6)
        x -> Clamp(a, b) -> Clamp(c, d)    becomes      x -> Clamp(the limits of both)

    torch's exporter by Dynamo writes the second for a ReLU6 in two steps. One limit alone stays.
    """
    if not node.outputs[0].element_type.is_real:
        return fail("it limits integers")
    x_and_limits, reader = _limits(node), node
    if x_and_limits is None:
        return fail("its limits are not two numbers")
    x, low, high = x_and_limits
    while x.only_user is reader and (before := _limits(x.node)) is not None:
        reader = x.node
        x, *limits = before
        low, high = (min(max(limit, low), high) for limit in limits)
    if reader is node:
        return fail("no layer with limits, which nothing else reads, is before it")
    if math.isinf(low) or math.isinf(high):
        return fail("one of the limits is infinite")
    return builder.emit(Clamp1(min=low, max=high), x)


def _limits(node: Node) -> tuple[Output, float, float] | None:
    """Return the input of the layer and its lower and upper limit; None for other layers."""
    op = node.op
    if isinstance(op, Clamp1):
        return node.inputs[0], op.min, op.max
    if isinstance(op, ReLU1):
        return node.inputs[0], 0.0, math.inf
    if not isinstance(op, (elementwise.Minimum1, elementwise.Maximum1)):
        return None
    for x, other in node.orders:
        constant = other.type.constant
        if constant is not None and constant.size == 1 and has_shape_of(node.outputs[0], x):
            limit = float(constant.reshape(-1)[0])
            if math.isnan(limit):
                return None
            return (x, -math.inf, limit) if isinstance(op, elementwise.Minimum1) else (x, limit, math.inf)
    return None


_CUBIC = 0.044715
_SLOPE = math.sqrt(2 / math.pi)


def _half_product(x: Pattern, total: Pattern) -> Pattern:
    """x * total / 2, in the three orders."""
    return either(times(divided_by(x, 2), total), divided_by(times(x, total), 2), times(x, divided_by(total, 2)))


def _exact() -> Pattern:
    x = anything("x", is_real)
    return _half_product(x, plus(layer(elementwise.Erf1, divided_by(x, math.sqrt(2)), name="erf"), number(1)))


def _approximate() -> Pattern:
    x = anything("x", is_real)
    square = either(times(x, x), layer(elementwise.Power1, x, number(2)))
    cube = either(layer(elementwise.Power1, x, number(3)), times(x, square))
    small = either(times(square, number(_CUBIC)), times(x, times(x, number(_CUBIC))))
    polynomial = plus(x, either(times(cube, number(_CUBIC)), times(x, small)))
    # x (1 + c x^2), as Keras and Bloom have it
    grown = plus(number(1), small)
    inner = either(times(either(polynomial, times(x, grown)), number(_SLOPE)), times(times(x, number(_SLOPE)), grown))
    return _half_product(x, plus(layer(elementwise.Tanh1, inner), number(1)))


_GELU = either(_exact(), _approximate())


@passes.fuses("gelus", _GELU)
def gelu(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse the node sequence that exporters emit for GELU, exact or by the hyperbolic tangent.

        x -> Divide(sqrt 2) -> Erf -> Add(1) -> t          becomes      x -> Gelu(ERF)
        x, t, 0.5 -> Multiply, Multiply

        x, x^3 * 0.044715 -> Add -> Multiply(sqrt(2 / pi)) -> Tanh -> Add(1) -> t
        x, t, 0.5 -> Multiply, Multiply                    becomes      x -> Gelu(TANH)

    Factors and summands come in any order, and constants as quotients or products: torch, Transformers, tf2onnx and
    Keras each have an order of their own.
    """
    if not has_shape_of(node.outputs[0], match["x"]):
        return fail("its rank is not that of the input")
    mode = "ERF" if "erf" in match else "TANH"
    return builder.emit(Gelu7(approximation_mode=mode), match["x"])


def _prelu() -> Pattern:
    x = anything("x", is_real)
    slope, opposite = anything("slope", is_stored), anything("opposite", is_stored)
    positive, flipped = layer(ReLU1, x), layer(ReLU1, layer(elementwise.Negative1, x))
    negative = either(layer(elementwise.Minimum1, x, number(0)), layer(elementwise.Negative1, flipped))
    scaled = times(x, slope)
    below = either(
        layer((elementwise.Less1, elementwise.LessEqual1), x, number(0)),
        layer((elementwise.Greater1, elementwise.GreaterEqual1), number(0), x),
    )
    above = either(
        layer((elementwise.Greater1, elementwise.GreaterEqual1), x, number(0)),
        layer((elementwise.Less1, elementwise.LessEqual1), number(0), x),
    )
    return either(
        plus(positive, either(times(negative, slope), times(flipped, opposite))),
        layer(elementwise.Subtract1, positive, either(times(flipped, slope), times(negative, opposite))),
        layer(elementwise.Maximum1, x, scaled, name="greater"),
        layer(elementwise.Select1, below, scaled, x),
        layer(elementwise.Select1, above, x, scaled),
    )


_PRELU = _prelu()


@passes.fuses("prelus", _PRELU)
def prelu(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse the node sequences that exporters emit for PReLU, with one slope or one per channel.

        x -> ReLU -> a;  x -> Minimum(0) -> Multiply(slope) -> b;  a, b -> Add           becomes      x -> PReLU(slope)
        x -> ReLU -> a;  x -> Negative -> ReLU -> Multiply(slope) -> b;  a, b -> Subtract
        x -> ReLU -> a;  x -> Negative -> ReLU -> Negative -> Multiply(slope) -> b;  a, b -> Add
        x -> Multiply(slope) -> s;  x, s -> Maximum, for slopes above 0 and up to 1
        x -> Multiply(slope) -> s;  x < 0, s, x -> Select

    Keras writes the second, with the sign in the slope; JAX writes the last two for a leaky ReLU.
    """
    x = match["x"]
    slope: Output = match["opposite" if "opposite" in match else "slope"]
    if not has_shape_of(node.outputs[0], x) or x.shape.rank == 0:
        return fail("its rank is not that of the input")
    assert slope.tensor is not None
    values = slope.tensor.array().reshape(-1) if slope.tensor.size == 1 else of_channels(slope, x)
    if values is None:
        return fail("there is not one slope, and not one for each channel")
    if "opposite" in match:
        values = -values
    if "greater" in match and not ((values > 0) & (values <= 1)).all():
        return fail("a slope is not above 0, or above 1")
    slopes = builder.constant(np.asarray(values), x.element_type)
    return builder.emit(PReLU1(), x, slopes)


def _powers(shifted: Pattern) -> tuple[Pattern, Pattern]:
    """e to the shifted values, and their sum."""
    powers = layer(elementwise.Exp1, shifted)
    return powers, layer(ReduceSum1, powers, constant("axis of the sum"), check=keeps_dims)


def _greatest(x: Pattern) -> Pattern:
    return layer(ReduceMax1, x, constant("axis"), check=keeps_dims)


def _softmax() -> Pattern:
    x = anything("x", is_real)
    powers, total = _powers(layer(elementwise.Subtract1, x, _greatest(x)))
    reciprocal = either(layer(elementwise.Divide1, number(1), total), layer(elementwise.Power1, total, number(-1)))
    return either(layer(elementwise.Divide1, powers, total), times(powers, reciprocal))


def _log_softmax() -> Pattern:
    x = anything("x", is_real)
    greatest = _greatest(x)
    shifted = layer(elementwise.Subtract1, x, greatest)
    logarithm = layer(elementwise.Log1, _powers(shifted)[1])
    return either(
        layer(elementwise.Subtract1, shifted, logarithm),
        layer(elementwise.Subtract1, x, layer(elementwise.Add1, greatest, logarithm)),
    )


_SOFTMAX, _LOG_SOFTMAX = _softmax(), _log_softmax()


@passes.fuses("softmaxes", either(_SOFTMAX, _LOG_SOFTMAX))
def softmax(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse the node sequences that exporters emit for softmax and its logarithm.

        x -> ReduceMax -> m;  x, m -> Subtract -> Exp -> e
        e -> ReduceSum -> s;  e, s -> Divide                        becomes      x -> SoftMax

        x -> ReduceMax -> m;  x, m -> Subtract -> c
        c -> Exp -> ReduceSum -> Log -> l;  c, l -> Subtract        becomes      x -> LogSoftmax

    The quotient may be a product with the reciprocal, and the logarithm may be added to the maximum first. tf2onnx and
    JAX write these.

    Without the maximum (Exp(x) divided by its sum) the layers stay, as they overflow where SoftMax does not. The
    logarithm of a SoftMax stays, as it is minus infinity where LogSoftmax is less than -104. So does x less its
    ReduceLogSumExp: for an infinite x that leaves minus infinity, and LogSoftmax NaN.
    """
    is_logarithm = isinstance(node.op, elementwise.Subtract1)
    x = match["x"]
    if isinstance(node.op, elementwise.Multiply1) and not has_shape_of(node.outputs[0], x):
        return fail("its rank is not that of the input")
    first, second = (match.array(name).reshape(-1).tolist() for name in ("axis", "axis of the sum"))
    if len(first) != 1 or len(second) != 1:
        return fail("it goes along more than one dimension")
    if _axis(x, first[0]) != _axis(x, second[0]):
        return fail("the maximum and the sum are of different dimensions")
    axis = _axis(x, first[0])
    op = LogSoftmax5(axis=axis) if is_logarithm else SoftMax8(axis=axis)
    return builder.emit(op, x)


def _axis(x: Output, axis: int) -> int:
    return normalize_axis(axis, x.shape.rank) if x.shape.has_rank else axis
