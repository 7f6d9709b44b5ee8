"""Broadcasts that only elementwise layers read, which broadcast themselves, are left out.

    x -> Broadcast(shape of y) -> Add(y)      becomes      x -> Add(y)

Each number of the target is the dimension of the other operand at its place, or 1.
"""

from __future__ import annotations

from ir_runtime.errors import InferenceError
from ir_runtime.graph.model import Node, Output
from ir_runtime.graph.shapes import broadcast
from ir_runtime.operations.movement import Broadcast1, Broadcast3
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .registry import passes
from .target_shapes import Number, is_dimension, numbers_of


@passes.replaces("broadcast_operands", Broadcast1, Broadcast3, after=["equal_layers", "idle_layers"], fuses=True)
def broadcast_operand(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Let the elementwise layers read what is broadcast."""
    x, value = node.inputs[0], node.outputs[0]
    numbers = numbers_of(node.inputs[1])
    if numbers is None or node.op.mode == "explicit":  # type: ignore[attr-defined]
        return fail("its target is not known, or names axes")
    if not x.shape.has_rank or x.shape.rank > len(numbers) or not uses[value]:
        return fail("it may drop dimensions, or nothing reads it")
    for reader in uses[value]:
        if not _broadcasts_itself(reader, x, value, numbers):
            return fail(f"'{reader.name}' reads it, and may not broadcast to the same shape")
    return x


def _broadcasts_itself(reader: Node, x: Output, value: Output, numbers: list[Number]) -> bool:
    if getattr(reader.op, "auto_broadcast", "") != "numpy" or len(reader.inputs) != 2:
        return False
    others = [source for source in reader.inputs if source is not value]
    if len(others) != 1 or not others[0].shape.has_rank:
        return False
    (other,) = others
    start = other.shape.rank - len(numbers)
    if start < 0 or not all(number == 1 or is_dimension(number, other, i) for i, number in enumerate(numbers, start)):
        return False
    try:
        return broadcast(x.shape, other.shape) == reader.outputs[0].shape
    except InferenceError:
        return False
