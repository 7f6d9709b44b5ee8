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


def from_the_end(graph: Graph, chance: random.Random, less: int = 0) -> str:
    """The last rows, as many as there are: transformers keeps them so for a cache of positions."""
    count = dimension(graph, "x", 0, chance)
    if less:
        count = graph("Sub", count, graph.integers([less]))
    start, stop = graph("Neg", count), graph.integers([chance.choice([2**31 - 1, 2**63 - 1])])
    return graph("Abs", graph("Slice", "x", start, stop, graph.integers([0])))


def guarded_expand(graph: Graph, chance: random.Random) -> str:
    """torch guards the target of Expand against -1."""
    target = graph("Concat", *[dimension(graph, "x", axis, chance) for axis in range(3)], axis=0)
    negative = graph("Equal", target, graph.integers([-1, -1, -1]))
    return graph("Abs", graph("Expand", "x", graph("Where", negative, graph.integers([1, 1, 1]), target)))


def other_order(graph: Graph, chance: random.Random) -> str:
    """[b, 3, 8] -> [3, b, 8]: no dimension stays in its place."""
    lead = [dimension(graph, "x", axis, chance) for axis in (1, 0)]
    return graph("Reshape", "x", graph("Concat", *lead, graph.integers([8]), axis=0))


def all_but_one(graph: Graph, chance: random.Random) -> str:
    return from_the_end(graph, chance, less=1)


def perhaps_to_the_end(graph: Graph, chance: random.Random) -> str:
    stop = graph("Sub", dimension(graph, "x", 0, chance), graph.integers([1]))
    return graph("Slice", "x", graph.integers([0]), stop, graph.integers([0]))


def of_convolutions(graph: Graph, chance: random.Random) -> str:
    """The shape of a convolution that keeps the dimension of another one."""
    turned = graph("Transpose", "x", perm=[2, 1, 0])
    first = graph("Conv", turned, graph.constant(np.full((4, 3, 3), 0.2)), pads=[1, 1])
    size, pads = chance.choice([(1, [0, 0]), (3, [1, 1]), (5, [3, 1])])
    second = graph("Conv", first, graph.constant(np.full((4, 4, size), 0.1)), pads=pads)
    target = [dimension(graph, first, 0, chance), graph.integers([2, 2]), dimension(graph, first, 2, chance)]
    return graph("Reshape", second, graph("Concat", *target, axis=0))


def of_a_concat(graph: Graph, chance: random.Random) -> str:
    """Beside its axis a Concat has the dimensions of its inputs."""
    value = graph("Concat", "x", "z", axis=chance.choice([1, -2]))
    target = graph("Concat", dimension(graph, "x", 0, chance), graph.integers([2, -1]), axis=0)
    return graph("Reshape", value, target)


def lists_of_one(graph: Graph, chance: random.Random) -> str:
    """The shapes of two lists, whole or element by element; a range of as many floats as a list is long."""
    lists = [graph("Reshape", graph("NonZero", name), graph.integers([-1])) for name in ("x", "z")]
    target = graph("Concat", *(dimension(graph, one, 0, chance) for one in lists), axis=0)
    return graph("Expand", graph.constant([[1]]), target)


def float_range(graph: Graph, chance: random.Random) -> str:
    """As many floats as there are elements other than 0."""
    count = graph("Squeeze", dimension(graph, graph("NonZero", "x"), 1, chance), graph.integers([0]))
    kind = int(graph._type(graph.dtype))
    return graph("Range", graph.constant(0), graph("Cast", count, to=kind), graph.constant(1))


def as_heads(graph: Graph, value: str, chance: random.Random) -> str:
    """[b, s, 8] -> [b, s, 2, 4], the first dimensions those of the input."""
    lead = [dimension(graph, "x", axis, chance) for axis in (0, 1)]
    return graph("Reshape", value, graph("Concat", *lead, graph.integers([2, 4]), axis=0))


def padded_and_cut(graph: Graph, chance: random.Random) -> str:
    """Padded to a multiple, as before attention in windows, and cut to what it was."""
    size, multiple = dimension(graph, "x", 1, chance), graph.integers([chance.choice([4, 7])])
    width = graph("Mod", graph("Sub", multiple, graph("Mod", size, multiple)), multiple)
    widths = graph("Concat", graph.integers([0] * 4), width, graph.integers([0]), axis=0)
    if chance.random() < 0.5:  # torch lists the widths of each axis from the last one on, and turns them around
        pairs = graph("Concat", graph.integers([0, 0, 0]), width, graph.integers([0, 0]), axis=0)
        rows = graph("Reshape", pairs, graph.integers([-1, 2]))
        turned = graph("Slice", rows, *(graph.integers([one]) for one in (-1, -(2**63) + 1, 0, -1)))
        widths = graph("Reshape", graph("Transpose", turned, perm=[1, 0]), graph.integers([-1]))
    return as_heads(graph, graph("Slice", graph("Pad", "x", widths), graph.integers([0]), size, axes_of(graph)), chance)


