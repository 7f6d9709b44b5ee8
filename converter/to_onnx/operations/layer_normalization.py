"""LayerNormalization: mean and variance, scale and bias in one node."""

from __future__ import annotations

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.layers import reshape
from converter.to_onnx.registry import ir_idiom
from ir_runtime.graph import Output
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.elementwise import Add1, Multiply1
from ir_runtime.operations.normalization import MVN6
from ir_runtime.rewriting import Match, NotMatched, constant, layer

_NORMALIZED = layer(MVN6, name="mvn")
_SCALED = layer(Multiply1, _NORMALIZED, constant("scale"))
_SHIFTED = layer(Add1, _SCALED, constant("bias"))


@ir_idiom(Add1)
def shifted(ctx: Context, op: Operation) -> Value | None:
    """LayerNormalization with scale and bias (opset 17)"""
    return _written(ctx, _SHIFTED.match(ctx.node.outputs[0]))


@ir_idiom(Multiply1)
def scaled(ctx: Context, op: Operation) -> Value | None:
    """LayerNormalization with a scale (opset 17)"""
    return _written(ctx, _SCALED.match(ctx.node.outputs[0]))


def _written(ctx: Context, found: Match | NotMatched) -> Value | None:
    if isinstance(found, NotMatched):
        return None
    node = found.node("mvn")
    op, (source, axes) = node.op, node.inputs
    assert isinstance(op, MVN6)
    known = axes.type.constant
    if known is None or not source.shape.has_rank or not op.normalize_variance or op.eps_mode != "INSIDE_SQRT":
        return None
    rank = source.shape.rank
    if ctx.node.outputs[0].shape.rank != rank:  # a scale or bias of more dimensions
        return None
    over = sorted(int(axis) % rank for axis in known.reshape(-1))
    sizes = [source.shape[axis] for axis in over]
    if over != list(range(rank - len(over), rank)) or not over or not all(one.is_static for one in sizes):
        return None
    shape = [one.value for one in sizes]
    scale = _parameter(ctx, found["scale"], shape, rank)
    bias = _parameter(ctx, found["bias"], shape, rank) if "bias" in found else None
    if scale is None or ("bias" in found and bias is None) or not ctx.at_least(17):
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
        known = output.type.constant
        assert known is not None
        return ctx.constant(np.full(shape, known.reshape(-1)[0]), output.element_type)
    return None
