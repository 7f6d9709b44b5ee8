"""Fuse the node sequences that exporters emit for normalizations."""

from __future__ import annotations

import math

import numpy as np

from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Array, Dimension, Node, Output, element_types, normalize_axes
from ir_runtime.graph.element_types import finfo
from ir_runtime.operations.activation import Clamp1
from ir_runtime.operations.elementwise import Add1, Divide1, Maximum1, Multiply1, Power1, Sqrt1, Subtract1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.operations.normalization import MVN6, BatchNormInference5, GroupNormalization12, NormalizeL21
from ir_runtime.operations.reduction import ReduceL2_4, ReduceMean1, ReduceSum1
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

from .idioms import has_shape_of, is_real, is_stored, keeps_dims, of_channels, plus, times
from .registry import passes


@passes.replaces("batch_normalization_factors")
def batch_normalization_factor(builder: Builder, node: Node) -> Replacement:
    """Join a batch normalization and a constant factor or summand behind it.

        x -> BatchNormInference(gamma, beta) -> Multiply(s)    becomes    x -> BatchNormInference(gamma * s, beta * s)
        x -> BatchNormInference(gamma, beta) -> Add(t)         becomes    x -> BatchNormInference(gamma, beta + t)

    ``s`` and ``t`` are one number, or one for each channel. Caffe has a layer Scale behind each BatchNorm; where no
    convolution stands in front, as in DenseNet, nothing else takes it over. All is computed in float64 and rounded
    once.
    """
    value, other = node.inputs
    if not isinstance(value.node.op, BatchNormInference5) and isinstance(node.op, (Multiply1, Add1)):
        value, other = other, value
    normalization = value.node
    if not isinstance(normalization.op, BatchNormInference5):
        return fail("no batch normalization is before it")
    if value.only_user is not node:
        return fail("something else reads the normalized values")
    number = _of_channels(other, value)
    data, *tensors = normalization.inputs
    if number is None or any(source.tensor is None for source in tensors):
        return fail("a number is not constant, or not one for each channel")
    gamma, beta = (source.tensor.array().astype(np.float64) for source in tensors[:2] if source.tensor is not None)
    with np.errstate(all="ignore"):
        if isinstance(node.op, (Add1, Subtract1)):
            beta = beta + (number if isinstance(node.op, Add1) else -number)
        else:
            factor = number if isinstance(node.op, Multiply1) else 1 / number
            gamma, beta = gamma * factor, beta * factor
    info = finfo(value.element_type)
    if not all((np.abs(each) <= float(info.max)).all() for each in (gamma, beta)):
        return fail("a constant would not be finite in its type")
    parameters = [builder.constant(each, source.element_type) for each, source in zip((gamma, beta), tensors)]
    return builder.emit(normalization.op, data, *parameters, *tensors[2:])


def _of_channels(value: Output, x: Output) -> Array | None:
    """One number, or one for each channel, in float64."""
    if value.tensor is None or not x.shape.has_rank or len(value.tensor.shape) > x.shape.rank:
        return None
    values = value.tensor.array().reshape(-1) if value.tensor.size == 1 else of_channels(value, x)
    return None if values is None else values.astype(np.float64)


def _normalizes_variance(value: Output) -> str | None:
    op = value.node.op
    assert isinstance(op, MVN6)
    return None if op.normalize_variance and op.eps_mode == "INSIDE_SQRT" else "is another normalisation"


def _groups() -> Pattern:
    groups = layer(Reshape1, anything("x", is_real), constant("shape of groups"), name="groups")
    normalized = layer(MVN6, groups, constant("axes"), check=_normalizes_variance, name="normalized")
    return layer(Reshape1, normalized, anything("shape"), name="result")


_GROUPS = _groups()
_MADE = layer(
    GroupNormalization12, anything("x"), anything("scale", is_stored), anything("bias", is_stored), name="made"
)
_FOLLOWED = layer((Add1, Multiply1), _MADE, anything("values", is_stored))


