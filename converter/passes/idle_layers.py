"""Layers that change nothing are left out.

    x -> Concat                                            becomes      x
    x -> Negative -> Negative                              becomes      x
    x -> Slice(everything)                                 becomes      x
    x -> Reshape(its own shape)                            becomes      x
    x -> Unsqueeze(axes) -> Squeeze(axes)                  becomes      x
    x -> Tile(1, 1, 1)                                     becomes      x
    x -> Broadcast(1, 1, 1, or its own shape)              becomes      x

Shapes are constant or computed from the shape of ``x``.
"""

from __future__ import annotations

from collections.abc import Callable

from ir_runtime.graph.model import Node, Output
from ir_runtime.operations.elementwise import Negative1
from ir_runtime.operations.movement import (
    Broadcast1,
    Broadcast3,
    Concat1,
    Reshape1,
    Squeeze1,
    Tile1,
    Unsqueeze1,
)
from ir_runtime.operations.slicing import Slice8
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.matching import fail
from ir_runtime.rewriting.replace_layers import Replacement
from ir_runtime.rewriting.uses import Uses

from .registry import passes
from .target_shapes import DimensionOf, Number, is_dimension, is_shape, numbers_of

_END = 2**31 - 1
"""Exporters write this number, or a larger one, for the end."""


def _concat(node: Node) -> Output | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _negative(node: Node) -> Output | None:
    before = node.inputs[0].node
    return before.inputs[0] if isinstance(before.op, Negative1) else None


def _slice(node: Node) -> Output | None:
    lists = [source.type.constant for source in node.inputs[1:4]]
    if any(values is None for values in lists):
        return None
    start, stop, step = (values.reshape(-1) for values in lists if values is not None)
    whole = ((start == 0) | (start <= -_END)).all() and (stop >= _END).all() and (step == 1).all()
    return node.inputs[0] if whole else None


def _reshape(node: Node) -> Output | None:
    assert isinstance(node.op, Reshape1)
    x, target = node.inputs
    if not x.shape.has_rank or any(dim.high == 0 for dim in x.shape.dims):
        return None
    rank = x.shape.rank
    own: list[Number] = [DimensionOf(x, axis) for axis in range(rank)]
    return x if is_shape(target, own, x, kept=rank if node.op.special_zero else 0) else None


def _squeeze(node: Node) -> Output | None:
    before = node.inputs[0].node
    if not isinstance(before.op, Unsqueeze1) or len(node.inputs) < 2:
        return None
    first, second = before.inputs[1].type.constant, node.inputs[1].type.constant
    if first is None or second is None or not second.size:
        return None
    return before.inputs[0] if sorted(first.reshape(-1).tolist()) == sorted(second.reshape(-1).tolist()) else None


def _tile(node: Node) -> Output | None:
    x, repeats = node.inputs
    known = repeats.type.constant
    once = known is not None and bool((known == 1).all()) and x.shape.has_rank and known.size <= x.shape.rank
    return x if once else None


def _broadcast(node: Node) -> Output | None:
    x, mode = node.inputs[0], node.op.mode  # type: ignore[attr-defined]
    numbers = numbers_of(node.inputs[1])
    if numbers is None or mode == "explicit" or not x.shape.has_rank:
        return None
    start = x.shape.rank - len(numbers)
    if start < 0 or (start and mode != "bidirectional"):
        return None
    may_be_one = mode == "bidirectional"
    same = all(
        (may_be_one and number == 1) or is_dimension(number, x, axis) for axis, number in enumerate(numbers, start)
    )
    return x if same else None


_IDLE: dict[type, Callable[[Node], Output | None]] = {
    Concat1: _concat,
    Negative1: _negative,
    Slice8: _slice,
    Reshape1: _reshape,
    Squeeze1: _squeeze,
    Tile1: _tile,
    Broadcast1: _broadcast,
    Broadcast3: _broadcast,
}


@passes.replaces("idle_layers", *_IDLE, after=["equal_layers"], fuses=True)
def idle_layer(builder: Builder, node: Node, uses: Uses) -> Replacement:
    """Let what reads the result read what it is made from."""
    look = next(function for operation, function in _IDLE.items() if isinstance(node.op, operation))
    return look(node) or fail("it changes its input, or may do so")
