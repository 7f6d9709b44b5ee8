"""RMSNormalization: the root of the mean of squares, and a scale, in one node."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_idiom
from converter.to_onnx.layers import reshape
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.elementwise import Add1, Divide1, Multiply1, Power1, Sqrt1
from ir_runtime.operations.reduction import ReduceMean1
from ir_runtime.rewriting import Match, NotMatched, anything, constant, either, layer, number

_X = anything("x")
_SQUARES = either(layer(Power1, _X, number(2)), layer(Multiply1, _X, _X))
_MEAN = layer(ReduceMean1, _SQUARES, constant("axes"), name="mean")
_ROOT = layer(Sqrt1, layer(Add1, _MEAN, constant("epsilon")))
_NORMALIZED = either(
    layer(Divide1, _X, _ROOT),
    layer(Multiply1, _X, layer(Divide1, number(1), _ROOT)),
    layer(Multiply1, _X, layer(Power1, _ROOT, number(-1))),
)
_SCALED = layer(Multiply1, _NORMALIZED, anything("scale"))


@ir_idiom(Multiply1)
def scaled(ctx: Context, op: Operation) -> Value | None:
    """RMSNormalization over the last dimension, with its scale (opset 23)"""
    match = _SCALED.match(ctx.node.outputs[0])
    if isinstance(match, NotMatched) or not _is_over_the_last(ctx, match):
        return None
    source, scale = match["x"], match["scale"]
    if not scale.shape.is_static:
        return None
    width, sizes = source.shape[-1].value, list(scale.shape.static())
    if sizes[-1:] != [width] or any(size != 1 for size in sizes[:-1]) or len(sizes) > source.shape.rank:
        return None
    weights = ctx.value(scale)
    return _write(ctx, match, weights if sizes == [width] else reshape(ctx, weights, [width]))


@ir_idiom(Multiply1, Divide1)
def unscaled(ctx: Context, op: Operation) -> Value | None:
    """RMSNormalization over the last dimension, with a scale of ones (opset 23)"""
    match = _NORMALIZED.match(ctx.node.outputs[0])
    if isinstance(match, NotMatched) or not _is_over_the_last(ctx, match):
        return None
    return _write(ctx, match, ctx.constant(np.ones(match["x"].shape[-1].value), match["x"].element_type))


def _write(ctx: Context, match: Match, scale: Value) -> Value | None:
    if not ctx.at_least(23):
        return None
    epsilon = float(match.array("epsilon").reshape(-1)[0])
    return ctx.emit("RMSNormalization", ctx.value(match["x"]), scale, axis=-1, epsilon=epsilon)


def _is_over_the_last(ctx: Context, match: Match) -> bool:
    """True if the mean is over the last dimension alone, whose size is known, and keeps it.

    The result has the dimensions of the data: constants of more dimensions, such as an epsilon, would add some.
    """
    source, mean = match["x"], match.node("mean").op
    assert isinstance(mean, ReduceMean1)
    if not source.shape.has_rank or not source.shape.rank or not mean.keep_dims or not source.element_type.is_real:
        return False
    if not source.shape[-1].is_static or match.array("epsilon").size != 1:
        return False
    shape = ctx.node.outputs[0].shape
    if not shape.has_rank or shape.rank != source.shape.rank:
        return False
    axes = [int(axis) % source.shape.rank for axis in match.array("axes").reshape(-1)]
    return axes == [source.shape.rank - 1]
