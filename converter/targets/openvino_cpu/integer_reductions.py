"""Sums, means and extremes of integers.

The plug-in reduces i32, i64, u32 and u64 in float32, which holds integers exactly below 2^24 only. The rule splits
integers into groups of bits whose sums stay below that. It shifts the sums to their places and adds them as integers,
which is exact.

    ReduceSum(x)     becomes   ReduceSum(x & m) + (ReduceSum(x >> w & m) << w) + ...
    ReduceL1(x)      becomes   the same of Abs(x)
    ReduceMean(x)    becomes   long division of these sums by the count, from the highest group of bits on
    ReduceMax(x)     becomes   ReduceMax(x >> 16) << 16 + ReduceMax(lower bits of those that have it)

It saturates the sum of 8-bit integers before it divides it for the mean:

    ReduceMean(x)    becomes   ReduceMean(x as i32) as the type of x

Where the numbers, or sums of them, are known to stay below 2^24 the layer stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Node, Output, element_types, normalize_axes
from ir_runtime.operations.elementwise import BitwiseAnd13, BitwiseLeftShift15, BitwiseRightShift15
from ir_runtime.operations.reduction import ReduceL1_4, ReduceMax1, ReduceMean1, ReduceMin1, ReduceSum1, Reduction
from ir_runtime.rewriting import Builder, Replacement, fail, layers
from ir_runtime.rewriting.shape_layers import element_count

from .intervals import EXACT, interval_of

_ROOM = 23
"""Bits of a sum that float32 holds, less one for the remainder of a division."""
_COUNT_IF_UNKNOWN = (1 << 15) - 1
"""The number of summands that is assumed where dimensions are dynamic."""


@openvino_cpu.replaces("integer_reductions", seen_in=("2023.3", "2024.6", "2025.4", "2026.4"))
def integer_reductions(builder: Builder, node: Node) -> Replacement:
    """Reduce integers exactly."""
    data = node.inputs[0]
    if not data.element_type.is_integral:
        return fail("it reduces floats")
    if data.element_type.bits <= 8 and isinstance(node.op, ReduceMean1):
        wide = layers.in_type(builder, data, element_types.i32)
        return layers.in_type(builder, builder.emit(node.op, wide, node.inputs[1]), data.element_type)
    if data.element_type.bits < 32:
        return fail("the integers have less than 32 bits, and it is no mean of 8 bits")
    largest = max(map(abs, interval_of(data)))
    if isinstance(node.op, (ReduceMax1, ReduceMin1)):
        return _extreme(builder, node) if largest > EXACT else fail("float32 holds every number exactly")
    if largest * _count(node) <= EXACT:
        return fail("float32 holds every sum exactly")
    if isinstance(node.op, ReduceMean1):
        return _mean(builder, node)
    if isinstance(node.op, ReduceL1_4) and data.element_type.is_signed:
        data = layers.absolute(builder, data)
    pieces, width = _pieces(builder, node, data)
    return _combine(builder, pieces, width)


def _count(node: Node) -> int:
    """Return the number of elements that each result combines, as far as it is known."""
    shape, axes = node.inputs[0].shape, node.inputs[1].type.constant
    if not shape.has_rank:
        return _COUNT_IF_UNKNOWN
    reduced = range(shape.rank) if axes is None else normalize_axes(axes.reshape(-1).tolist(), shape.rank)
    dimensions = [shape[axis] for axis in reduced]
    return math.prod(d.value for d in dimensions) if all(d.is_static for d in dimensions) else _COUNT_IF_UNKNOWN


def _pieces(builder: Builder, node: Node, data: Output) -> tuple[list[Output], int]:
    """Sums of the data's bits in groups, lowest first, and how many bits a group has."""
    width = max(1, min(12, _ROOM - max(1, _count(node)).bit_length()))
    summed = ReduceSum1(keep_dims=_keeps(node))
    sums = []
    for shift in range(0, 32, width):
        part = data
        if shift:
            part = builder.emit(BitwiseRightShift15(), data, builder.like(shift, data))
        # The topmost group carries the sign, and whatever a 64-bit number has above 32 bits.
        if shift + width < 32:
            part = builder.emit(BitwiseAnd13(), part, builder.like((1 << width) - 1, data))
        elif data.element_type is element_types.u32:
            part = builder.emit(BitwiseAnd13(), part, builder.like((1 << (32 - shift)) - 1, data))
        sums.append(builder.emit(summed, part, node.inputs[1]))
    return sums, width


def _keeps(node: Node) -> bool:
    assert isinstance(node.op, Reduction)
    return node.op.keep_dims


def _shifted_up(builder: Builder, data: Output, bits: int) -> Output:
    # A shift, because the plug-in fuses Multiply and Add of integers into a product it gets wrong.
    return builder.emit(BitwiseLeftShift15(), data, builder.like(bits, data))


def _combine(builder: Builder, pieces: Sequence[Output], width: int) -> Output:
    total = pieces[0]
    for index, piece in enumerate(pieces[1:], 1):
        total = layers.add(builder, total, _shifted_up(builder, piece, index * width))
    return total


def _mean(builder: Builder, node: Node) -> Output:
    """Rounded towards zero."""
    data = node.inputs[0]
    pieces, width = _pieces(builder, node, data)
    count = layers.in_type(builder, element_count(builder, *node.inputs), data.element_type)
    zero, unit = builder.like(0, data), builder.like(1, data)
    quotients: list[Output] = []
    rest: Output | None = None
    for piece in reversed(pieces):
        if rest is not None:
            piece = layers.add(builder, _shifted_up(builder, rest, width), piece)
        quotient = layers.truncated_quotient(builder, piece, count)
        rest = layers.subtract(builder, piece, layers.multiply(builder, quotient, count))
        if data.element_type.is_signed:
            # Round down: a negative remainder borrows one count.
            negative = layers.less(builder, rest, zero)
            quotient = layers.select(builder, negative, layers.subtract(builder, quotient, unit), quotient)
            rest = layers.select(builder, negative, layers.add(builder, rest, count), rest)
        quotients.insert(0, quotient)
    mean = _combine(builder, quotients, width)
    if not data.element_type.is_signed:
        return mean
    assert rest is not None
    below, inexact = layers.less(builder, mean, zero), layers.greater(builder, rest, zero)
    up = layers.logical_and(builder, below, inexact)
    return layers.select(builder, up, layers.add(builder, mean, unit), mean)


def _extreme(builder: Builder, node: Node) -> Output:
    """The extreme of the upper bits first, then of the lower bits of those elements that have it."""
    data, axes = node.inputs
    reduced = type(node.op)
    mask = builder.like(0xFFFF, data)
    high = builder.emit(BitwiseRightShift15(), data, builder.like(16, data))
    if data.element_type is element_types.u32:
        high = builder.emit(BitwiseAnd13(), high, mask)
    best = builder.emit(reduced(keep_dims=True), high, axes)
    low = builder.emit(BitwiseAnd13(), data, mask)
    other = builder.like(0 if reduced is ReduceMax1 else 0xFFFF, data)
    candidates = layers.select(builder, layers.equal(builder, high, best), low, other)
    rest = builder.emit(node.op, candidates, axes)
    if not _keeps(node):
        best = builder.emit(node.op, high, axes)
    return layers.add(builder, _shifted_up(builder, best, 16), rest)
