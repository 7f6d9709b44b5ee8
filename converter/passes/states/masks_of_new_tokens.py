"""Attention of new tokens to themselves and the past, in models that were exported for one new token a call.

    ReadValue -> Gather(beam_idx) -> Concat(past, new) -> attention without a mask

One token sees all keys. Of several each sees the past and the tokens up to itself, which is true for one, too:

    Range(0, past + new) <= Range(past, past + new) -> attention
"""

from __future__ import annotations

from ir_runtime.graph import Model, Node, Output, element_types
from ir_runtime.graph.invariants import STATES
from ir_runtime.operations.attention import ScaledDotProductAttention13, is_no_mask
from ir_runtime.operations.elementwise import LessEqual1
from ir_runtime.operations.generation import Range4
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting import Builder, UniqueNames, graph_pass, layers
from ir_runtime.rewriting.caches import variable_behind
from ir_runtime.rewriting.shape_layers import dim_of


@graph_pass("masks_of_new_tokens", STATES)
def add_masks(model: Model) -> int:
    """Give the attention to caches that grow a causal mask where it has none, in place; how many."""
    nodes_without_mask = [node for node in model.nodes() if _lacks_mask(node)]
    if not nodes_without_mask:
        return 0
    builder, key = Builder(UniqueNames(model)), nodes_without_mask[0].inputs[1]
    builder.begin("mask", nodes_without_mask[0].origin)
    mask = _mask(builder, past=key.node.inputs[0], new=key.node.inputs[1])
    for node in nodes_without_mask:
        node.inputs = (*node.inputs[:3], mask, *node.inputs[4:])
    return len(nodes_without_mask)


def _lacks_mask(node: Node) -> bool:
    if not isinstance(node.op, ScaledDotProductAttention13) or node.op.causal:
        return False
    keys = node.inputs[1]
    grows = isinstance(keys.node.op, Concat1) and len(keys.node.inputs) == 2 and variable_behind(keys) is not None
    return grows and keys.shape.has_rank and all(is_no_mask(value.type) for value in node.inputs[3:4])


def _mask(builder: Builder, past: Output, new: Output) -> Output:
    """``[1, 1, new, past + new]``: whether a token sees a key."""
    before = dim_of(builder, past, past.shape.rank - 2)
    total = layers.add(builder, before, dim_of(builder, new, new.shape.rank - 2))
    every = Range4(output_type=element_types.i64)
    keys = builder.emit(every, builder.constant(0), total, builder.constant(1))
    tokens = builder.emit(every, before, total, builder.constant(1))
    places = layers.unsqueeze(builder, keys, 0, 1, 2), layers.unsqueeze(builder, tokens, 0, 1, 3)
    return builder.emit(LessEqual1(), *places)
