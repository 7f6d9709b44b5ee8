"""What is computed from constants, and integer constants in a row."""

from __future__ import annotations

import random

import numpy as np

from .convolutions import weights
from .graphs import Graph, Idiom, NearMiss

WIDE = 2**63 - 5
"""Sums of two of it wrap."""


def bias_of_a_small_net(graph: Graph, chance: random.Random) -> str:
    """A bias that a small net computes from coordinates, as Swin V2 has it; its middle is large."""
    hidden = graph("MatMul", graph.constant(weights(chance, 200, 2)), graph.constant(weights(chance, 2, 256)))
    if chance.random() < 0.5:
        hidden = graph("Relu", hidden)
    table = graph("MatMul", hidden, graph.constant(weights(chance, 256, 8)))
    places = graph.integers([chance.randrange(200) for _ in range(3)])
    bias = graph("Sigmoid", graph("Gather", table, places, axis=0))
    return graph.either_way("Add", "x", bias, chance)


def widened(graph: Graph, chance: random.Random, rows: int) -> str:
    """A constant that two layers make much larger."""
    wide = graph("Expand", graph.constant(weights(chance, 1, 8)), graph.integers([rows, 3, 8]))
    return graph("ReduceMax", graph("Add", "x", graph("Abs", wide)), axes=[0])


def narrowed(graph: Graph, chance: random.Random, count: int) -> str:
    """Constants of 8 KiB each that come from a few bytes by way of more than is folded at once."""
    total = "x"
    for _ in range(count):
        wide = graph("Expand", graph.constant(weights(chance, 1, 8)), graph.integers([6144, 8]))
        part = graph("Slice", wide, *map(graph.integers, ([0], [6144], [0], [24])))
        total = graph("Max", total, graph("Abs", part))
    return total


def places(graph: Graph, chance: random.Random) -> str:
    """Indices below a number that is the same for whatever dimensions."""
    first, second = (graph("Gather", graph("Shape", one), graph.integers([0])) for one in ("x", graph("Abs", "x")))
    end = graph("Squeeze", graph("Add", graph("Sub", first, second), graph.integers([4])), graph.integers([0]))
    index = graph("Range", graph.integers(0), end, graph.integers(chance.choice([1, 2])))
    return graph("Gather", "x", index, axis=2)


def quantised_weights(graph: Graph, chance: random.Random) -> str:
    """Weights of 8 bits, dequantised and transposed: they stay 8 bits."""
    stored = graph.constant(np.arange(-32, 32).reshape(8, 8), np.int8)
    dequantised = graph("DequantizeLinear", stored, graph.constant(0.03), graph.constant(0, np.int8))
    return graph("MatMul", "x", graph("Relu", graph("Transpose", dequantised, perm=[1, 0])))


def sums(graph: Graph, chance: random.Random, first: object, second: object, between: str = "") -> str:
    """Two numbers, or lists of them, added or taken away; never the same number."""
    value = "x"
    for number in (first, second):
        added, add = graph.integers(number), chance.random() < 0.5
        value = graph.either_way("Add", value, added, chance) if add else graph("Sub", value, added)
        value = graph(between, value) if between and number is first else value
    return graph("Cast", value, to=1)


def back_again(graph: Graph, chance: random.Random) -> str:
    one, number = graph.integers(chance.choice([1, -3, 441])), graph("Neg", "x")
    steps = chance.sample(["Add", "Sub"], 2)
    return graph("Cast", graph(steps[1], graph(steps[0], number, one), one), to=1)


INTEGERS = {"dtypes": {"x": np.int64}, "inputs": {"x": (2, 3)}}

IDIOMS = {
    "a bias of a small net": Idiom(build=bias_of_a_small_net, becomes=["Add"]),
    "an index that follows from dimensions": Idiom(build=places, becomes=["Gather"]),
    "numbers in a row": Idiom(
        build=lambda g, c: sums(g, c, c.choice([1, 441, [[3], [-9]]]), c.choice([7, 12])),
        becomes=["Add", "Convert"],
        dtypes_of_model=[np.float32],
        **INTEGERS,
    ),
    "a number added and taken away": Idiom(
        build=back_again, becomes=["Negative", "Convert"], dtypes_of_model=[np.float32], **INTEGERS
    ),
}

NEAR_MISSES = {
    "a constant made large": NearMiss(
        build=lambda g, c: widened(g, c, 3000), inputs={"x": (3000, 3, 8)}, may_be_dynamic=False, count=4
    ),
    # Two of 12 are computed: a third of the 64 KiB by which small models may grow.
    "constants that are small one by one": NearMiss(
        build=lambda g, c: narrowed(g, c, 12), inputs={"x": (256, 8)}, may_be_dynamic=False, count=10 * 4 + 2
    ),
    "quantised weights that are transposed": NearMiss(build=quantised_weights, count=5),
    "numbers around a negation": NearMiss(build=lambda g, c: sums(g, c, 1, 441, between="Neg"), count=4, **INTEGERS),
    "numbers that wrap": NearMiss(
        build=lambda g, c: sums(g, c, WIDE, WIDE - 9),
        count=2,
        engines=("numpy",),  # the plug-in computes with 32 bits
        **INTEGERS,
    ),
    "numbers in front of a constant": NearMiss(
        build=lambda g, c: g("Cast", g("Sub", g.integers(3), g("Add", "x", g.integers(4))), to=1), count=3, **INTEGERS
    ),
}
