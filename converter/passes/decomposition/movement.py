"""Elements in another order or shape, and borders that mirror the data."""

from __future__ import annotations

from typing import Union

from converter.passes.decomposition.registry import decomposes
from ir_runtime.operations.indexing import OneHot1, OneHot16
from ir_runtime.operations.inputs_outputs import Identity16
from ir_runtime.operations.movement import Squeeze1, Squeeze15
from ir_runtime.operations.padding import Pad1, Pad12
from ir_runtime.operations.reordering import Roll7
from ir_runtime.rewriting.expressions import Expression, NotExpressible, concat, positions, where


@decomposes(Identity16)
def identity(op: Identity16, x: Expression) -> Expression:
    """The data"""
    return x


@decomposes(Squeeze15)
def squeeze(op: Squeeze15, x: Expression, *axes: Expression) -> Expression:
    """Squeeze-1, which skips no axes"""
    if op.allow_axis_skip:
        raise NotExpressible("whether a dimension is 1 is only known at run time")
    return x.emit(Squeeze1(), *axes)


@decomposes(OneHot16)
def one_hot(op: OneHot16, indices: Expression, depth: Expression, on: Expression, off: Expression) -> Expression:
    """OneHot-1, which ignores negative indices"""
    if op.negative_indices_mode == "normalize":
        size = depth.as_type(indices.element_type)
        indices = where(indices < 0, indices + size.reshape(), indices)
    return indices.emit(OneHot1(axis=op.axis), depth, on, off)


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
        size, before, behind = x.size(axis), *(bound.as_type("i64").gather(axis) for bound in (begins, ends))
        if before.elements() != [0] or behind.elements() != [0]:
            # In a period of twice the size the second half runs backwards.
            period = (positions(before + size + behind) - before) % (size * 2)
            x = x.gather(period.minimum(size * 2 - 1 - period), axis)
    return x