def axes_of(graph: Graph) -> str:
    return graph.integers([1])


def rolled(graph: Graph, chance: random.Random, by: int = 1) -> str:
    """Rolled along the second dimension."""
    end = graph.integers([chance.choice([2**31 - 1, 2**63 - 1])])
    front = graph("Slice", "x", graph.integers([by]), end, axes_of(graph))
    back = graph("Slice", "x", graph.integers([0]), graph.integers([by]), axes_of(graph))
    return as_heads(graph, graph("Concat", front, back, axis=1), chance)


def every_other(graph: Graph, chance: random.Random) -> str:
    """Every other row of as many as are even, in two halves."""
    odd = graph("Mod", dimension(graph, "x", 1, chance), graph.integers([2]))
    zeros = graph.integers([0] * 4), graph.integers([0])
    value = graph("Pad", "x", graph("Concat", zeros[0], odd, zeros[1], axis=0))
    end, steps = graph.integers([2**31 - 1]), graph.integers([2])
    halves = [graph("Slice", value, graph.integers([start]), end, axes_of(graph), steps) for start in (0, 1)]
    target = [dimension(graph, halves[index], index, chance) for index in (0, 1)]
    return graph("Reshape", graph("Add", *halves), graph("Concat", *target, graph.integers([2, 4]), axis=0))


def repeated(graph: Graph, chance: random.Random, *, other: str = "x") -> str:
    """[b, 3, 8] -> [b, 3, 4, 8], the first dimension that of ``other``."""
    last = [dimension(graph, "x", axis, chance) for axis in (1, 2)] if other == "x" else [graph.integers([1])] * 2
    dims = [dimension(graph, other, 0, chance), last[0], graph.integers([4]), last[1]]
    return graph("Expand", graph("Unsqueeze", "x", graph.integers([2])), graph("Concat", *dims, axis=0))


def repeated_in_front(graph: Graph, chance: random.Random) -> str:
    """[b, 3, 8] -> [4, b, 3, 8]."""
    dims = [dimension(graph, "x", axis, chance) for axis in range(3)]
    return graph("Expand", "x", graph("Concat", graph.integers([4]), *dims, axis=0))


IDIOMS = {
    "repeated along a dimension of 1": Idiom(build=repeated, becomes=["Unsqueeze", "Broadcast"]),
    "padded to a multiple and cut": Idiom(
        build=padded_and_cut,
        becomes=["ShapeOf", "Gather", "FloorMod", "Subtract", "FloorMod", "Concat", "Pad", "Slice", "Reshape"],
    ),
    "a rolled dimension": Idiom(build=rolled, becomes=["VariadicSplit", "Concat", "Reshape"]),
    "every other row": Idiom(
        build=every_other,
        becomes=["ShapeOf", "Gather", "FloorMod", "Concat", "Pad", "Slice", "Slice", "Add", "Reshape"],
    ),
    "the shape of a convolution": Idiom(
        build=of_convolutions, inputs={"x": (5, 3, 2)}, becomes=["Transpose", "Convolution", "Convolution", "Reshape"]
    ),
    "the shapes of two lists": Idiom(
        build=lists_of_one,
        inputs={"x": (2, 3, 8), "z": (2, 3)},
        becomes=[*["NonZero", "Reshape", "ShapeOf"] * 2, "Concat", "Broadcast"],
    ),
    "a range of floats": Idiom(
        build=float_range,
        becomes=["NonZero", "ShapeOf", "Gather", "Convert", "Range"],
        dtypes_of_model=[np.float32],
    ),
    "the shape of a concat": Idiom(
        build=of_a_concat, inputs={"x": (2, 3, 8), "z": (2, 1, 8)}, becomes=["Concat", "Reshape"]
    ),
    "dimensions taken over": Idiom(build=heads, becomes=["Reshape"]),
    "dimensions joined": Idiom(build=joined, becomes=["MatMul", "Reshape"]),
    "the shape of an elementwise layer": Idiom(build=of_an_elementwise_layer, becomes=["Abs"]),
    "a slice to the end": Idiom(build=to_the_end, becomes=["Abs"]),
    "a slice of as many rows as there are": Idiom(build=from_the_end, becomes=["Abs"]),
    "an expand that changes nothing": Idiom(build=guarded_expand, becomes=["Abs"]),
}

NEAR_MISSES = {
    "repeated to a dimension of another input": NearMiss(
        build=lambda g, c: repeated(g, c, other="z"),
        inputs={"x": (1, 3, 8), "z": (2, 5)},
        count=5,
    ),
    "repeated in front": NearMiss(build=repeated_in_front, count=3),
    "dimensions in another order": NearMiss(build=other_order, count=4),
    "rolled by more than there may be": NearMiss(build=lambda g, c: rolled(g, c, 5), count=7),
    "a slice of all rows but the first": NearMiss(build=all_but_one, count=6),
    "a slice to the last but one": NearMiss(build=perhaps_to_the_end, count=4),
}
