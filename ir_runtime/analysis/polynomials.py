"""Dimensions as polynomials in those that are not known: 12, s, b * s, 2 * s + 1."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

Monomial = tuple[int, ...]
"""Numbers of symbols in ascending order, each as often as its exponent says; empty for a constant."""


class Polynomial:
    """A sum of products of symbols, with whole coefficients. Immutable; equal ones are equal as numbers."""

    __slots__ = ("_hash", "terms", "value")

    def __init__(self, terms: Iterable[tuple[Monomial, int]]) -> None:
        self.terms = tuple(sorted([term for term in terms if term[1]]))
        self._hash = hash(self.terms)
        self.value: int | None = None
        """The number, where it has no symbols."""
        if not self.terms:
            self.value = 0
        elif len(self.terms) == 1 and not self.terms[0][0]:
            self.value = self.terms[0][1]

    @staticmethod
    @functools.lru_cache(1 << 10)
    def constant(number: int) -> Polynomial:
        return Polynomial([((), number)])

    @classmethod
    def symbol(cls, number: int) -> Polynomial:
        """The symbol of this number."""
        return cls([((number,), 1)])

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Polynomial) and self.terms == other.terms)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Polynomial) -> Polynomial:
        return self._sum(other, 1)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self._sum(other, -1)

    def _sum(self, other: Polynomial, sign: int) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms:
            terms[monomial] = terms.get(monomial, 0) + sign * factor
        return Polynomial(terms.items())

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in other.terms:
                monomial = tuple(sorted(a + b))
                terms[monomial] = terms.get(monomial, 0) + x * y
        return Polynomial(terms.items())

    def quotient(self, other: Polynomial) -> Polynomial | None:
        """The polynomial that times ``other``, one term that is not 0, gives this one; None where there is none."""
        if len(other.terms) != 1:
            return None
        ((divisor, by),) = other.terms
        terms = []
        for monomial, factor in self.terms:
            rest = _without(monomial, divisor)
            if rest is None or factor % by:
                return None
            terms.append((rest, factor // by))
        return Polynomial(terms)

    def factor(self, monomial: Monomial) -> int:
        """The coefficient of a product of symbols."""
        return next((factor for own, factor in self.terms if own == monomial), 0)

    @property
    def symbols(self) -> set[int]:
        """The numbers of its symbols."""
        return {number for monomial, _ in self.terms for number in monomial}

    def __repr__(self) -> str:
        terms = ["*".join([str(factor), *[f"s{number}" for number in monomial]]) for monomial, factor in self.terms]
        return " + ".join(terms) or "0"


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """Divide a product of symbols; None where it does not have all those of the divisor."""
    rest = list(monomial)
    for number in divisor:
        if number not in rest:
            return None
        rest.remove(number)
    return tuple(rest)


def product(factors: Iterable[Polynomial]) -> Polynomial:
    """The product of polynomials; 1 where there is none."""
    return math.prod(factors, start=Polynomial.constant(1))
