"""Layers around products of matrices that become part of them."""

from __future__ import annotations

import random

from .convolutions import factors, scale, shift, weights
from .graphs import Graph, Idiom, NearMiss

WIDTH = 5


def product(graph: Graph, chance: random.Random) -> str:
    return graph("MatMul", "x", graph.constant(weights(chance, 8, WIDTH)))


def scaled(graph: Graph, chance: random.Random, value: str) -> str:
    for _ in range(chance.randint(1, 3)):
        value = scale(graph, chance, value, (WIDTH,))
    return value


def product_from_the_left(graph: Graph, chance: random.Random) -> str:
    value = graph("MatMul", graph.constant(weights(chance, WIDTH, 3)), "x")
    return scale(graph, chance, value, (WIDTH, 1))


def transposed(graph: Graph, chance: random.Random, order: tuple[int, ...] = (0, 2, 1)) -> str:
    """A product of transposed values, of one of them or of both."""
    left, right = graph("Abs", "x"), graph("Neg", "x")
    if chance.random() < 0.5:
        return graph("MatMul", graph("Transpose", left, perm=order), right)
    return graph("MatMul", left, graph("Transpose", right, perm=order))


def transposed_twice(graph: Graph, chance: random.Random) -> str:
    left, right = (
        graph("Transpose", graph(op_type, name), perm=[1, 0]) for op_type, name in (("Abs", "x"), ("Neg", "z"))
    )
    return graph("MatMul", left, right)


def transposed_and_read(graph: Graph) -> str:
    turned = graph("Transpose", graph("Abs", "x"), perm=[0, 2, 1])
    return graph("Concat", graph("MatMul", turned, "x"), turned, axis=2)


IDIOMS = {
    "a product of a transposed value": Idiom(build=transposed, becomes=["Abs", "Negative", "MatMul"]),
    "a product of two transposed matrices": Idiom(
        build=transposed_twice,
        inputs={"x": (4, 3), "z": (5, 4)},
        may_be_dynamic=False,
        becomes=["Abs", "Negative", "MatMul"],
    ),
    "scales behind a product": Idiom(build=lambda g, c: scaled(g, c, product(g, c)), becomes=["MatMul"]),
    "scales behind a product from the left": Idiom(build=product_from_the_left, becomes=["MatMul"]),
    "scales behind a product with bias": Idiom(
        build=lambda g, c: scaled(g, c, shift(g, c, product(g, c), (WIDTH,))), becomes=["MatMul", "Add"]
    ),
}

NEAR_MISSES = {
    "a transposed value that is read elsewhere": NearMiss(
        build=lambda g, c: transposed_and_read(g),
        count=4,
    ),
    "a transposed batch": NearMiss(
        build=lambda g, c: transposed(g, c, (1, 0, 2)), inputs={"x": (3, 3, 3)}, may_be_dynamic=False, count=4
    ),
    "a scale for each row of a product": NearMiss(
        build=lambda g, c: g("Mul", product(g, c), g.constant(factors(c, 3, 1))),
        count=3,  # one guards against the plug-in
    ),
    "a scale that makes more dimensions": NearMiss(
        build=lambda g, c: g("Mul", product(g, c), g.constant(factors(c, 1, 1, 1, 5))), count=2
    ),
    "weights that are no matrix": NearMiss(
        build=lambda g, c: scale(g, c, g("MatMul", "x", g.constant(weights(c, 2, 8, WIDTH))), (WIDTH,)),
        may_be_dynamic=False,
        count=3,
    ),
}
