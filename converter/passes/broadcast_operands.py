"""Operands that are widened to the shape of the other operand are read as they are.

    x -> ShapeOf -> s;  n, s -> Broadcast -> b;  x, b -> Divide      becomes      x, n -> Divide

Elementwise layers widen their operands themselves. torch writes this for ``x.expand_as(y)``, and so for
``torch.nn.functional.normalize``.
"""

from __future__ import annotations

from ir_runtime.graph.model import Node, Output
from ir_runtime.operations.elementwise import Binary
from ir_runtime.operations.generation import ShapeOf1, ShapeOf3
from ir_runtime.operations.movement import Broadcast1, Broadcast3
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .registry import passes

_MODES = ("numpy", "bidirectional")


@passes.replaces("broadcast_operands", Binary, after=["equal_layers"], fuses=True)
def broadcast_operand(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Let the layer read what is widened."""
    op, (a, b) = node.op, node.inputs
    assert isinstance(op, Binary)
    if op.auto_broadcast != "numpy":
        return fail("it does not widen operands as NumPy does")
    first, second = _before(a, b), _before(b, a)
    if first is not None:
        return builder.emit(op, first, b)
    if second is not None:
        return builder.emit(op, a, second)
    return fail("no operand is widened to the shape of the other one")


def _before(value: Output, other: Output) -> Output | None:
    """What is widened to the shape of ``other``; None where ``value`` is something else."""
    op = value.node.op
    if not isinstance(op, (Broadcast1, Broadcast3)) or op.mode not in _MODES:
        return None
    data, shape = value.node.inputs[:2]
    is_shape_of_other = isinstance(shape.node.op, (ShapeOf1, ShapeOf3)) and shape.node.inputs[0] is other
    return data if is_shape_of_other else None
