"""Compute elementwise layers from a scalar instead of its broadcast.

    0 -> Broadcast(shape) -> Add(8)             becomes      8 -> Broadcast(shape)
    1.0 -> Broadcast(shape) -> NotEqual(0)      becomes      True -> Broadcast(shape)

Exporters write this for ``torch.full`` and ``torch.ones``. The other operand is one number, too.
"""

from __future__ import annotations

from ir_runtime.graph import Node, Output
from ir_runtime.operations.movement import Broadcast
from ir_runtime.rewriting import Builder, Replacement, fail

from .registry import passes


@passes.replaces("broadcast_numbers")
def broadcast_number(builder: Builder, node: Node) -> Replacement:
    """Broadcast the result."""
    wide = next((source for source in node.inputs if isinstance(source.node.op, Broadcast)), None)
    if wide is None:
        return fail("it reads nothing that is broadcast")
    if wide.only_user is None or not _is_number(wide.node.inputs[0]) or len(wide.node.inputs) != 2:
        return fail("what is broadcast is no number, names axes, or is read elsewhere, too")
    others = [source for source in node.inputs if source is not wide]
    least = wide.shape.rank if wide.shape.has_rank else wide.node.inputs[0].shape.rank
    if any(not _is_number(other) or other.shape.rank > least for other in others):
        return fail("the other operand is no number, or may have more dimensions")
    if getattr(node.op, "auto_broadcast", "numpy") != "numpy":
        return fail("its operands are not broadcast as NumPy does")
    number = wide.node.inputs[0]
    result = builder.emit(node.op, *[number if source is wide else source for source in node.inputs])
    return builder.emit(wide.node.op, result, wide.node.inputs[1])


def _is_number(value: Output) -> bool:
    return value.tensor is not None and value.tensor.size == 1
