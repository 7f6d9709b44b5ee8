"""Polynomials in unknown dimensions, against the numbers that they stand for."""

from __future__ import annotations

import random

import pytest

from ir_runtime.analysis.polynomials import Polynomial, product


def value(polynomial: Polynomial, symbols: list[int]) -> int:
    total = 0
    for monomial, factor in polynomial.terms:
        for number in monomial:
            factor *= symbols[number]
        total += factor
    return total


def written(chance: random.Random, depth: int) -> tuple[Polynomial, str]:
    """A random polynomial, and the same as an expression of Python."""
    if depth == 0 or chance.random() < 0.2:
        if chance.random() < 0.5:
            number = chance.randrange(3)
            return Polynomial.symbol(number), f"s[{number}]"
        constant = chance.randrange(-3, 5)
        return Polynomial.constant(constant), f"({constant})"
    (a, first), (b, second) = written(chance, depth - 1), written(chance, depth - 1)
    sign = chance.choice("+-*")
    return {"+": a + b, "-": a - b, "*": a * b}[sign], f"({first} {sign} {second})"


@pytest.mark.parametrize("seed", range(60))
def test_a_polynomial_is_its_expression(seed: int) -> None:
    chance = random.Random(seed)
    polynomial, text = written(chance, 4)
    for _ in range(5):
        symbols = [chance.randrange(6) for _ in range(3)]
        assert value(polynomial, symbols) == eval(text, {"s": symbols})
    if polynomial.value is not None:
        assert not polynomial.symbols


def test_equal_expressions_are_one_polynomial() -> None:
    s, t = Polynomial.symbol(0), Polynomial.symbol(1)
    two = Polynomial.constant(2)
    assert (s + t) * (s + t) == s * s + two * s * t + t * t
    assert hash(s * t) == hash(t * s)
    assert (s - s).value == 0
    assert (s - s + two).value == 2
    assert (s * t).symbols == {0, 1}
    assert s != t
    assert str(two * s * t + two) == "2 + 2*s0*s1"


@pytest.mark.parametrize("seed", range(60))
def test_quotients_are_exact(seed: int) -> None:
    chance = random.Random(seed)
    whole, _ = written(chance, 3)
    symbols = [Polynomial.symbol(chance.randrange(3)) for _ in range(chance.randrange(3))]
    divisor = product([Polynomial.constant(chance.choice([-2, 1, 3])), *symbols])
    assert (whole * divisor).quotient(divisor) == whole


def test_what_no_polynomial_divides() -> None:
    s, t = Polynomial.symbol(0), Polynomial.symbol(1)
    assert (s * t + s).quotient(t) is None
    assert s.quotient(Polynomial.constant(2)) is None
    assert s.quotient(s + t) is None, "only single terms are divided by"
    assert s.quotient(Polynomial.constant(0)) is None
