"""Elements in another order, and borders that mirror the data."""

from __future__ import annotations

from typing import Union

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.reordering import Roll7
from ir_runtime.rewriting.expressions import Expression, NotExpressible, concat, positions


@decomposes(Roll7)
def roll(op: Roll7, x: Expression, shift: Expression, axes: Expression) -> Expression:
    """Concat of the two parts of a Slice along each axis"""
    over = axes.elements()
    if over is None:
        raise NotExpressible("the axes must be known")
    shifts = shift.as_type("i64").broadcast(len(over))
    for place, axis in enumerate(over):
        at = -shifts.gather(place) % x.size(axis).maximum(1)
        x = concat([x.cut(axis, at), x.cut(axis, 0, at)], axis % x.rank)
    return x


@decomposes(Pad1, Pad12)
def pad(
    op: Union[Pad1, Pad12], x: Expression, begins: Expression, ends: Expression, value: Expression | None = None
) -> Expression:
    """For the mode symmetric, Gather by indices that turn back at the edges"""
    if op.pad_mode != "symmetric":
        raise NotExpressible(f"only the mode symmetric is decomposed, but it is {op.pad_mode}")
    for axis in range(x.rank):
        size, before, behind = x.size(axis), *(one.as_type("i64").gather(axis) for one in (begins, ends))
        if before.elements() != [0] or behind.elements() != [0]:
            # In a period of twice the size the second half runs backwards.
            period = (positions(before + size + behind) - before) % (size * 2)
            x = x.gather(period.minimum(size * 2 - 1 - period), axis)
    return x
