"""Parts shared by passes that fuse the node sequence that exporters emit for one operator."""

from __future__ import annotations

from ir_runtime.graph import Array, Output
from ir_runtime.operations.elementwise import Add1, Divide1, Multiply1
from ir_runtime.operations.reduction import Reduction
from ir_runtime.rewriting import Pattern, either, layer, number


def has_shape_of(value: Output, x: Output) -> bool:
    """True if an elementwise result of ``x`` and constants of one element has the rank of ``x``, and so its shape."""
    return value.shape.has_rank and x.shape.has_rank and value.shape.rank == x.shape.rank


def is_real(value: Output) -> str | None:
    """The check of a pattern: floats."""
    return None if value.element_type.is_real else "has integers"


def keeps_dims(value: Output) -> str | None:
    """The check of a pattern: a reduction that leaves reduced dimensions as 1."""
    op = value.node.op
    assert isinstance(op, Reduction)
    return None if op.keep_dims else "drops the dimensions that it reduces"


def is_stored(value: Output) -> str | None:
    """The check of a pattern: weights, which may be many."""
    return None if value.tensor is not None else "is not constant"


def of_channels(value: Output, x: Output) -> Array | None:
    """The values of a stored constant as a list, where it has one for each channel of ``x``; else None."""
    if value.tensor is None or not x.shape.has_rank or x.shape.rank < 2 or not x.shape[1].is_static:
        return None
    dims = (1,) * (x.shape.rank - len(value.tensor.shape)) + tuple(value.tensor.shape)
    if dims != (1, x.shape[1].value, *[1] * (x.shape.rank - 2)):
        return None
    return value.tensor.array().reshape(-1)


def times(a: Pattern, b: Pattern) -> Pattern:
    """A product, in either order."""
    return layer(Multiply1, a, b)


def plus(a: Pattern, b: Pattern) -> Pattern:
    """A sum, in either order."""
    return layer(Add1, a, b)


def divided_by(a: Pattern, divisor: float) -> Pattern:
    """``a`` divided by a number, or multiplied by its reciprocal."""
    return either(times(a, number(1 / divisor)), layer(Divide1, a, number(divisor)))
