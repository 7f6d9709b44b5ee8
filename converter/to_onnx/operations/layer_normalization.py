"""LayerNormalization: mean and variance, scale and bias in one node."""

from __future__ import annotations

import numpy as np

from converter.to_onnx import Context, Value, ir_idiom
from converter.to_onnx.layers import reshape
from ir_runtime.graph import Operation, Output
from ir_runtime.operations.elementwise import Add1, Multiply1
from ir_runtime.operations.normalization import MVN6
from ir_runtime.rewriting import Match, NotMatched, constant, layer

_NORMALIZED = layer(MVN6, name="mvn")
_SCALED = layer(Multiply1, _NORMALIZED, constant("scale"))
_SHIFTED = layer(Add1, _SCALED, constant("bias"))


@ir_idiom(Add1)
def shifted(ctx: Context, op: Operation) -> Value | None:
    """LayerNormalization with scale and bias (opset 17)"""
    return _write(ctx, _SHIFTED.match(ctx.node.outputs[0]))


@ir_idiom(Multiply1)
def scaled(ctx: Context, op: Operation) -> Value | None:
    """LayerNormalization with a scale (opset 17)"""
    return _write(ctx, _SCALED.match(ctx.node.outputs[0]))


def _write(ctx: Context, match: Match | NotMatched) -> Value | None:
    if isinstance(match, NotMatched):
        return None
    node = match.node("mvn")
    op, (source, axes) = node.op, node.inputs
    assert isinstance(op, MVN6)
    values = axes.type.constant
    if values is None or not source.shape.has_rank or not op.normalize_variance or op.eps_mode != "INSIDE_SQRT":
        return None
    rank = source.shape.rank
    if ctx.node.outputs[0].shape.rank != rank:  # a scale or bias of more dimensions
        return None
    over = sorted(int(axis) % rank for axis in values.reshape(-1))
    sizes = [source.shape[axis] for axis in over]
    if over != list(range(rank - len(over), rank)) or not over or not all(size.is_static for size in sizes):
        return None
    shape = [size.value for size in sizes]
    scale = _parameter(ctx, match["scale"], shape, rank)
    bias = _parameter(ctx, match["bias"], shape, rank) if "bias" in match else None
    if scale is None or ("bias" in match and bias is None) or not ctx.at_least(17):
        return None
    x = ctx.value(source)
    return ctx.emit("LayerNormalization", x, scale, bias, axis=rank - len(over), epsilon=op.eps)


def _parameter(ctx: Context, output: Output, shape: list[int], rank: int) -> Value | None:
    """A scale or a bias of the normalized dimensions of data of that rank; None where it has others."""
    sizes = list(output.shape.static())
    if sizes[-len(shape) :] == shape and all(size == 1 for size in sizes[: -len(shape)]):
        value = ctx.value(output)
        return value if sizes == shape else reshape(ctx, value, shape)
    if all(size == 1 for size in sizes) and len(sizes) <= rank:
        values = output.type.constant
        assert values is not None
        return ctx.constant(np.full(shape, values.reshape(-1)[0]), output.element_type)
    return None
