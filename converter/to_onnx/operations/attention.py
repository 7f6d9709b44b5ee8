"""Attention."""

from __future__ import annotations

import math

import numpy as np

from converter.to_onnx.context import Context
from converter.to_onnx.graph import Value
from converter.to_onnx.heads import without_repetition
from converter.to_onnx.layers import concat, dimension, known_number, rank_of, reshape, scalar, transpose, unsqueeze
from converter.to_onnx.registry import ir_idiom, ir_op
from converter.to_onnx.sizes import Size, shape_list, size_of
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Node, Output
from ir_runtime.graph.operation import Operation
from ir_runtime.operations.attention import ScaledDotProductAttention13
from ir_runtime.operations.elementwise import LogicalNot1, LogicalOr1, NotEqual1, Select1
from ir_runtime.operations.reduction import ReduceLogicalOr1


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
    if mask is not None and (op.causal or _is_none(mask)):
        mask = None
    grouped = _grouped(ctx, key, value)
    if sink is None and _is_plain(query, *grouped, mask) and ctx.at_least(23):
        key, value = grouped
        factor = None if scale is None else known_number(ctx, scale)
        if scale is not None and factor is None:
            query, factor = ctx.emit("Mul", query, scalar(ctx, scale)), 1.0
        if mask is not None:
            mask = _for_each_row(ctx, mask, query, key)
        return ctx.emit("Attention", query, key, value, mask, is_causal=int(op.causal) or None, scale=factor)
    return _spelled_out(ctx, op, query, key, value, mask, scale, sink)


@ir_idiom(Select1)
def attention_of_rows_without_keys(ctx: Context, op: Operation) -> Value | None:
    """Attention, whose rows without keys are zero: Select around it and around its mask"""
    is_seen, made, zero = ctx.node.inputs
    node = made.node
    if not isinstance(node.op, ScaledDotProductAttention13) or len(node.inputs) not in (4, 5) or node.op.causal:
        return None
    mask = _guarded_mask(node.inputs[3].node, is_seen)
    if mask is None or not _is_zero(zero):
        return None
    query, key, value = (ctx.value(source) for source in node.inputs[:3])
    if not _is_plain(query, *_grouped(ctx, key, value), ctx.value(mask)) or not ctx.at_least(23):
        return None
    scale = ctx.value(node.inputs[4]) if len(node.inputs) > 4 else None
    return attention(ctx, node.op, query, key, value, ctx.value(mask), scale)


def _for_each_row(ctx: Context, mask: Value, query: Value, key: Value) -> Value:
    """A mask whose last two dimensions are those of the scores: onnxruntime broadcasts the ones before them alone."""
    wanted: list[Size] = [1] * mask.shape.rank
    for place, of in ((-2, query), (-1, key)):
        dimension = mask.shape[place]
        if dimension.is_static and dimension.value == 1:
            wanted[place] = size_of(ctx, of, 2)
    return mask if set(wanted) == {1} else ctx.emit("Expand", mask, shape_list(ctx, wanted))


def _guarded_mask(node: Node, is_seen: Output) -> Output | None:
    """The mask that a layer shows all keys of to rows without any; ``is_seen`` tells which rows have one."""
    if isinstance(node.op, LogicalOr1):
        for mask, others in (node.inputs, node.inputs[::-1]):
            if isinstance(others.node.op, LogicalNot1) and others.node.inputs[0] is is_seen and _is_any(is_seen, mask):
                return mask
        return None
    if not isinstance(node.op, Select1) or node.inputs[0] is not is_seen:
        return None
    mask, otherwise = node.inputs[1:]
    if mask.element_type is element_types.boolean:
        fits = _is_any(is_seen, mask) and _is_all(otherwise)
    else:
        fits = _is_any_finite(is_seen, mask) and _is_zero(otherwise)
    return mask if fits else None


def _grouped(ctx: Context, key: Value, value: Value) -> tuple[Value, Value]:
    """Keys and values without what repeats their heads for those of the query."""
    sources = [without_repetition(source) for source in _attention_of(ctx).inputs[1:3]]
    if None in sources:
        return key, value
    heads, of_values = (ctx.value(source) for source in sources if source is not None)
    return (heads, of_values) if heads.shape[1] == of_values.shape[1] else (key, value)


def _attention_of(ctx: Context) -> Node:
    """The layer itself, or the one that it chooses rows of."""
    node = ctx.node
    return node if isinstance(node.op, ScaledDotProductAttention13) else node.inputs[1].node


