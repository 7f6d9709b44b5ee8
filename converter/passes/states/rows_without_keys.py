"""Rows of attention that see no key, in models whose caches become variables.

    scores, Select(seen, 0, -inf) -> Add -> SoftMax -> p
    Select(IsNaN(p), 0, p)

becomes

    scores, Select(seen, 0, lowest) -> Add -> SoftMax

In a language model only padding in front of a prompt sees no key. The guard makes its output zeros; with the lowest
finite number in place of -inf it is the mean of all values. Nobody reads either, and neither is NaN. Without the guard
the layers are those of attention, which runtimes know.
"""

from __future__ import annotations

import numpy as np

from ir_runtime.graph import Model, Node, Output
from ir_runtime.graph.invariants import STATES
from ir_runtime.operations.activation import SoftMax8
from ir_runtime.operations.elementwise import Add1, IsNaN10, Maximum1, Select1
from ir_runtime.rewriting import Builder, Replacement, anything, fail, graph_pass, layer, number
from ir_runtime.rewriting.replace_layers import replace_layers

_SHARES = layer(SoftMax8, layer(Add1, anything("scores"), anything("mask")), name="shares")
_PATTERN = layer(Select1, layer(IsNaN10, _SHARES), number(0), _SHARES)


@graph_pass("rows_without_keys", STATES)
def replace_guards(model: Model) -> int:
    """Leave out guards of rows without keys, in place; how many."""
    return replace_layers(model, (Select1,), _without_guard)


def _without_guard(builder: Builder, node: Node) -> Replacement:
    match = _PATTERN.find(node.outputs[0])
    scores, mask = match["scores"], match["mask"]
    if mask.shape.has_rank and scores.shape.has_rank and mask.shape.rank > scores.shape.rank:
        return fail("the mask has more dimensions than the scores")
    finite = _finite(builder, mask)
    return builder.emit(match.node("shares").op, builder.emit(Add1(), scores, finite))


def _finite(builder: Builder, mask: Output) -> Output:
    """The mask with the lowest finite number in place of -inf."""
    lowest = builder.constant(np.finfo(mask.element_type.dtype).min, mask.element_type)
    if not isinstance(mask.node.op, Select1):
        return builder.emit(Maximum1(), mask, lowest)
    condition, *choices = mask.node.inputs
    if any(choice.type.constant is None for choice in choices):
        return builder.emit(Maximum1(), mask, lowest)
    return builder.emit(mask.node.op, condition, *(builder.emit(Maximum1(), choice, lowest) for choice in choices))
