"""Layers that change nothing, or what the next one changes again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from .graphs import Graph, Idiom, NearMiss


def neutral(graph: Graph, chance: random.Random, *, shape: tuple[int, ...] = (), value: float | None = None) -> str:
    """abs(x) with 0 added or taken away, or times or divided by 1, twice."""
    result = graph("Abs", "x")
    for _ in range(2):
        op_type, wanted = chance.choice([("Add", 0), ("Sub", 0), ("Mul", 1), ("Div", 1)])
        other = graph.constant(np.full(shape, wanted if value is None else value))
        ordered = op_type in ("Sub", "Div")
        result = graph(op_type, result, other) if ordered else graph.either_way(op_type, result, other, chance)
    return result


def reshapes(graph: Graph, chance: random.Random, *, last: Sequence[int] = (-1, 6), shared: bool = False) -> str:
    """Three changes of the shape behind one another."""
    value = "x"
    for _ in range(2):
        if chance.random() < 0.5 and last[0] and not shared:
            value = graph("Unsqueeze", value, graph.constant([chance.randrange(3)], np.int64))
        else:
            value = graph(
                "Reshape", value, graph.constant(chance.choice([[-1, 4, 2], [6, -1], [-1, 3, 2, 4]]), np.int64)
            )
    result = graph("Reshape", value, graph.constant(last, np.int64))
    return (
        graph("Add", result, graph("Reshape", graph("Exp", value), graph.constant(last, np.int64)))
        if shared
        else result
    )


def put_back(graph: Graph, chance: random.Random, *, at: Sequence[int] = (1,), to: Sequence[int] = (-1, 1)) -> str:
    """A maximum that drops dimension 1, which is put back; ``at`` and ``to`` spoil where."""
    dropped = graph("ReduceMax", "x", axes=[chance.choice([1, -1])], keepdims=0)
    if chance.random() < 0.5:
        return graph("Unsqueeze", dropped, graph.integers(at))
    return graph("Reshape", dropped, graph.integers(to))


def widened(graph: Graph, chance: random.Random, *, other: str = "x") -> str:
    """A maximum that is widened to the shape of x, or to that of another value of that shape."""
    wide = graph("Expand", graph("ReduceMax", "x", axes=[1]), graph("Shape", other))
    return graph("Sub", *chance.sample(["x", wide], 2))


IDIOMS = {
    "neutral numbers": Idiom(build=neutral, becomes=["Abs"]),
    "neutral constants": Idiom(build=lambda g, c: neutral(g, c, shape=(1,)), becomes=["Abs"]),
    "neutral constants of as many dimensions": Idiom(
        build=lambda g, c: neutral(g, c, shape=(1, 1, 1)), becomes=["Abs"]
    ),
    "reshapes in a row": Idiom(build=reshapes, becomes=["Reshape"]),
    "a widened operand": Idiom(
        build=lambda g, c: g("Neg", widened(g, c)), becomes=["ReduceMax", "Subtract", "Negative"]
    ),
    "a dimension that is put back": Idiom(build=put_back, becomes=["ReduceMax"], inputs={"x": (3, 8)}),
}

NEAR_MISSES = {
    "other numbers": NearMiss(build=lambda g, c: neutral(g, c, value=0.5), count=3),
    "constants that widen": NearMiss(build=lambda g, c: neutral(g, c, shape=(4, 1, 3, 8)), count=2),
    "constants that would widen a dimension of 1": NearMiss(build=lambda g, c: neutral(g, c, shape=(3, 1)), count=2),
    "a dimension that is taken over": NearMiss(build=lambda g, c: reshapes(g, c, last=(0, -1)), count=2),
    "a dimension that is put back elsewhere": NearMiss(
        build=lambda g, c: put_back(g, c, at=[0], to=[1, -1]), count=2, inputs={"x": (3, 8)}
    ),
    "a dimension that is put back twice": NearMiss(
        build=lambda g, c: put_back(g, c, at=[1, 2], to=[-1, 1, 1]), count=2, inputs={"x": (3, 8)}
    ),
    "an operand that is widened to another shape": NearMiss(
        build=lambda g, c: widened(g, c, other=g("MatMul", "x", g.constant([[1] * 8] * 8))), count=5
    ),
    "a shape in between that is read": NearMiss(build=lambda g, c: reshapes(g, c, shared=True), count=5),
}
