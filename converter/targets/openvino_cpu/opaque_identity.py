"""A layer that changes nothing, and that engines keep because it computes."""

from __future__ import annotations

from collections.abc import Iterable

from ir_runtime import element_types
from ir_runtime.element_types import ElementType
from ir_runtime.graph import Node, Output
from ir_runtime.operation import Operation
from ir_runtime.operations.elementwise import LogicalOr1, Maximum1
from ir_runtime.rewrite import UniqueNames, replace_uses
from ir_runtime.shape_inference import make_node


def opaque_identity(kind: ElementType) -> Operation:
    """What gives a value of that type if it is handed the value twice: the greater of the two, or either one."""
    return LogicalOr1() if kind is element_types.boolean else Maximum1()


def keep_apart(source: Output, readers: Iterable[Node], unique: UniqueNames) -> None:
    """Let the readers read ``source`` through such a layer."""
    between = make_node(opaque_identity(source.element_type), [source, source], unique(f"{source.node.name}/as_it_is"))
    between.origin = source.node.origin
    replace_uses(source, between.outputs[0], readers)
