"""Attention."""

from __future__ import annotations

import math

from converter.to_onnx import Context, Value, ir_idiom, ir_op
from converter.to_onnx.attention_masks import exact_mask, guarded_mask, is_broadcast_to_scores, is_zero
from converter.to_onnx.heads import without_repetition
from converter.to_onnx.layers import known_number, scalar
from converter.to_onnx.sizes import Size, shape_list, size_of
from ir_runtime.graph import Node, Operation, Output, element_types
from ir_runtime.operations.attention import ScaledDotProductAttention13, is_no_mask
from ir_runtime.operations.elementwise import Select1

_TYPES = (element_types.f32, element_types.f16, element_types.bf16)
"""The types that onnxruntime's Attention computes without a loss."""


@ir_op(ScaledDotProductAttention13)
def attention(
    ctx: Context,
    op: ScaledDotProductAttention13,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    scale: Value | None = None,
    sink: Value | None = None,
) -> Value:
    """Attention (opset 23) of four dimensions without a sink; else products and Softmax"""
    if mask is not None and (op.causal or is_no_mask(mask.type)):
        mask = None
    seen = None if mask is None else ctx.node.inputs[3]
    if sink is None and _is_plain(ctx, ctx.node, seen) and ctx.at_least(23):
        return _fuse(ctx, ctx.node, None if seen is None else exact_mask(ctx, seen))
    return ctx.decompose()[0]


@ir_idiom(Select1)
def attention_of_rows_without_keys(ctx: Context, op: Operation) -> Value | None:
    """Attention, whose rows without keys are zero: Select around it and around its mask"""
    is_seen, attention_output, zero = ctx.node.inputs
    node = attention_output.node
    if not isinstance(node.op, ScaledDotProductAttention13) or len(node.inputs) not in (4, 5) or node.op.causal:
        return None
    mask = guarded_mask(node.inputs[3], is_seen)
    if mask is None or not is_zero(zero) or not _is_plain(ctx, node, mask) or not ctx.at_least(23):
        return None
    return _fuse(ctx, node, exact_mask(ctx, mask, hidden_rows_are_zero=True))


def _fuse(ctx: Context, node: Node, mask: Value | None) -> Value:
    """ONNX's Attention for a layer of the IR without a sink."""
    assert isinstance(node.op, ScaledDotProductAttention13)
    query = ctx.value(node.inputs[0])
    key, value = _group(ctx, node)
    scale = ctx.value(node.inputs[4]) if len(node.inputs) > 4 else None
    factor = None if scale is None else known_number(ctx, scale)
    if scale is not None and (factor is None or not 0 < factor < math.inf):  # others are refused
        query, factor = ctx.emit("Mul", query, scalar(ctx, scale)), 1.0
    if mask is not None:
        mask = _for_each_row(ctx, mask, query, key)
    return ctx.emit("Attention", query, key, value, mask, is_causal=int(node.op.causal) or None, scale=factor)


def _for_each_row(ctx: Context, mask: Value, query: Value, key: Value) -> Value:
    """A mask whose last two dimensions are those of the scores: onnxruntime broadcasts the ones before them alone."""
    target_shape: list[Size] = [1] * mask.shape.rank
    for place, of in ((-2, query), (-1, key)):
        dimension = mask.shape[place]
        if dimension.is_static and dimension.value == 1:
            target_shape[place] = size_of(ctx, of, 2)
    return mask if set(target_shape) == {1} else ctx.emit("Expand", mask, shape_list(ctx, target_shape))


def _group(ctx: Context, node: Node) -> tuple[Value, Value]:
    """Keys and values without what repeats their heads for those of the query."""
    key, value = _grouped_sources(node)
    return ctx.value(key), ctx.value(value)


def _grouped_sources(node: Node) -> tuple[Output, Output]:
    key, value = (without_repetition(source) for source in node.inputs[1:3])
    if key is None or value is None or key.shape[1] != value.shape[1]:
        return node.inputs[1], node.inputs[2]
    return key, value


def _is_plain(ctx: Context, node: Node, mask: Output | None) -> bool:
    """True if onnxruntime's Attention takes these types and shapes.

    There is one batch, the heads of the query share those of the key in groups, and nothing is empty.
    """
    query, sources = node.inputs[0], _grouped_sources(node)
    shapes = [source.shape for source in (query, *sources)]
    if query.element_type not in _TYPES or not all(shape.has_rank and shape.rank == 4 for shape in shapes):
        return False
    if any(size.is_static and size.value == 0 for shape in shapes for size in shape.dims):
        return False
    if not all(shape[1].is_static for shape in shapes):
        return False
    heads, groups, of_values = (shape[1].value for shape in shapes)
    if groups != of_values or heads % groups:
        return False
    batches = {shape[0].value if shape[0].is_static else -1 for shape in shapes}
    if len(batches) > 1:
        return False
    return mask is None or is_broadcast_to_scores(ctx, mask, query, sources[0])
