"""Shape arithmetic as exporters write it."""

from __future__ import annotations

import random

import numpy as np

from .graphs import Graph, Idiom, NearMiss


def dimension(graph: Graph, value: str, axis: int, chance: random.Random) -> str:
    """A dimension as a list of one."""
    shape = graph("Shape", value)
    if chance.random() < 0.5:
        return graph("Unsqueeze", graph("Gather", shape, graph.integers(axis), axis=0), graph.integers([0]))
    return graph("Slice", shape, graph.integers([axis]), graph.integers([axis + 1]))


def heads(graph: Graph, chance: random.Random) -> str:
    """[b, 3, 8] -> [b, 3, 2, 4], the first dimensions computed."""
    lead = [dimension(graph, "x", axis, chance) for axis in (0, 1)]
    target = graph("Concat", *lead, graph.integers([2]), graph.integers([4]), axis=0)
    return graph("Reshape", "x", target)


def joined(graph: Graph, chance: random.Random) -> str:
    """[b, 3, 5] -> [b * 3, 5], the product computed."""
    value = graph("MatMul", "x", graph.constant(np.eye(8, 5)))
    count = graph("Mul", dimension(graph, value, 0, chance), dimension(graph, "x", 1, chance))
    return graph("Reshape", value, graph("Concat", count, graph.integers([5]), axis=0))


def of_an_elementwise_layer(graph: Graph, chance: random.Random) -> str:
    """The shape of abs(x), which is that of x: the Reshape changes nothing."""
    return graph("Reshape", graph("Abs", "x"), graph("Shape", graph("Neg", "x")))


def to_the_end(graph: Graph, chance: random.Random) -> str:
    stop = dimension(graph, "x", 0, chance)
    return graph("Abs", graph("Slice", "x", graph.integers([0]), stop, graph.integers([0])))


def guarded_expand(graph: Graph, chance: random.Random) -> str:
    """torch guards the target of Expand against -1."""
    target = graph("Concat", *[dimension(graph, "x", axis, chance) for axis in range(3)], axis=0)
    negative = graph("Equal", target, graph.integers([-1, -1, -1]))
    return graph("Abs", graph("Expand", "x", graph("Where", negative, graph.integers([1, 1, 1]), target)))


def other_order(graph: Graph, chance: random.Random) -> str:
    """[b, 3, 8] -> [3, b, 8]: no dimension stays in its place."""
    lead = [dimension(graph, "x", axis, chance) for axis in (1, 0)]
    return graph("Reshape", "x", graph("Concat", *lead, graph.integers([8]), axis=0))


def perhaps_to_the_end(graph: Graph, chance: random.Random) -> str:
    stop = graph("Sub", dimension(graph, "x", 0, chance), graph.integers([1]))
    return graph("Slice", "x", graph.integers([0]), stop, graph.integers([0]))


IDIOMS = {
    "dimensions taken over": Idiom(build=heads, becomes=["Reshape"]),
    "dimensions joined": Idiom(build=joined, becomes=["MatMul", "Reshape"]),
    "the shape of an elementwise layer": Idiom(build=of_an_elementwise_layer, becomes=["Abs"]),
    "a slice to the end": Idiom(build=to_the_end, becomes=["Abs"]),
    "an expand that changes nothing": Idiom(build=guarded_expand, becomes=["Abs"]),
}

NEAR_MISSES = {
    "dimensions in another order": NearMiss(build=other_order, count=4),
    "a slice to the last but one": NearMiss(build=perhaps_to_the_end, count=4),
}
