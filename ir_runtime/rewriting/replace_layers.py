"""Visiting the layers of some operations, to replace each by others or to edit the graph around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from ir_runtime.graph import Model, Node, Operation, Output, Part
from ir_runtime.records import record

from .builder import Builder
from .fused_names import note_fused
from .matching import NotMatched, fail
from .trace import PassTrace
from .unique_names import UniqueNames


@record
class Substitute:
    """A value that is not that of the layer, but with which every reader of it computes the same.

    Example: an operand that elementwise layers broadcast by themselves. It does not take over tensor names, under
    which a comparison would expect the layer's own value.
    """

    value: Output


Replacement = Union[Output, Sequence[Output], Substitute, NotMatched]
"""Replacement of a layer's only output, or of each of several; or :func:`fail` with the reason why the layer stays."""
Replace = Callable[[Builder, Node], Replacement]
"""Emits the replacement of a layer."""
Edit = Callable[[Node, UniqueNames], Union[int, NotMatched]]
"""Changes the graph around a layer, and returns how many changes it made; the names are for new layers."""


def edit_layers(model: Model, operations: tuple[type[Operation], ...], edit: Edit, trace: PassTrace) -> int:
    """Visit the layers of these operations, bodies included, in the graph's order; returns the sum of the changes.

    For what is no replacement of a layer's outputs: ``edit`` changes the graph itself.
    """
    count = 0
    for part in model.parts():
        unique = UniqueNames(part)
        for node in part.nodes_of(operations):
            if not node.is_in_graph:
                continue
            try:
                changes = edit(node, unique)
            except NotMatched as why:
                changes = fail(why.reason)
            if isinstance(changes, NotMatched):
                trace.not_matched(node, changes)
            else:
                trace.matched(node)
                count += changes
    return count


def replace_layers(
    model: Model,
    operations: tuple[type[Operation], ...],
    replace: Replace,
    trace: PassTrace | None = None,
    *,
    fuses: bool = False,
) -> int:
    """Replace layers of these operations by what ``replace`` emits for them; how many were replaced.

    Bodies take part. Layers come in the graph's order, and each sees the replacements of those before it: three
    Transposes in a row become one by a rule that joins two. A layer that nothing reads any more, because a layer
    behind it was replaced, is left out. A replacement may read the output of the layer that it replaces. Names,
    tensor names, ``runtime_info`` and origin go over to the replacement, tensor names only to an equal value
    (:class:`Substitute`). With ``fuses`` a layer in the place of
    several has their names in its ``runtime_info``. What follows from a value of another type is inferred again by the
    checks of the pass that calls this.
    """
    return sum(
        _replace_in(part, nodes, replace, trace, fuses)
        for part in model.parts()
        if (nodes := part.nodes_of(operations))
    )


def _replace_in(part: Part, nodes: Sequence[Node], replace: Replace, trace: PassTrace | None, fuses: bool) -> int:
    builder, count = Builder(UniqueNames(part)), 0
    for node in nodes:
        if not node.is_in_graph:
            continue
        builder.begin(node)
        try:
            replacement = replace(builder, node)
        except NotMatched as why:
            replacement = fail(why.reason)  # without the frames, which hold the graph
        if isinstance(replacement, NotMatched):
            builder.cancel()
            if trace is not None:
                trace.not_matched(node, replacement)
            continue
        is_same_value = not isinstance(replacement, Substitute)
        value = replacement.value if isinstance(replacement, Substitute) else replacement
        values = [value] if isinstance(value, Output) else value
        removed = builder.replace(node, values, is_same_value=is_same_value)
        if fuses and len(removed) > 1 and values[0].node in builder.emitted:
            note_fused(values[0].node, removed)
        count += 1
        if trace is not None:
            trace.matched(node)
    return count
