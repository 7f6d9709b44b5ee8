"""Saying single layers differently: what the node-local rules of a target stand on."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ir_runtime.builder import Builder
from ir_runtime.graph import Model, Node, Output
from ir_runtime.operation import Operation
from ir_runtime.rewrite import UniqueNames, Uses, replace_uses, uses_of

Say = Callable[[Builder, Node, Uses], Output | None]
"""Emits what stands for the first output of a layer; None where the layer stays."""


def redirect(uses: Uses, old: Output, new: Output) -> None:
    """Let everything that reads ``old`` read ``new``, which takes over its names."""
    readers = uses.pop(old, [])
    replace_uses(old, new, readers)
    uses[new].extend(readers)
    new.names += [name for name in old.names if name not in new.names]


def register_uses(uses: Uses, made: Iterable[Node]) -> None:
    """Let ``uses`` know what new layers read."""
    for node in made:
        for source in dict.fromkeys(node.inputs):
            uses[source].append(node)


def legalise(model: Model, operations: tuple[type[Operation], ...], say: Say) -> int:
    """Put what ``say`` emits in the place of layers of one output, bodies included; how many there were."""
    acted = 0
    for part in model.all_models():
        nodes = [node for node in part.nodes() if isinstance(node.op, operations)]
        if not nodes:
            continue
        uses, unique = uses_of(part), UniqueNames(part)
        for node in nodes:
            builder = Builder()
            value = say(builder, node, uses)
            if value is None:
                continue
            for layer in builder.emitted:
                layer.name = node.name if layer is value.node else unique(f"{node.name}/{layer.op.type}")
                layer.origin = node.origin
            register_uses(uses, builder.emitted)
            redirect(uses, node.outputs[0], value)
            acted += 1
    return acted
