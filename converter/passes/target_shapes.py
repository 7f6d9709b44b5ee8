"""What the numbers of a target shape are: constants, or dimensions of a value."""

from __future__ import annotations

from typing import NamedTuple, Union

from ir_runtime.graph.model import Output
from ir_runtime.operations.elementwise import Convert1, Multiply1
from ir_runtime.operations.generation import ShapeOf1, ShapeOf3
from ir_runtime.operations.indexing import Gather1, Gather7
from ir_runtime.operations.movement import Concat1, Reshape1, Squeeze1, Unsqueeze1
from ir_runtime.operations.slicing import Slice8


class DimensionOf(NamedTuple):
    """Dimension ``axis`` of ``value``, times ``factor``."""

    value: Output
    axis: int
    factor: int = 1


Number = Union[int, DimensionOf, None]
"""A number of a shape; None where it is not known what it is."""


def numbers_of(target: Output) -> list[Number] | None:
    """The numbers of a list (or one number) of integers, in order; None where not even their count is known."""
    known, node = target.type.constant, target.node
    if known is not None:
        return [int(number) for number in known.reshape(-1).tolist()]
    if isinstance(node.op, Concat1):
        found: list[Number] = []
        for source in node.inputs:
            part = numbers_of(source)
            if part is None:
                return None
            found += part
        return found
    if isinstance(node.op, (Unsqueeze1, Squeeze1, Convert1, Reshape1)):
        return numbers_of(node.inputs[0])
    if isinstance(node.op, (ShapeOf1, ShapeOf3)):
        value = node.inputs[0]
        return [DimensionOf(value, axis) for axis in range(value.shape.rank)] if value.shape.has_rank else None
    if isinstance(node.op, (Gather1, Gather7)):
        data, chosen = numbers_of(node.inputs[0]), node.inputs[1].type.constant
        if data is not None and chosen is not None:
            return [data[int(index)] if -len(data) <= index < len(data) else None for index in chosen.reshape(-1)]
    if isinstance(node.op, Slice8) and all(source.type.constant is not None for source in node.inputs[1:]):
        data = numbers_of(node.inputs[0])
        start, stop, step = (int(source.type.constant.reshape(-1)[0]) for source in node.inputs[1:4])  # type: ignore[union-attr]
        return None if data is None else data[start:stop:step]
    if isinstance(node.op, Multiply1):
        a, b = (numbers_of(source) for source in node.inputs)
        if a is not None and b is not None and len(a) == len(b) == 1:
            return [_product(a[0], b[0])]
    count = target.shape.element_count()
    return [None] * count.value if count.is_static else None


def _product(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, DimensionOf) and isinstance(b, int):
        return a._replace(factor=a.factor * b)
    if isinstance(b, DimensionOf) and isinstance(a, int):
        return b._replace(factor=b.factor * a)
    return None


def is_dimension(number: Number, x: Output, axis: int, factor: int = 1) -> bool:
    """Whether a number is dimension ``axis`` of ``x`` times ``factor``, for whatever shapes."""
    own = x.shape[axis]
    if isinstance(number, int):
        return own.is_static and number == own.value * factor
    if number is None:
        return False
    if number.value is x:
        return number == DimensionOf(x, axis, factor)
    other = number.value.shape[number.axis]
    return own.is_static and other.is_static and other.value * number.factor == own.value * factor


def _static(number: Number) -> int | None:
    """The value of a number that no other shape of the inputs changes."""
    if not isinstance(number, DimensionOf):
        return number
    own = number.value.shape[number.axis]
    return own.value * number.factor if own.is_static else None


def is_shape(target: Output, expected: list[Number], x: Output, *, kept: int = 0, wildcards: int = 1) -> bool:
    """Whether a Reshape to ``target`` makes the shape ``expected``, of numbers and of dimensions of ``x``.

    At most ``wildcards`` numbers may follow from the others. In the first ``kept`` places a 0 takes over the dimension
    of ``x`` at its place.
    """
    numbers = numbers_of(target)
    if numbers is None or len(numbers) != len(expected):
        return False
    left = 0
    for place, (number, wanted) in enumerate(zip(numbers, expected)):
        if number == 0 and kept:
            if place >= kept or wanted != DimensionOf(x, place):
                return False
        elif number == -1:
            left += 1
        elif isinstance(wanted, DimensionOf):
            if not is_dimension(number, x, wanted.axis, wanted.factor):
                return False
        elif _static(number) != wanted:
            return False
    return left <= wildcards
