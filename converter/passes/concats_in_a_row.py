"""Concats in a row along one axis become one.

    a, b -> Concat(axis 1) -> |                becomes      a, b, c -> Concat(axis 1)
                         c -> | Concat(axis 1)

The inner one is left out where nothing else reads it.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations.movement import Concat1
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes


@passes.replaces("concats_in_a_row")
def concat_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Let the last Concat read what the others read."""
    behind = node.outputs[0].only_user
    if behind is not None and _axis(behind) is not None and _axis(behind) == _axis(node):
        return fail("the Concat behind it takes its inputs")
    pending, parts = list(node.inputs[::-1]), list[Output]()
    while pending:
        value = pending.pop()
        if _axis(value.node) == _axis(node) and value.only_user is not None:
            pending += value.node.inputs[::-1]
        else:
            parts.append(value)
    if len(parts) == len(node.inputs):
        return fail("no Concat along its axis before it that nothing else reads")
    assert isinstance(node.op, Concat1)
    return builder.emit(Concat1(axis=node.op.axis), *parts)


def _axis(node: Node) -> int | None:
    """The axis of a Concat, counted from the front where the rank is known."""
    if not isinstance(node.op, Concat1):
        return None
    shape = node.outputs[0].shape
    return node.op.axis % shape.rank if shape.has_rank else node.op.axis
