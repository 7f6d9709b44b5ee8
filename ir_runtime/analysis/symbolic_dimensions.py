"""Dimensions that carry a polynomial, through the operations' own ``infer``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ir_runtime.graph import Dimension
from ir_runtime.graph.value_ranges import Bounds

from .polynomials import Polynomial

if TYPE_CHECKING:
    from .symbols import Symbols


class SymbolicDimension(Dimension):
    """A dynamic dimension with its polynomial. Equal to itself alone, whatever its bounds."""

    __slots__ = ("_symbols", "polynomial")

    def __init__(self, symbols: Symbols, polynomial: Polynomial, low: int, high: int) -> None:
        super().__init__(low, high)
        self.is_static = False
        self.polynomial = polynomial
        self._symbols = symbols

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: Dimension | int) -> Dimension:
        polynomial = polynomial_of(other)
        plain = super().__add__(other)
        return plain if polynomial is None else self._symbols.dimension(self.polynomial + polynomial, plain)

    __radd__ = __add__

    def __mul__(self, other: Dimension | int) -> Dimension:
        polynomial = polynomial_of(other)
        plain = super().__mul__(other)
        return plain if polynomial is None else self._symbols.dimension(self.polynomial * polynomial, plain)

    __rmul__ = __mul__

    def merge(self, other: Dimension) -> Dimension | None:
        """As for other dimensions; this one where both are known to lie in its interval."""
        merged = super().merge(other)
        is_own = merged is not None and (merged.low, merged.high) == (self.low, self.high)
        return self if is_own else merged


class SymbolicBounds(Bounds):
    """Bounds of values that are known as polynomials."""

    def __init__(self, bounds: Bounds, dimensions: Sequence[Dimension]) -> None:
        super().__init__(bounds.lower, bounds.upper)
        self.__dict__["_dimensions"] = list(dimensions)

    def dimensions(self) -> list[Dimension]:
        return list(self.__dict__["_dimensions"])


def polynomial_of(dimension: Dimension | int) -> Polynomial | None:
    """The polynomial of a dimension; None for a dynamic one without a symbol."""
    if isinstance(dimension, SymbolicDimension):
        return dimension.polynomial
    if isinstance(dimension, int):
        return Polynomial.constant(dimension)
    return Polynomial.constant(dimension.value) if dimension.is_static else None


def is_known(dimension: Dimension) -> bool:
    """True if a dimension is static or has a symbol."""
    return dimension.is_static or isinstance(dimension, SymbolicDimension)
