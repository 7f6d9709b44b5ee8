"""Transposes in a row with constant orders become one, and one that moves no axis disappears.

    x -> Transpose(first) -> Transpose(second) -> y     becomes     x -> Transpose(first[second]) -> y
    x -> Transpose(0, 1, 2, ...) -> y                   becomes     x

The first of two stays if something else reads it.
"""

from __future__ import annotations

from converter.passes.registry import passes
from ir_runtime.graph import Node, Output
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting import Builder, NotMatched, Replacement, anything, constant, fail, layer

_ONE = layer(Transpose1, anything("x"), constant("order"))
_TWO = layer(Transpose1, layer(Transpose1, anything("x"), constant("first")), constant("second"))


@passes.replaces("transposes_in_a_row")
def transposes_in_a_row(builder: Builder, node: Node) -> Replacement:
    """Return the value that keeps its axes, or one Transpose of what the first of two reads."""
    match = _ONE.match(node.outputs[0])
    if isinstance(match, NotMatched):
        return match
    if _moves_nothing(match["x"], match.array("order").tolist()):
        return match["x"]
    two = _TWO.match(node.outputs[0])
    if isinstance(two, NotMatched):
        return two
    x, first, second = two["x"], two.array("first").tolist(), two.array("second").tolist()
    if not first and not second:
        return x
    rank = len(first or second)
    first, second = _axes(first, rank), _axes(second, rank)
    if sorted(first) != list(range(rank)) or sorted(second) != list(range(rank)):
        return fail(f"{first} and {second} are not orders of the same dimensions")
    order = [first[axis] for axis in second]
    return x if _moves_nothing(x, order) else builder.emit(Transpose1(), x, builder.constant(order))


def _moves_nothing(x: Output, order: list[int]) -> bool:
    """Tell whether the axes stay; where only the order tells how many there are, it has to."""
    return x.shape.has_rank and _axes(order, x.shape.rank) == list(range(x.shape.rank))


def _axes(order: list[int], rank: int) -> list[int]:
    """Return the axes in their order: an empty order reverses them."""
    return order or list(range(rank))[::-1]
