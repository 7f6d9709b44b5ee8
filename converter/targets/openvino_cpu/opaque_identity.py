"""A layer that changes nothing, and that engines do not remove."""

from __future__ import annotations

from collections.abc import Iterable

from ir_runtime.graph import ElementType, Node, Operation, Output, element_types, make_node
from ir_runtime.operations.elementwise import LogicalOr1, Maximum1
from ir_runtime.rewriting import UniqueNames


def opaque_identity(element_type: ElementType) -> Operation:
    """An operation that returns a value of this type if both its inputs are that value: Maximum or LogicalOr."""
    return LogicalOr1() if element_type is element_types.boolean else Maximum1()


def prevent_fusion(source: Output, readers: Iterable[Node], unique: UniqueNames) -> None:
    """Let the readers read ``source`` through such a layer, so that they are not fused with its producer."""
    between = make_node(opaque_identity(source.element_type), [source, source], unique(f"{source.node.name}/as_it_is"))
    between.origin = source.node.origin
    for reader in readers:
        reader.replace_inputs([between.outputs[0] if value is source else value for value in reader.inputs])
