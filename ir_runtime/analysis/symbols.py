"""The symbols of dynamic dimensions and of what is computed from them, with their bounds.

Dimensions carry polynomials of them through the operations' own ``infer``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ir_runtime.graph import INFINITY, Dimension
from ir_runtime.graph.shapes import NamedDimension
from ir_runtime.graph.value_ranges import Bounds

from .polynomials import Polynomial


class Symbols:
    """A symbol for every dynamic dimension, and one for every expression that is no polynomial.

    Equal expressions share a symbol. What is known of symbols are their bounds, and what a division leaves.
    """

    def __init__(self) -> None:
        self._ranges: list[tuple[float, float]] = []
        """For each symbol its bounds."""
        self._dimensions: dict[Polynomial, SymbolicDimension] = {}
        self._keys: dict[Any, Polynomial] = {}
        self._remainders: dict[int, tuple[Polynomial, int]] = {}
        """For each symbol of a quotient rounded down what the division leaves, and the divisor."""
        self._ends: dict[tuple[Polynomial, float], float] = {}
        """Bounds that were asked for before. They do not change, as those of a symbol do not."""

    # --- bounds ---

    def low(self, polynomial: Polynomial) -> float:
        """A lower bound of its value."""
        return self._end(polynomial, -math.inf)

    def high(self, polynomial: Polynomial) -> float:
        """An upper bound of its value."""
        return self._end(polynomial, math.inf)

    def _end(self, polynomial: Polynomial, end: float) -> float:
        if polynomial.value is not None:
            return polynomial.value
        key = polynomial, end
        if key not in self._ends:
            self._ends[key] = self._end_of_symbols(polynomial, end)
        return self._ends[key]

    def _end_of_symbols(self, polynomial: Polynomial, end: float) -> float:
        end_value = self._end_of_terms(polynomial, end)
        rest, shift, scale = self._without_quotients(polynomial, end)
        if rest is polynomial:
            return end_value
        other = self._end_of_terms(rest, end)
        if math.isinf(other):
            return end_value
        other = -((-int(other) - shift) // scale) if end < 0 else (int(other) + shift) // scale
        return max(end_value, other) if end < 0 else min(end_value, other)

    def _without_quotients(self, polynomial: Polynomial, end: float) -> tuple[Polynomial, int, int]:
        """The polynomial times ``scale`` without quotients that were rounded down, and what its remainders add.

        A quotient q of x and d is (x - r) / d, where the remainder r is 0 to d - 1.
        """
        shift, scale = 0, 1
        pending = polynomial.symbols & self._remainders.keys()
        while pending:
            number = max(pending)  # what a quotient is made of has symbols of lower numbers
            remainder, divisor = self._remainders[number]
            factor = polynomial.factor((number,))
            if factor:
                polynomial = polynomial * Polynomial.constant(divisor) + remainder * Polynomial.constant(factor)
                shift = shift * divisor + (-factor * (divisor - 1) if (factor > 0) == (end < 0) else 0)
                scale *= divisor
            pending = {other for other in polynomial.symbols & self._remainders.keys() if other < number}
        return polynomial, shift, scale

    def _end_of_terms(self, polynomial: Polynomial, end: float) -> float:
        total: float = 0
        for monomial, factor in polynomial.terms:
            ranges = [self._ranges[number] for number in monomial]
            if any(low < 0 for low, _ in ranges):
                return end
            takes_lowest = (factor > 0) == (end < 0)
            total += factor * math.prod([low if takes_lowest else high for low, high in ranges])
        return end if math.isnan(total) else total

    def is_never(self, polynomial: Polynomial, number: int) -> bool:
        """True if it is another number for all symbols: always above or below, or of another remainder."""
        difference = polynomial - Polynomial.constant(number)
        if self.low(difference) > 0 or self.high(difference) < 0:
            return True
        constant = sum(factor for symbols, factor in difference.terms if not symbols)
        divisor = math.gcd(*(factor for symbols, factor in difference.terms if symbols))
        return constant % divisor != 0 if divisor else constant != 0

    def reaches_end(self, stop: Polynomial, size: Polynomial) -> bool:
        """True if the stop of a slice is the end of the dimension or behind it."""
        if stop.value is not None and stop.value < 0:
            return False
        return self.low(stop - size) >= 0

    # --- dimensions and expressions ---

    def dimension(self, polynomial: Polynomial, within: Dimension) -> Dimension:
        """The dimension of this value, which lies ``within`` an interval."""
        value = polynomial.value
        if value is not None and value >= 0:
            return Dimension(value, value)
        symbolic = self._dimensions.get(polynomial)
        if symbolic is None:
            symbolic = SymbolicDimension(self, polynomial, within.low, within.high)
            self._dimensions[polynomial] = symbolic
        return symbolic

    def as_dimension(self, polynomial: Polynomial, plain: Dimension) -> Dimension:
        """An element as a dimension: one that may be negative means something else."""
        return self.dimension(polynomial, plain) if self.low(polynomial) >= 0 else plain

    def polynomial(self, dimension: Dimension) -> Polynomial:
        """The polynomial of a dimension that is static or has a symbol."""
        result = polynomial_of(dimension)
        assert result is not None, "every dimension is static or has a symbol"
        return result

    def fresh(self, within: Dimension) -> Dimension:
        """The dimension of a new symbol, or of the symbols of its names."""
        if isinstance(within, NamedDimension):
            return self.dimension(self._of_names(within), within)
        return self.dimension(self._symbol(within.low, within.high), within)

    def _of_names(self, dimension: NamedDimension) -> Polynomial:
        names = dimension.names
        ends = (dimension.low, dimension.high) if len(names) == 1 else (0, INFINITY)
        total = Polynomial.constant(0)
        for name in names:
            total = total + self.keyed(("name", name), ends)
        return total

    def _symbol(self, low: int, high: int) -> Polynomial:
        self._ranges.append((low, math.inf if high == INFINITY else high))
        return Polynomial.symbol(len(self._ranges) - 1)

    def keyed(self, key: Any, ends: tuple[int, int]) -> Polynomial:
        """The symbol of an expression that is no polynomial, such as a quotient: one for equal expressions."""
        if key not in self._keys:
            self._keys[key] = self._symbol(*ends)
        return self._keys[key]

    def floor(self, x: Polynomial, divisor: int) -> Polynomial:
        """The quotient rounded down. What the divisor divides comes out of it; the rest gets a symbol.

        That of -x is the negative of that of x + divisor - 1, so that x and what fills it up share a symbol.
        """
        parts = [(monomial, *_divide(factor, divisor, not monomial)) for monomial, factor in x.terms]
        whole = Polynomial([(monomial, quotient) for monomial, quotient, _ in parts])
        rest = Polynomial([(monomial, left) for monomial, _, left in parts])
        if rest.value is not None:
            return whole
        if next(factor for monomial, factor in rest.terms if monomial) < 0:
            return whole - self.floor(Polynomial.constant(divisor - 1) - rest, divisor)
        ends = [int(end) // divisor if math.isfinite(end) else None for end in (self.low(rest), self.high(rest))]
        low, high = (-INFINITY if ends[0] is None else ends[0], INFINITY if ends[1] is None else ends[1])
        symbol = self.keyed(("floor", rest, divisor), (low, high))
        self._remainders[min(symbol.symbols)] = rest - symbol * Polynomial.constant(divisor), divisor
        return whole + symbol


def _divide(factor: int, divisor: int, is_constant: bool) -> tuple[int, int]:
    """Quotient and remainder; the remainder of a constant is not negative, that of a factor has its sign."""
    quotient, left = divmod(factor if is_constant else abs(factor), divisor)
    return (-quotient, -left) if factor < 0 and not is_constant else (quotient, left)


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
