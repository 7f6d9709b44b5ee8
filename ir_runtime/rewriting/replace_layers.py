"""Replacing single layers by other layers: most rules of a target, and many passes, are no more than that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from ir_runtime.errors import InternalError
from ir_runtime.graph.model import Model, Node, Output, Part
from ir_runtime.graph.operation import Operation
from ir_runtime.records import record

from .builder import Builder
from .fused_names import note_fused
from .matching import NotMatched
from .trace import PassTrace
from .type_updates import differs, update_types
from .unique_names import UniqueNames
from .uses import Uses


@record
class Substitute:
    """A value that is not that of the layer, but with which every reader of it computes the same.

    Example: an operand that elementwise layers broadcast by themselves. It does not take over tensor names, under
    which a comparison would expect the layer's own value.
    """

    value: Output


Replacement = Union[Output, Sequence[Output], Substitute, NotMatched]
"""What replaces a layer's only output, or each of several; or :func:`fail` with the reason why the layer stays."""
Replace = Callable[[Builder, Node, Uses], Replacement]
"""Emits the replacement of a layer."""


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
    several has their names in its ``runtime_info``.
    """
    count, changed = 0, set[Output]()
    for part in model.parts():
        nodes = part.nodes_of(operations)
        if nodes:
            count += _replace_in(part, nodes, replace, trace, fuses, changed)
    if changed:
        update_types(model, changed)
    return count


def _replace_in(
    part: Part,
    nodes: Sequence[Node],
    replace: Replace,
    trace: PassTrace | None,
    fuses: bool,
    changed: set[Output],
) -> int:
    uses, unique, builder, count = Uses(part.uses), UniqueNames(part), Builder(), 0
    for node in nodes:
        if uses.is_unused(node):
            continue
        known = len(builder.emitted)
        replacement = replace(builder, node, uses)
        if isinstance(replacement, NotMatched):
            if len(builder.emitted) > known:
                builder = Builder()  # layers of an attempt that failed have no names, and are not taken up again
            if trace is not None:
                trace.not_matched(node, replacement)
            continue
        is_same_value = not isinstance(replacement, Substitute)
        value = replacement.value if isinstance(replacement, Substitute) else replacement
        values = [value] if isinstance(value, Output) else value
        emitted = builder.emitted[known:]
        for layer in emitted:
            layer.name = node.name if layer is values[0].node else unique(f"{node.name}/{layer.op.type}")
            layer.origin = node.origin
            if layer is values[0].node:
                layer.runtime_info = node.runtime_info
        if len(values) != len(node.outputs):
            raise InternalError(f"{len(values)} values replace the {len(node.outputs)} outputs of {node.where}")
        for old, new in zip(node.outputs, values):
            if is_same_value and new.element_type is not old.element_type:
                raise InternalError(
                    f"output {old.index} of {node.where} has {old.element_type}, but is replaced by {new.element_type}"
                )
        uses.add(emitted)
        changed.update(new for old, new in zip(node.outputs, values) if differs(old.type, new.type))
        # A new layer that reads the output of the old one goes on reading it.
        replaced = [
            gone
            for old, new in zip(node.outputs, values)
            for gone in uses.replace(old, new, emitted, is_same_value=is_same_value)
        ]
        if fuses and len(replaced) > 1 and values[0].node in emitted:
            note_fused(values[0].node, replaced)
        count += 1
        if trace is not None:
            trace.matched(node)
    return count
