"""Slices in a row along different axes become one.

    x -> Slice(0: of axis 1 by 2) -> Slice(1: of axis 2 by 2)      becomes      x -> Slice([0:, 1:] of axes [1, 2] by 2)

All bounds must be constant. A slice that several slices read is removed where each of them can apply its bounds as
well, as in Swin Transformer, whose patch merging takes four slices of one.
"""

from __future__ import annotations

from ir_runtime.graph import Node
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting import Builder, NotMatched, Replacement, fail

from .registry import passes

_MOST_READERS = 16
"""Each of them checks all others: more would take quadratic time."""


@passes.replaces("slices_in_a_row")
def slice_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Slice along the axes of both at once."""
    first = node.inputs[0].node
    if not isinstance(first.op, Slice8):
        return fail(f"its input is made by {first.op.type}, not by Slice")
    why = why_it_stays(first)
    if why is not None:
        return why
    before, after = _lists(first), _lists(node)
    assert not isinstance(before, NotMatched)
    assert not isinstance(after, NotMatched)
    lists = [builder.constant([*front, *back]) for front, back in zip(before, after)]
    return builder.emit(Slice8(), first.inputs[0], *lists)


def why_it_stays(first: Node) -> NotMatched | None:
    """The reason why not all that reads a slice can take its bounds over; None where all can."""
    before = _lists(first)
    if isinstance(before, NotMatched):
        return before
    readers = first.outputs[0].uses
    if len(readers) > _MOST_READERS:
        return fail("too many layers read the slice before it")
    for reader in readers:
        own = _lists(reader)
        if isinstance(own, NotMatched):
            return own
        if not set(own[3]).isdisjoint(before[3]):
            return fail(f"'{reader.name}' slices an axis of the slice before it")
    return None


def _lists(node: Node) -> list[list[int]] | NotMatched:
    """Starts, stops, steps and axes, these counted from the front."""
    if not isinstance(node.op, Slice8):
        return fail(f"'{node.name}' reads the slice before it, too, and is no Slice")
    shape = node.inputs[0].shape
    if not shape.has_rank:
        return fail("the rank is not known")
    constants = [source.type.constant for source in node.inputs[1:]]
    if any(values is None for values in constants):
        return fail(f"the bounds or axes of '{node.name}' are not constant")
    lists = [[int(value) for value in values.reshape(-1)] for values in constants if values is not None]
    axes = lists[3] if len(lists) > 3 else list(range(len(lists[0])))
    return [*lists[:3], [axis % shape.rank for axis in axes]]
