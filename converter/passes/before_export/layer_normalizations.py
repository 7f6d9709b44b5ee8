"""Fuse MVN over the last dimensions with the scale, and the bias, behind it.

x -> MVN -> Multiply(scale) [-> Add(bias)]       becomes       x -> LayerNormalization(scale, bias)
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Node, Output
from ir_runtime.operations.elementwise import Add1, Multiply1
from ir_runtime.operations.normalization import MVN6
from ir_runtime.rewriting import Builder, Match, NotMatched, Replacement, constant, fail, layer
from ir_runtime.rewriting.layers import reshape

from .operators import emit_operator, may_use
from .registry import before_export

_SCALED = layer(Multiply1, layer(MVN6, name="mvn"), constant("scale"))
_SHIFTED = layer(Add1, _SCALED, constant("bias"))


@before_export.replaces("shifted_layer_normalizations")
def shifted(builder: Builder, node: Node) -> Replacement:
    """Replace the sum by LayerNormalization with scale and bias."""
    return _fuse(builder, node, _SHIFTED.match(node.outputs[0]))


@before_export.replaces("layer_normalizations")
def scaled(builder: Builder, node: Node) -> Replacement:
    """Replace the product by LayerNormalization with a scale."""
    return _fuse(builder, node, _SCALED.match(node.outputs[0]))


def _fuse(builder: Builder, node: Node, match: Match | NotMatched) -> Replacement:
    if isinstance(match, NotMatched):
        return match
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
