"""Fuse a normalization over the last dimensions with the scale, and the bias, behind it."""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Add1, Divide1, Multiply1, Power1, Sqrt1
from ir_runtime.operations.normalization import MVN6
from ir_runtime.operations.reduction import ReduceMean1
from ir_runtime.rewriting import (
    Builder,
    Match,
    Replacement,
    anything,
    constant,
    either,
    fail,
    layer,
    number,
)
from ir_runtime.rewriting.layers import reshape

from .operators import emit_operator, may_use
from .registry import before_export

_SCALED_LAYER = layer(Multiply1, layer(MVN6, name="mvn"), constant("scale"))
_SHIFTED_LAYER = layer(Add1, _SCALED_LAYER, constant("bias"))


@before_export.replaces("shifted_layer_normalizations")
def shifted_layer(builder: Builder, node: Node) -> Replacement:
    """Replace the sum by LayerNormalization with scale and bias.

    x -> MVN -> Multiply(scale) -> Add(bias)       becomes       x -> LayerNormalization(scale, bias)
    """
    return _fuse_layer(builder, node, _SHIFTED_LAYER.find(node.outputs[0]))


@before_export.replaces("layer_normalizations")
def scaled_layer(builder: Builder, node: Node) -> Replacement:
    """Replace the product by LayerNormalization with a scale."""
    return _fuse_layer(builder, node, _SCALED_LAYER.find(node.outputs[0]))


def _fuse_layer(builder: Builder, node: Node, match: Match) -> Replacement:
    if not may_use(17):
        return fail("LayerNormalization needs opset 17")
    op, (source, axes) = match.node("mvn").op, match.node("mvn").inputs
    assert isinstance(op, MVN6)
    values = axes.type.constant
    if values is None or not source.shape.has_rank or not op.normalize_variance or op.eps_mode != "INSIDE_SQRT":
        return fail("its axes, its rank or its variance are not those of LayerNormalization")
    rank = source.shape.rank
    if node.outputs[0].shape.rank != rank:
        return fail("a scale or bias has more dimensions than the data")
    over = sorted(int(axis) % rank for axis in values.reshape(-1))
    sizes = [source.shape[axis] for axis in over]
    if over != list(range(rank - len(over), rank)) or not over or not all(size.is_static for size in sizes):
        return fail("it is not over last dimensions of known sizes")
    shape = [size.value for size in sizes]
    names = [name for name in ("scale", "bias") if name in match]
    parameters = [_parameter(builder, match[name], shape, rank) for name in names]
    if None in parameters:
        return fail("a scale or bias is not of the normalized dimensions")
    return emit_operator(
        builder, "LayerNormalization", [source, *parameters], node.outputs, axis=rank - len(over), epsilon=op.eps
    )


def _parameter(builder: Builder, output: Output, shape: list[int], rank: int) -> Output | None:
    """Return a scale or a bias of the normalized dimensions of data of that rank; None where it has others."""
    sizes = list(output.shape.static())
    if sizes[-len(shape) :] == shape and all(size == 1 for size in sizes[: -len(shape)]):
        return output if sizes == shape else reshape(builder, output, shape)
    if all(size == 1 for size in sizes) and len(sizes) <= rank:
        values = output.type.constant
        assert values is not None
        return builder.constant(np.full(shape, values.reshape(-1)[0]), output.element_type)
    return None


_X = anything("x")
_SQUARES = either(layer(Power1, _X, number(2)), layer(Multiply1, _X, _X))
_MEAN_OF_SQUARES = layer(ReduceMean1, _SQUARES, constant("axes"), name="mean")
_ROOT = layer(Sqrt1, layer(Add1, _MEAN_OF_SQUARES, constant("epsilon")))
_NORMALIZED = either(
    layer(Divide1, _X, _ROOT),
    layer(Multiply1, _X, layer(Divide1, number(1), _ROOT)),
    layer(Multiply1, _X, layer(Power1, _ROOT, number(-1))),
)
_SCALED_ROOT = layer(Multiply1, _NORMALIZED, anything("scale"))


@before_export.replaces("scaled_rms_normalizations")
def scaled_root(builder: Builder, node: Node) -> Replacement:
    """Replace the product with the scale by RMSNormalization.

    x -> Power(2) -> ReduceMean(-1) -> Add(epsilon) -> Sqrt -> r;  x, r -> Divide -> Multiply(scale)
    """
    match = _SCALED_ROOT.find(node.outputs[0])
    _check(node, match)
    source, scale = match["x"], match["scale"]
    if not scale.shape.is_static:
        return fail("the shape of the scale is not known")
    width, sizes = source.shape[-1].value, list(scale.shape.static())
    if sizes[-1:] != [width] or any(size != 1 for size in sizes[:-1]) or len(sizes) > source.shape.rank:
        return fail("the scale is not of the last dimension")
    return _fuse_root(builder, node, match, scale if sizes == [width] else reshape(builder, scale, [width]))


@before_export.replaces("rms_normalizations")
def unscaled_root(builder: Builder, node: Node) -> Replacement:
    """Replace the quotient by RMSNormalization with a scale of ones."""
    match = _NORMALIZED.find(node.outputs[0])
    _check(node, match)
    ones = builder.constant(np.ones(match["x"].shape[-1].value), match["x"].element_type)
    return _fuse_root(builder, node, match, ones)


def _fuse_root(builder: Builder, node: Node, match: Match, scale: Output) -> Replacement:
    epsilon = float(match.array("epsilon").reshape(-1)[0])
    inputs = [match["x"], scale]
    return emit_operator(builder, "RMSNormalization", inputs, node.outputs, axis=-1, epsilon=epsilon)


def _check(node: Node, match: Match) -> None:
    """Raise the reason unless the mean is over the last dimension alone, whose size is known, and keeps it.

    The result has the dimensions of the data: constants of more dimensions, such as an epsilon, would add some.
    """
    source, mean = match["x"], match.node("mean").op
    assert isinstance(mean, ReduceMean1)
    if not may_use(23):
        raise fail("RMSNormalization needs opset 23")
    if not source.shape.has_rank or not source.shape.rank or not source.element_type.is_real:
        raise fail("the data has no rank or no floats")
    axes = [int(axis) % source.shape.rank for axis in match.array("axes").reshape(-1)]
    if axes != [source.shape.rank - 1] or not mean.keep_dims or not source.shape[-1].is_static:
        raise fail("the mean is not over the last dimension, of a known size, which it keeps")
    shape = node.outputs[0].shape
    if match.array("epsilon").size != 1 or not shape.has_rank or shape.rank != source.shape.rank:
        raise fail("the epsilon is not one number, or the result has other dimensions")
