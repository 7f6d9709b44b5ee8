"""Layer normalisation that an exporter spelled out, as MVN.

    x -> ReduceMean ----------------------------\\
    x -------------> Subtract -> c              |          becomes      x -> MVN(eps)
    c -> Power(2) -> ReduceMean -> Add(eps) -> Sqrt -> s
    c, s -> Divide

Scale and bias stay Multiply and Add behind it. torch writes this below opset 17, tf2onnx and Keras always. Inputs of
one sum come in either order, the square also as a product, the root also as a power of 0.5, and the quotient also as
a product with the reciprocal.
"""

from __future__ import annotations

from ir_runtime.graph.model import Node, Output
from ir_runtime.graph.shapes import normalize_axes
from ir_runtime.operations.elementwise import Add1, Divide1, Multiply1, Power1, Sqrt1, Subtract1
from ir_runtime.operations.normalization import MVN6
from ir_runtime.operations.reduction import ReduceMean1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import Match, NotMatched, Pattern, anything, constant, either, fail, layer, number
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .idioms import has_shape_of, is_real, keeps_dims
from .registry import passes


def _pattern() -> Pattern:
    x = anything("x", is_real)
    mean = layer(ReduceMean1, x, constant("axes"), check=keeps_dims)
    centred = layer(Subtract1, x, mean)
    square = either(layer(Power1, centred, number(2)), layer(Multiply1, centred, centred))
    variance = layer(ReduceMean1, square, constant("axes of squares"), check=keeps_dims)
    total = layer(Add1, variance, constant("epsilon"), commutative=True)
    deviation = either(layer(Sqrt1, total), layer(Power1, total, number(0.5)))
    reciprocal = either(layer(Divide1, number(1), deviation), layer(Power1, total, number(-0.5)))
    return either(layer(Divide1, centred, deviation), layer(Multiply1, centred, reciprocal, commutative=True))


_PATTERN = _pattern()


@passes.replaces("layer_normalizations", Divide1, Multiply1, after=["equal_layers"], fuses=True)
def layer_normalization(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Put MVN in the place of mean, variance and quotient."""
    found = _PATTERN.match(node.outputs[0])
    if isinstance(found, NotMatched):
        return found
    x, epsilon = found["x"], found.array("epsilon")
    if epsilon.size != 1 or not float(epsilon.reshape(-1)[0]) > 0:
        return fail("what is added to the variance is no positive number")
    if not has_shape_of(node.outputs[0], x):
        return fail("its rank is not that of the input")
    if not _same_axes(x, found):
        return fail("mean and variance are of different axes")
    why = found.check_private(uses)
    if why is not None:
        return why
    normalized = MVN6(eps=float(epsilon.reshape(-1)[0]), normalize_variance=True, eps_mode="inside_sqrt")
    return builder.emit(normalized, x, builder.constant(found.array("axes").reshape(-1)))


def _same_axes(x: Output, found: Match) -> bool:
    first, second = (
        normalize_axes(found.array(name).reshape(-1).tolist(), x.shape.rank) for name in ("axes", "axes of squares")
    )
    return sorted(first) == sorted(second)
