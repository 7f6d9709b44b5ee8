"""Fuse the node sequence that exporters emit for layer normalization into MVN.

    x -> ReduceMean -> m;  x, m -> Subtract -> c
    c -> Power(2) -> ReduceMean -> Add(eps) -> Sqrt -> s
    c, s -> Divide                                        becomes      x -> MVN(eps)

    1, s -> Divide -> Multiply(scale) -> i
    bias, m, i -> bias - m * i -> b
    x, i, b -> x * i + b                                  becomes      x -> MVN(eps) -> Multiply(scale) -> Add(bias)

Scale and bias stay Multiply and Add behind it. torch writes the first below opset 17, tf2onnx and Keras the second.
The operands of Add come in either order. The square may be a product, the root a power of 0.5, and the quotient a
product with the reciprocal. The epsilon may be added to the root.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output, normalize_axes
from ir_runtime.operations.elementwise import Add1, Divide1, Power1, Sqrt1, Subtract1
from ir_runtime.operations.normalization import MVN6
from ir_runtime.operations.reduction import ReduceMean1
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
    layers,
    number,
)

from .idioms import has_shape_of, is_real, keeps_dims, plus, times
from .registry import passes


def _pattern() -> Pattern:
    x = anything("x", is_real)
    mean = layer(ReduceMean1, x, constant("axes"), check=keeps_dims)
    centred = layer(Subtract1, x, mean)
    square = either(layer(Power1, centred, number(2)), times(centred, centred))
    variance = layer(ReduceMean1, square, constant("axes of squares"), check=keeps_dims)
    epsilon = constant("epsilon")
    padded_variance = plus(variance, epsilon)
    root = either(layer(Sqrt1, padded_variance), layer(Power1, padded_variance, number(0.5)))
    outside = layer(Add1, layer(Sqrt1, variance), epsilon, name="outside")
    deviation = either(root, outside)
    reciprocal = either(layer(Divide1, number(1), deviation), layer(Power1, padded_variance, number(-0.5)))
    quotient = either(layer(Divide1, centred, deviation), times(centred, reciprocal))
    factor = either(reciprocal, times(reciprocal, anything("scale")))
    affine = plus(times(x, factor), layer(Subtract1, anything("bias"), times(mean, factor)))
    return either(quotient, affine)


_PATTERN = _pattern()


@passes.fuses("layer_normalizations", _PATTERN)
def layer_normalization(builder: Builder, node: Node, match: Match) -> Replacement:
    """Replace mean, variance and quotient by MVN."""
    x, epsilon = match["x"], match.array("epsilon")
    if epsilon.size != 1 or not float(epsilon.reshape(-1)[0]) > 0:
        return fail("the epsilon is not a positive scalar")
    if not has_shape_of(node.outputs[0], x):
        return fail("the shape of the result is not that of the input")
    if not _same_axes(x, match):
        return fail("mean and variance are taken along different axes")
    mode = "outside_sqrt" if "outside" in match else "inside_sqrt"
    op = MVN6(eps=float(epsilon.reshape(-1)[0]), normalize_variance=True, eps_mode=mode)
    normalized = builder.emit(op, x, builder.constant(match.array("axes").reshape(-1)))
    if "scale" in match:
        normalized = layers.multiply(builder, normalized, match["scale"])
    return layers.add(builder, normalized, match["bias"]) if "bias" in match else normalized


def _same_axes(x: Output, match: Match) -> bool:
    first, second = (
        normalize_axes(match.array(name).reshape(-1).tolist(), x.shape.rank) for name in ("axes", "axes of squares")
    )
    return sorted(first) == sorted(second)
