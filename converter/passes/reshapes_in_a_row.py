"""Changes of the shape in front of a Reshape to a constant shape are left out.

    x -> Unsqueeze -> Reshape [2, -1]      becomes      x -> Reshape [2, -1]
    x -> Reshape -> Reshape [2, -1]        becomes      x -> Reshape [2, -1]

A Reshape that takes dimensions of its input over (a 0 in the shape) reads the shape in between, and stays.
"""

from __future__ import annotations

from ir_runtime.graph.model import Node
from ir_runtime.operations.movement import Reshape1, Squeeze1, Squeeze15, Unsqueeze1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .registry import passes

_RESHAPING = (Reshape1, Squeeze1, Squeeze15, Unsqueeze1)


@passes.replaces("reshapes_in_a_row", Reshape1, after=["flattened_transposes"], fuses=True)
def reshape_in_a_row(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Let the last Reshape read what the first one reads."""
    value, target = node.inputs
    assert isinstance(node.op, Reshape1)
    shape = target.type.constant
    if shape is None:
        return fail("its shape is not constant")
    if node.op.special_zero and not shape.all():
        return fail("it takes a dimension over from the shape before it")
    first = value
    while isinstance(first.node.op, _RESHAPING) and len(uses[first]) == 1:
        first = first.node.inputs[0]
    if first is value:
        return fail("no change of the shape before it that nothing else reads")
    return builder.emit(node.op, first, target)