@passes.fuses("group_normalizations", either(_GROUPS, _FOLLOWED))
def group_normalization(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse the node sequence that exporters emit for group normalization.

        x -> Reshape [0, groups, -1] -> MVN [2] -> Reshape (the shape of x) -> n
        n -> Multiply(scale) -> Add(bias)                becomes      x -> GroupNormalization(scale, bias)

    torch writes it below opset 21, as an InstanceNormalization of groups. Scale and bias have a value for each channel,
    and may be missing. The number of channels must be static: it follows from weights then, and no other shape changes
    it.
    """
    return _normalize(builder, match) if isinstance(node.op, Reshape1) else _followed(builder, node, match)


def _normalize(builder: Builder, match: Match) -> Replacement:
    x = match["x"]
    if not x.shape.has_rank or x.shape.rank < 3 or not x.shape[1].is_static:
        return fail("the number of channels is not known")
    number = _group_count(match)
    mvn, channels = match.node("normalized").op, x.shape[1].value
    assert isinstance(mvn, MVN6)
    scale, bias = (builder.constant(values, x.element_type) for values in (np.ones(channels), np.zeros(channels)))
    return builder.emit(GroupNormalization12(num_groups=number, epsilon=mvn.eps), x, scale, bias)


def _followed(builder: Builder, node: Node, match: Match) -> Replacement:
    x, scale, bias = match["x"], match["scale"], match["bias"]
    assert scale.tensor is not None
    assert bias.tensor is not None
    values = of_channels(match["values"], x)
    if values is None:
        return fail("there is not one value for each channel")
    if bias.tensor.array().any():
        return fail("the GroupNormalization has a bias already")
    if isinstance(node.op, Multiply1) and not (scale.tensor.array() == 1).all():
        return fail("the GroupNormalization has a scale already")
    scale_constant = builder.constant(values, x.element_type)
    inputs = (scale_constant, bias) if isinstance(node.op, Multiply1) else (scale, scale_constant)
    return builder.emit(match.node("made").op, x, *inputs)


def _group_count(match: Match) -> int:
    """Return the number of groups, where the layers normalize groups of channels."""
    x, groups = match["x"], match["groups"]
    group_shape, axes = match.array("shape of groups").reshape(-1).tolist(), match.array("axes").reshape(-1).tolist()
    if len(group_shape) < 3 or sorted(normalize_axes(axes, len(group_shape))) != list(range(2, len(group_shape))):
        raise fail("MVN is not over all but the first two dimensions")
    number, op = group_shape[1], groups.node.op
    assert isinstance(op, Reshape1)
    keeps_batch = (group_shape[0] == 0 and op.special_zero) or (
        group_shape[0] > 0 and x.shape[0] == Dimension(group_shape[0], group_shape[0])
    )
    if not keeps_batch or number < 1 or x.shape[1].value % number:
        raise fail("the first Reshape does not make groups of the channels")
    if symbolic_shapes().dims(match["result"]) != symbolic_shapes().dims(x):
        raise fail("the last Reshape does not return to the shape of the data")
    return int(number)


_LEAST_EPSILON = float(np.finfo(np.float32).tiny)
"""Smaller numbers may count as 0."""


def _has_no_upper_limit(value: Output) -> str | None:
    """Clip without an upper limit has that of its type: only a norm that overflows differs, whose quotient is 0."""
    limit = float(np.finfo(np.float32).max)
    return None if value.node.op.max >= limit else "has an upper limit"  # type: ignore[attr-defined]


def _quotient() -> Pattern:
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


_QUOTIENT = _quotient()


@passes.fuses("l2_normalizations", _QUOTIENT)
def l2_normalization(builder: Builder, node: Node, match: Match) -> Replacement:
    """Fuse the node sequence for a division by the Euclidean norm into NormalizeL2.

        x -> ReduceL2 -> Maximum(e) -> n;  x, n -> Divide              becomes      x -> NormalizeL2(e * e, max)
        x -> Power(2) -> ReduceSum -> Maximum(e) -> Sqrt -> n
        x, n -> Divide                                                 becomes      x -> NormalizeL2(e, max)
        x -> Power(2) -> ReduceSum -> Add(e) -> Sqrt -> n
        x, n -> Divide                                                 becomes      x -> NormalizeL2(e, add)

    torch writes the first for ``functional.normalize``, TensorFlow the second, by a product with the reciprocal. A norm
    without a number that keeps it from 0 stays, and so do floats of 16 bits, which have no such small squares.
    """
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


def _layer_normalization() -> Pattern:
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


_LAYER_NORMALIZATION = _layer_normalization()


@passes.fuses("layer_normalizations", _LAYER_NORMALIZATION)
def layer_normalization(builder: Builder, node: Node, match: Match) -> Replacement:
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
