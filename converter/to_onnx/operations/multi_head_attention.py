"""Attention of heads that are divided before and joined behind as onnxruntime's MultiHeadAttention.

Letters in shapes: b batches, s and t positions, h heads, d elements of a head.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from converter.onnx_file.domains import MICROSOFT
from converter.to_onnx import Context, Value, ir_idiom
from converter.to_onnx.layers import known_number
from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.operations.attention import ScaledDotProductAttention13, is_no_mask
from ir_runtime.operations.elementwise import Add1
from ir_runtime.operations.movement import Reshape1, Transpose1

_HEADS_FIRST = [0, 2, 1, 3]


class _Projection(NamedTuple):
    """A query, keys or values ``[b, s, h * d]``, without the bias that is added before heads are divided."""

    source: Output
    unbiased: Output
    bias: Array | None


@ir_idiom(Reshape1)
def multi_head_attention(ctx: Context, op: Reshape1) -> Value | None:
    """MultiHeadAttention without a mask, where contrib operators may be used"""
    joined = ctx.node.outputs[0]
    attended = _transposed(ctx.node.inputs[0])
    if not ctx.contrib or attended is None or joined.element_type is not element_types.f32:
        return None
    node = attended.node
    if not isinstance(node.op, ScaledDotProductAttention13) or attended.only_user is None or _has_mask(node):
        return None
    projections = [_projection(ctx, source) for source in node.inputs[:3]]
    query_dims, joined_dims = ctx.dims(node.inputs[0]), ctx.dims(joined)
    sizes = node.inputs[0].shape
    if query_dims is None or joined_dims is None or not (sizes[1].is_static and sizes[3].is_static):
        return None
    heads, size = sizes[1].value, sizes[3].value
    if [dimension.value for dimension in joined_dims[2:]] != [heads * size]:
        return None
    if joined_dims[:2] != [query_dims[0], query_dims[2]] or not _are_alike(ctx, node, heads, size):
        return None
    query, key, value = projections
    if query is None or key is None or value is None:
        return None
    scale = known_number(ctx, ctx.value(node.inputs[4])) if len(node.inputs) > 4 else None
    if len(node.inputs) > 4 and not scale:  # 0 means the default one
        return None
    biases = [projection.bias for projection in (query, key, value)]
    bias = None
    sources = [projection.source for projection in (query, key, value)]
    if all(part is not None for part in biases):
        bias = ctx.constant(np.concatenate([part for part in biases if part is not None]), element_types.f32)
        sources = [projection.unbiased for projection in (query, key, value)]
    return ctx.emit(
        "MultiHeadAttention",
        *map(ctx.value, sources),
        bias,
        domain=MICROSOFT,
        type=element_types.f32,
        shape=joined.shape,
        num_heads=heads,
        scale=scale,
    )


def _has_mask(node: Node) -> bool:
    """True if an attention reads a mask or a sink, or is causal; a number that is no boolean is no mask."""
    assert isinstance(node.op, ScaledDotProductAttention13)
    if len(node.inputs) < 4 or node.op.causal:
        return node.op.causal
    mask = node.inputs[3]
    return not is_no_mask(mask.type) or len(node.inputs) > 5


def _transposed(source: Output) -> Output | None:
    """What a Transpose that exchanges heads and positions reads, if nothing else reads the result."""
    node = source.node
    if not isinstance(node.op, Transpose1) or source.only_user is None:
        return None
    order = node.inputs[1].type.constant
    return node.inputs[0] if order is not None and order.reshape(-1).tolist() == _HEADS_FIRST else None


def _projection(ctx: Context, heads: Output) -> _Projection | None:
    """What ``[b, h, s, d]`` is divided from; None where it is made in another way."""
    divided = _transposed(heads)
    if divided is None or not isinstance(divided.node.op, Reshape1) or divided.only_user is None:
        return None
    source = divided.node.inputs[0]
    dims, before = ctx.dims(divided), ctx.dims(source)
    if dims is None or before is None or len(before) != 3 or before[:2] != dims[:2]:
        return None
    node = source.node
    if isinstance(node.op, Add1) and source.only_user is not None:
        for product, bias in node.orders:
            numbers = bias.type.constant
            if numbers is not None and numbers.size == before[2].value and numbers.shape[-1:] == (numbers.size,):
                return _Projection(source, product, numbers.reshape(-1))
    return _Projection(source, source, None)


def _are_alike(ctx: Context, node: Node, heads: int, size: int) -> bool:
    """True if keys and values have the heads of the query, of its size, and the same positions."""
    query, key, value = (ctx.dims(source) for source in node.inputs[:3])
    if query is None or key is None or value is None or not all(len(dims) == 4 for dims in (query, key, value)):
        return False
    own = [[dims[axis].value for axis in (1, 3)] for dims in (query, key, value)]
    if own != [[heads, size]] * 3 or key[2] != value[2] or not query[0] == key[0] == value[0]:
        return False
    return key[2] == query[2] or ctx.is_never_zero(key[2])
