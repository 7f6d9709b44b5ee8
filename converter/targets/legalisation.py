"""Saying single layers differently: what the node-local rules of a target stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operation import Operation
from ir_runtime.rewrite import UniqueNames, Uses, replace_uses

Say = Callable[[Builder, Node, Uses], Output | Sequence[Output] | None]
"""Emits what stands for a layer's only output, or for each of several; None where the layer stays."""


def redirect(uses: Uses, old: Output, new: Output) -> None:
    """Let everything that reads ``old`` read ``new``, which takes over its names."""
    readers = uses.pop(old, [])
    replace_uses(old, new, readers)
    uses[new].extend(readers)
    new.names += [name for name in old.names if name not in new.names]
    old.names = []


def register_uses(uses: Uses, made: Iterable[Node]) -> None:
    """Let ``uses`` know what new layers read."""
    for node in made:
        for source in dict.fromkeys(node.inputs):
            uses[source].append(node)


def legalise(model: Model, operations: tuple[type[Operation], ...], say: Say) -> int:
    """Put what ``say`` emits in the place of layers, bodies included; how many there were."""
    acted = 0
    for part in model.parts():
        nodes = part.nodes_of(operations)
        if not nodes:
            continue
        uses, unique, builder = part.uses, UniqueNames(part), Builder()
        for node in nodes:
            known = len(builder.emitted)
            said = say(builder, node, uses)
            if said is None:
                continue
            values = [said] if isinstance(said, Output) else said
            made = builder.emitted[known:]
            for layer in made:
                layer.name = node.name if layer is values[0].node else unique(f"{node.name}/{layer.op.type}")
                layer.origin = node.origin
            register_uses(uses, made)
            for old, new in zip(node.outputs, values, strict=True):
                redirect(uses, old, new)
            acted += 1
    return acted
