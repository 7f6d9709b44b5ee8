"""Fuse attention, and what is around its mask, into ONNX's operator.

query, key, value, mask -> ScaledDotProductAttention [-> Select(is seen, ..., 0)]       becomes       Attention
"""

from __future__ import annotations

import math

import numpy as np

from ir_runtime.graph import Dimension, Node, Output, element_types
from ir_runtime.operations.attention import ScaledDotProductAttention13, is_no_mask
from ir_runtime.operations.movement import Broadcast3
from ir_runtime.rewriting import Builder, Replacement, fail
from ir_runtime.rewriting.layers import multiply, reshape
from ir_runtime.rewriting.shape_layers import concat_lists, dimension_list

from .attention_masks import exact_mask, guarded_mask, is_broadcast_to_scores, is_zero
from .heads import without_repetition
from .operators import emit_operator, may_use
from .registry import before_export

_TYPES = (element_types.f32, element_types.f16, element_types.bf16)
"""The types that onnxruntime's Attention computes without a loss."""


@before_export.replaces("attentions_of_rows_without_keys")
def of_rows_without_keys(builder: Builder, node: Node) -> Replacement:
    """Replace the Select, which makes rows without keys zero, by Attention."""
    is_seen, attended, zero = node.inputs
    attention = attended.node
    op = attention.op
    if not isinstance(op, ScaledDotProductAttention13) or len(attention.inputs) not in (4, 5) or op.causal:
        return fail("it selects between no attention with a mask and zero")
    mask = guarded_mask(attention.inputs[3], is_seen)
    if mask is None or not is_zero(zero):
        return fail("the mask does not show all keys to the rows that become zero")
    reason = _mismatch(attention, mask)
    if reason is not None:
        return fail(reason)
    mask = exact_mask(builder, mask, attended.element_type, hidden_rows_are_zero=True)
    return _fuse(builder, node, attention, mask)


@before_export.replaces("attentions")
def attention(builder: Builder, node: Node) -> Replacement:
    """Replace attention of four dimensions without a sink by Attention."""
    assert isinstance(node.op, ScaledDotProductAttention13)
    mask = node.inputs[3] if len(node.inputs) > 3 else None
    if mask is not None and (node.op.causal or is_no_mask(mask.type)):
        mask = None
    reason = "Attention has no sink" if len(node.inputs) > 5 else _mismatch(node, mask)
    if reason is not None:
        return fail(reason)
    exact = None if mask is None else exact_mask(builder, mask, node.outputs[0].element_type)
    return _fuse(builder, node, node, exact)


def _fuse(builder: Builder, node: Node, attention: Node, mask: Output | None) -> Replacement:
    assert isinstance(attention.op, ScaledDotProductAttention13)
    query, (key, value) = attention.inputs[0], _grouped_sources(attention)
    scale = attention.inputs[4] if len(attention.inputs) > 4 else None
    factor = None if scale is None else known_number(scale)
    if scale is not None and (factor is None or not 0 < factor < math.inf):  # others are refused
        query, factor = multiply(builder, query, reshape(builder, scale, [])), 1.0
    if mask is not None:
        mask = _for_each_row(builder, mask, query, key)
    return emit_operator(
        builder,
        "Attention",
        [query, key, value, mask],
        node.outputs,
        is_causal=int(attention.op.causal) or None,
        scale=factor,
    )


def known_number(value: Output) -> float | None:
    """Return the number that a constant of one element holds."""
    constant = value.type.constant
    return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _for_each_row(builder: Builder, mask: Output, query: Output, key: Output) -> Output:
    """Return a mask with the last two dimensions of the scores: onnxruntime broadcasts the ones before them alone."""
    sizes = [builder.constant([1])] * mask.shape.rank
    repeated = [axis for axis in (-2, -1) if mask.shape[axis] == Dimension(1, 1)]
    for axis in repeated:
        sizes[axis] = dimension_list(builder, query if axis == -2 else key, 2)
    constants = [size.type.constant for size in sizes]
    if all(constant is not None and np.all(constant == 1) for constant in constants):
        return mask
    return builder.emit(Broadcast3(mode="bidirectional"), mask, concat_lists(builder, sizes))


def _grouped_sources(node: Node) -> tuple[Output, Output]:
    """Return keys and values without what repeats their heads for those of the query."""
    key, value = (without_repetition(source) for source in node.inputs[1:3])
    if key is None or value is None or key.shape[1] != value.shape[1]:
        return node.inputs[1], node.inputs[2]
    return key, value


def _mismatch(node: Node, mask: Output | None) -> str | None:
    """Return why onnxruntime's Attention does not take these types and shapes; None if it does.

    There is one batch, the heads of the query share those of the key in groups, and nothing is empty.
    """
    if not may_use(23):
        return "Attention needs opset 23"
    query, sources = node.inputs[0], _grouped_sources(node)
    shapes = [source.shape for source in (query, *sources)]
    if query.element_type not in _TYPES or not all(shape.has_rank and shape.rank == 4 for shape in shapes):
        return "its data is not of four dimensions, or of another type"
    if any(size.is_static and size.value == 0 for shape in shapes for size in shape.dims):
        return "a dimension is 0"
    if not all(shape[1].is_static for shape in shapes):
        return "the number of heads is not known"
    heads, groups, of_values = (shape[1].value for shape in shapes)
    if groups != of_values or heads % groups:
        return "the heads of the query do not share those of the keys in groups"
    if len({shape[0].value if shape[0].is_static else -1 for shape in shapes}) > 1:
        return "the batches differ, or are not known"
    if mask is not None and not is_broadcast_to_scores(mask, query, sources[0]):
        return "the mask does not have the dimensions of the scores"
    return None
