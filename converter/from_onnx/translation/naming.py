"""The names of the layers that one node becomes, and their note of the node."""

from __future__ import annotations

from collections.abc import Sequence

from ir_runtime.graph import Origin, Output
from ir_runtime.rewriting import Builder, UniqueNames

from .values import Value


def name_layers(builder: Builder, unique: UniqueNames, name: str, outputs: Sequence[Value | None]) -> None:
    """Give the layer of the first output the node's name, the others that name and their type."""
    mine = set(builder.emitted)
    main = next((o.node for o in outputs if isinstance(o, Output) and o.node in mine), None)
    if main is not None:
        main.name = unique(name)
    for node in builder.emitted:
        if not node.name:
            node.name = unique(f"{name}/{node.op.type}")


def note_origin(builder: Builder, name: str, op_type: str) -> None:
    """Give the layers the ONNX node that they were made from, where an inner translation has not given them one."""
    origin = Origin(name, op_type)
    for layer in builder.emitted:
        layer.origin = layer.origin or origin
