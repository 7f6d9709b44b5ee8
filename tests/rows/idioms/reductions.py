"""Reductions that exporters spell out, and reductions in a row."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.rows.formula import Graph, Idiom, Value, spelled

ABOVE_2 = float(np.nextafter(np.float32(2), np.float32(3)))
"""A power that is NaN for negative numbers, where a square is not."""
ABOVE_4 = float(np.nextafter(np.float32(4), np.float32(5)))


def mean(g: Graph, axes: Any = (-1,), count: float = 4, source: Value | None = None) -> Value:
    """Of x times a matrix, whose last dimension is static."""
    value = source or g.x @ (4 * g.weights(8, 4))
    return g.scaled(g.ReduceSum(value, list(axes), keepdims=g.chance.randrange(2)), 1 / count)


def norm(g: Graph, p: int, other: Value | None = None, root: str = "Sqrt") -> Value:
    axes, keep = g.chance.choice([[-1], [1], [1, 2], [0, 1, 2]]), g.chance.randrange(2)
    if p == 1:
        return g.ReduceSum(g.Abs(g.x), axes, keepdims=keep)
    squares = g.square(g.x) if other is None else g.Mul(g.x, other)
    return g.node(root, g.ReduceSum(squares, axes, keepdims=keep))


def reduced(g: Graph, op_type: str, value: Value, axis: int, keep: int) -> Value:
    if op_type == "ReduceSum":
        return g.node(op_type, value, [axis], keepdims=keep)
    return g.node(op_type, value, axes=[axis], keepdims=keep)


def in_a_row(g: Graph, op_type: str, second: str = "", shared: bool = False, drops: bool = False) -> Value:
    """Two of them; the second one may be another one, may drop what the first one keeps, or not be the only reader."""
    keep = 1 if shared or drops else g.chance.randrange(2)
    inner = reduced(g, op_type, g.x, g.chance.choice([1, 2, -1]), keep)
    result = reduced(g, second or op_type, inner, g.chance.choice([1, -1]), 0 if drops else keep)
    return g.Add(result, g.Exp(inner)) if shared else result


def root_of_powers(g: Graph, power: Any, *axes: int) -> Value:
    return g.Sqrt(g.ReduceSum(g.Pow(g.x, power), list(axes), keepdims=g.chance.randrange(2)))


IDIOMS = {
    "mean": Idiom(mean, "MatMul ReduceMean"),
    "sum of magnitudes": Idiom(lambda g: norm(g, 1), "ReduceL1"),
    "root of squares": Idiom(lambda g: norm(g, 2), "ReduceL2"),
    **{
        f"{name} in a row": Idiom(functools.partial(in_a_row, op_type=op_type), op_type)
        for name, op_type in (
            ("means", "ReduceMean"), ("maxima", "ReduceMax"), ("minima", "ReduceMin"), ("sums", "ReduceSum"),
        )
    },
}  # fmt: skip
NEAR_MISSES = {
    "sum over another number": Idiom(lambda g: mean(g, count=5), absent="ReduceMean"),
    "sum over a number of dynamic elements": Idiom(lambda g: mean(g, (1, 2), 12), absent="ReduceMean"),
    "sum over declared elements": Idiom(lambda g: mean(g, count=8, source=g.x), absent="ReduceMean"),
    "root of products": Idiom(lambda g: norm(g, 2, g.Abs(g.x)), absent="ReduceL2"),
    "exponential of squares": Idiom(lambda g: norm(g, 2, root="Tanh"), absent="ReduceL2"),
    "root of squares of more dimensions": Idiom(
        lambda g: root_of_powers(g, np.full((1, 1, 1, 1), 2.0), 0, 1), absent="ReduceL2"
    ),
    "root of powers next to squares": Idiom(lambda g: root_of_powers(g, ABOVE_2, 1), absent="ReduceL2"),
    "sum over nearly its number": Idiom(lambda g: mean(g, count=ABOVE_4), absent="ReduceMean"),
    "reductions of two kinds": Idiom(lambda g: in_a_row(g, "ReduceMax", "ReduceMean"), count=2),
    "a reduction in a row that drops": Idiom(lambda g: in_a_row(g, "ReduceMax", drops=True), count=2),
    "a reduction in a row that is read": Idiom(lambda g: in_a_row(g, "ReduceMean", shared=True), count=4),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
