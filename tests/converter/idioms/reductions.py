"""Reductions that exporters spell out, and reductions in a row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .graphs import Graph, Idiom, NearMiss

ABOVE_2 = float(np.nextafter(np.float32(2), np.float32(3)))
"""A power that is NaN for negative numbers, where a square is not."""
ABOVE_4 = float(np.nextafter(np.float32(4), np.float32(5)))


def multiplied(graph: Graph, chance: random.Random) -> str:
    """x times a matrix, whose last dimension is static."""
    return graph("MatMul", "x", graph.constant(np.random.default_rng(chance.randrange(99)).normal(size=(8, 4))))


def mean(graph: Graph, chance: random.Random, *, axes: Any = (-1,), count: float = 4, source: str = "") -> str:
    value = source or multiplied(graph, chance)
    return graph.scaled(
        graph("ReduceSum", value, graph.integers(axes), keepdims=chance.randrange(2)), 1 / count, chance
    )


def norm(graph: Graph, chance: random.Random, p: int, *, other: str = "x", root: str = "Sqrt") -> str:
    axes, keep = graph.integers(chance.choice([[-1], [1], [1, 2], [0, 1, 2]])), chance.randrange(2)
    if p == 1:
        return graph("ReduceSum", graph("Abs", "x"), axes, keepdims=keep)
    if other == "x" and chance.random() < 0.5:
        squares = graph("Pow", "x", graph.constant(2))
    else:
        squares = graph("Mul", "x", other)
    return graph(root, graph("ReduceSum", squares, axes, keepdims=keep))


def reduced(graph: Graph, op_type: str, value: str, axis: int, keep: int) -> str:
    if op_type == "ReduceSum":
        return graph(op_type, value, graph.integers([axis]), keepdims=keep)
    return graph(op_type, value, axes=[axis], keepdims=keep)


def in_a_row(
    graph: Graph, chance: random.Random, op_type: str, second: str = "", shared: bool = False, drops: bool = False
) -> str:
    """Two of them; the second one may be another one, may drop what the first one keeps, or not be the only reader."""
    keep = 1 if shared or drops else chance.randrange(2)
    inner = reduced(graph, op_type, "x", chance.choice([1, 2, -1]), keep)
    result = reduced(graph, second or op_type, inner, chance.choice([1, -1]), 0 if drops else keep)
    return graph("Add", result, graph("Exp", inner)) if shared else result


IDIOMS = {
    "mean": Idiom(build=mean, becomes=["MatMul", "ReduceMean"]),
    "sum of magnitudes": Idiom(build=lambda g, c: norm(g, c, 1), becomes=["ReduceL1"]),
    "root of squares": Idiom(build=lambda g, c: norm(g, c, 2), becomes=["ReduceL2"]),
    "means in a row": Idiom(build=lambda g, c: in_a_row(g, c, "ReduceMean"), becomes=["ReduceMean"]),
    "maxima in a row": Idiom(build=lambda g, c: in_a_row(g, c, "ReduceMax"), becomes=["ReduceMax"]),
    "minima in a row": Idiom(build=lambda g, c: in_a_row(g, c, "ReduceMin"), becomes=["ReduceMin"]),
    "sums in a row": Idiom(build=lambda g, c: in_a_row(g, c, "ReduceSum"), becomes=["ReduceSum"]),
}

NEAR_MISSES = {
    "sum over another number": NearMiss(build=lambda g, c: mean(g, c, count=5), absent="ReduceMean"),
    "sum over a number of dynamic elements": NearMiss(
        build=lambda g, c: mean(g, c, axes=(1, 2), count=12), absent="ReduceMean"
    ),
    "sum over declared elements": NearMiss(build=lambda g, c: mean(g, c, count=8, source="x"), absent="ReduceMean"),
    "root of products": NearMiss(build=lambda g, c: norm(g, c, 2, other=g("Abs", "x")), absent="ReduceL2"),
    "exponential of squares": NearMiss(build=lambda g, c: norm(g, c, 2, root="Tanh"), absent="ReduceL2"),
    "root of squares of more dimensions": NearMiss(
        build=lambda g, c: g(
            "Sqrt", g("ReduceSum", g("Pow", "x", g.constant([[[[2]]]])), g.integers([0, 1]), keepdims=c.randrange(2))
        ),
        absent="ReduceL2",
    ),
    "root of powers next to squares": NearMiss(
        build=lambda g, c: g("Sqrt", g("ReduceSum", g("Pow", "x", g.constant(ABOVE_2)), g.integers([1]))),
        absent="ReduceL2",
    ),
    "sum over nearly its number": NearMiss(build=lambda g, c: mean(g, c, count=ABOVE_4), absent="ReduceMean"),
    "reductions of two kinds": NearMiss(build=lambda g, c: in_a_row(g, c, "ReduceMax", "ReduceMean"), count=2),
    "a reduction in a row that drops": NearMiss(build=lambda g, c: in_a_row(g, c, "ReduceMax", drops=True), count=2),
    "a reduction in a row that is read": NearMiss(
        build=lambda g, c: in_a_row(g, c, "ReduceMean", shared=True), count=4
    ),
}
