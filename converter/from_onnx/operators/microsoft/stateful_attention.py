"""GroupQueryAttention whose cache is a variable of the model.

onnxruntime's operator takes positions and valid keys from ``seqlens_k``, the number of keys of each row, and so wants
rows that are padded on the right. A cache that is a variable has another contract, that of OpenVINO's runtimes of
language models: new keys stand behind those of the past, in order; ``attention_mask`` ``[b, t]`` tells which of all
keys count, wherever a row is padded; ``position_ids`` ``[b, s]`` are the positions of the new ones.

Letters in shapes: b batches, s queries, t keys (those of the past included), n heads, h numbers a head.
"""

from __future__ import annotations

from converter.from_onnx.lowering.attention import mask_of
from converter.from_onnx.translation.context import Context
from ir_runtime.graph import Node, Output, PartialShape, TensorType, element_types
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.layers import add, subtract, unsqueeze
from ir_runtime.rewriting.shape_layers import arange, dim_of

_POSITIONS = "position_ids"


def positions(ctx: Context, queries: Output) -> Output:
    """The positions of the queries ``[b, n, s, h]``: an input of the model, ``[b, s]``."""
    dims = PartialShape([queries.shape[0], queries.shape[2]])
    return ctx.graphs.model_input(_POSITIONS, TensorType(element_types.i64, dims))


def mask(ctx: Context, queries: Output, places: Output | None, lengths: Output, causal: bool, window: int) -> Output:
    """The numbers that are added to the scores, ``[b, 1, s, t]``: 0, or the lowest finite number for hidden keys.

    A row without any key gets the mean of all values: a position of padding, which nobody reads, but whose NaN would
    spread. ``lengths`` is ``seqlens_k``, which leads to the mask that it counts. ``places`` are the positions of the
    queries ``[b, s]``, where there are any.
    """
    valid = _attention_mask(ctx, lengths)
    # Counted at the input, all layers have one mask.
    count = dim_of(ctx, queries, 2) if places is None or places.shape.rank != 2 else dim_of(ctx, places, 1)
    total = dim_of(ctx, valid, 1)
    keys = arange(ctx, total)
    rows = unsqueeze(ctx, add(ctx, arange(ctx, count), subtract(ctx, total, count)), 1)
    seen = unsqueeze(ctx, layers.not_equal(ctx, valid, ctx.like(0, valid)), 1, 2)
    if causal:
        seen = layers.logical_and(ctx, layers.less_equal(ctx, keys, rows), seen)
    if window > 0:
        near = layers.greater(ctx, keys, subtract(ctx, rows, ctx.constant(window)))
        seen = layers.logical_and(ctx, near, seen)
    return mask_of(ctx, seen, queries)


def _attention_mask(ctx: Context, lengths: Output) -> Output:
    """The input ``[b, t]`` that ``lengths`` is computed from."""
    mask_inputs: dict[Node, None] = {}
    seen: set[Node] = set()
    pending = [lengths.node]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        pending.extend(source.node for source in node.inputs)
        if node.op.role == "parameter":
            mask_inputs[node] = None
    masks = [node.outputs[0] for node in mask_inputs]
    if len(masks) == 1 and masks[0].element_type.is_integral and ctx.rank(masks[0], "the attention mask") == 2:
        return masks[0]
    inputs = ", ".join(f"'{node.name}' {node.outputs[0].type}" for node in mask_inputs) or "no input"
    raise ctx.unsupported(
        "a cache that becomes a variable needs an attention mask [batch, keys] among the inputs, which seqlens_k "
        f"counts; but it is computed from {inputs}"
    )