def _is_zero(output: Output) -> bool:
    known = output.type.constant
    return known is not None and not known.any()


def _is_all(output: Output) -> bool:
    known = output.type.constant
    return known is not None and bool(known.all())


def _is_any(seen: Output, mask: Output) -> bool:
    """Whether ``seen`` tells for each row whether any key is visible."""
    node = seen.node
    if not isinstance(node.op, ReduceLogicalOr1) or not node.op.keep_dims or node.inputs[0] is not mask:
        return False
    axes = node.inputs[1].type.constant
    rank = mask.shape.rank if mask.shape.has_rank else 0
    return axes is not None and axes.reshape(-1).tolist() in ([-1], [rank - 1])


def _is_any_finite(seen: Output, mask: Output) -> bool:
    """As :func:`_is_any`, for keys that minus infinity hides."""
    if not isinstance(seen.node.op, ReduceLogicalOr1):
        return False
    compared = seen.node.inputs[0].node
    if not isinstance(compared.op, NotEqual1) or compared.inputs[0] is not mask:
        return False
    hidden = compared.inputs[1].type.constant
    return hidden is not None and bool(np.isneginf(hidden).all()) and _is_any(seen, compared.outputs[0])


def _is_none(mask: Value) -> bool:
    """A scalar that is no boolean means no mask."""
    return mask.element_type is not element_types.boolean and mask.shape.has_rank and mask.shape.rank == 0


def _is_plain(query: Value, key: Value, value: Value, mask: Value | None) -> bool:
    """Whether ONNX's Attention takes these shapes: one batch, heads of the query in groups of those of the key."""
    shapes = [one.shape for one in (query, key, value)]
    if not all(shape.has_rank and shape.rank == 4 for shape in shapes):
        return False
    if not all(shape[1].is_static and shape[1].value for shape in shapes):
        return False
    heads, groups, of_values = (shape[1].value for shape in shapes)
    if groups != of_values or heads % groups:
        return False
    batches = {shape[0].value if shape[0].is_static else -1 for shape in shapes}
    if len(batches) > 1:
        return False
    return mask is None or (mask.shape.has_rank and mask.shape.rank in (2, 4))


def _spelled_out(
    ctx: Context,
    op: ScaledDotProductAttention13,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    scale: Value | None,
    sink: Value | None,
) -> Value:
    rank = rank_of(ctx, key, "the keys")
    size = query.shape[-1] if query.shape.has_rank else key.shape[-1]
    if scale is not None:
        factor = scalar(ctx, scale)
    elif size.is_static:
        factor = ctx.like(1 / math.sqrt(size.value), query)
    else:
        width = ctx.cast(dimension(ctx, query, -1), query.element_type)
        factor = ctx.emit("Div", ctx.like(1, query), ctx.emit("Sqrt", reshape(ctx, width, [])))
    turned = transpose(ctx, key, [*range(rank - 2), rank - 1, rank - 2])
    scores = ctx.emit("MatMul", ctx.emit("Mul", query, factor), turned)
    if op.causal:
        mask = _causal(ctx, scores)
    if mask is not None and mask.element_type is element_types.boolean:
        scores = ctx.emit("Where", mask, scores, ctx.like(-math.inf, scores))
    elif mask is not None:
        scores = ctx.emit("Add", scores, mask)
    if sink is not None:
        shape = ctx.emit("Shape", scores)
        lead = ctx.emit("Slice", shape, ctx.constant([0]), ctx.constant([-1]))
        column = ctx.emit("Expand", sink, concat(ctx, [lead, ctx.constant([1])], 0))
        count = ctx.emit("Slice", shape, ctx.constant([-1]), ctx.constant([1 << 62]))
        shares = ctx.emit("Softmax", concat(ctx, [scores, column], -1), axis=-1)
        shares = ctx.emit("Slice", shares, ctx.constant([0]), count, ctx.constant([-1]))
    else:
        shares = ctx.emit("Softmax", scores, axis=-1)
    return ctx.emit("MatMul", shares, value)


def _causal(ctx: Context, scores: Value) -> Value:
    """Where the number of the column is at most that of the row."""
    shape = ctx.emit("Shape", scores)
    rows, columns = (
        ctx.emit("Range", ctx.constant(0), ctx.emit("Gather", shape, ctx.constant(place), axis=0), ctx.constant(1))
        for place in (-2, -1)
    )
    return ctx.emit("LessOrEqual", columns, unsqueeze(ctx, rows, [1]))
