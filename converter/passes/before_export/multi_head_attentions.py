"""Fuse attention of heads that are split before it, and merged after it, into onnxruntime's MultiHeadAttention.

    [-> Add(bias)] -> Reshape -> Transpose -> ScaledDotProductAttention -> Transpose -> Reshape

Letters in shapes: b batches, s and t positions, h heads, d elements of a head.
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from converter.onnx_file.domains import MICROSOFT
from ir_runtime.analysis.shared_shapes import symbolic_shapes
from ir_runtime.graph import Array, Node, Output, element_types
from ir_runtime.operations.attention import ScaledDotProductAttention13, is_no_mask
from ir_runtime.operations.elementwise import Add1
from ir_runtime.operations.movement import Reshape1, Transpose1
from ir_runtime.rewriting import Builder, Replacement, fail

from .attentions import known_number
from .operators import emit_operator, may_use_contrib
from .registry import before_export

_HEADS_FIRST = [0, 2, 1, 3]


class _Projection(NamedTuple):
    """A query, keys or values ``[b, s, h * d]``, without the bias that is added before heads are divided."""

    source: Output
    unbiased: Output
    bias: Array | None


@before_export.replaces("multi_head_attentions")
def multi_head_attention(builder: Builder, node: Node) -> Replacement:
    """Replace the Reshape that merges the heads by MultiHeadAttention without a mask."""
    joined = node.outputs[0]
    attended = _transposed(node.inputs[0])
    if not may_use_contrib():
        return fail("operators of com.microsoft may not be used")
    if attended is None or joined.element_type is not element_types.f32:
        return fail("it merges no heads of float32")
    attention = attended.node
    is_attention = isinstance(attention.op, ScaledDotProductAttention13) and attended.only_user is not None
    if not is_attention or _has_mask(attention):
        return fail("the heads are not those of an attention without a mask")
    projections = [_projection(source) for source in attention.inputs[:3]]
    query_dims, joined_dims = (symbolic_shapes().dims(value) for value in (attention.inputs[0], joined))
    sizes = attention.inputs[0].shape
    if query_dims is None or joined_dims is None or not (sizes[1].is_static and sizes[3].is_static):
        return fail("the number of heads or their size is not known")
    heads, size = sizes[1].value, sizes[3].value
    if [dimension.value for dimension in joined_dims[2:]] != [heads * size]:
        return fail("the last dimension is not that of all heads")
    if joined_dims[:2] != [query_dims[0], query_dims[2]] or not _are_alike(attention, heads, size):
        return fail("batches, positions or heads differ")
    query, key, value = projections
    if query is None or key is None or value is None:
        return fail("a query, keys or values are not split into heads")
    scale = known_number(attention.inputs[4]) if len(attention.inputs) > 4 else None
    if len(attention.inputs) > 4 and not scale:  # 0 means the default one
        return fail("the scale is computed, or 0")
    chosen, bias = (query, key, value), None
    sources = [projection.source for projection in chosen]
    biases = [projection.bias for projection in chosen if projection.bias is not None]
    if len(biases) == len(chosen):
        bias = builder.constant(np.concatenate(biases), element_types.f32)
        sources = [projection.unbiased for projection in chosen]
    inputs = [*sources, bias]
    return emit_operator(
        builder, "MultiHeadAttention", inputs, node.outputs, domain=MICROSOFT, num_heads=heads, scale=scale
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


def _projection(heads: Output) -> _Projection | None:
    """What ``[b, h, s, d]`` is divided from; None where it is made in another way."""
    divided = _transposed(heads)
    if divided is None or not isinstance(divided.node.op, Reshape1) or divided.only_user is None:
        return None
    source = divided.node.inputs[0]
    dims, before = symbolic_shapes().dims(divided), symbolic_shapes().dims(source)
    if dims is None or before is None or len(before) != 3 or before[:2] != dims[:2]:
        return None
    node = source.node
    if isinstance(node.op, Add1) and source.only_user is not None:
        for product, bias in node.orders:
            numbers = bias.type.constant
            if numbers is not None and numbers.size == before[2].value and numbers.shape[-1:] == (numbers.size,):
                return _Projection(source, product, numbers.reshape(-1))
    return _Projection(source, source, None)


def _are_alike(node: Node, heads: int, size: int) -> bool:
    """True if keys and values have the heads of the query, of its size, and the same positions."""
    query, key, value = (symbolic_shapes().dims(source) for source in node.inputs[:3])
    if query is None or key is None or value is None or not all(len(dims) == 4 for dims in (query, key, value)):
        return False
    own = [[dims[axis].value for axis in (1, 3)] for dims in (query, key, value)]
    if own != [[heads, size]] * 3 or key[2] != value[2] or not query[0] == key[0] == value[0]:
        return False
    return key[2] == query[2] or symbolic_shapes().is_never(key[2], 0)
