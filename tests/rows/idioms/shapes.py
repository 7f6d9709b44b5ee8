"""Shape arithmetic as exporters write it."""

from __future__ import annotations

import numpy as np

from tests.rows.formula import Graph, Idiom, Value, spelled

LAST = (2**31 - 1, 2**63 - 1)


def dimension(g: Graph, value: Value, axis: int) -> Value:
    """A dimension as a list of one."""
    shape = g.Shape(value)
    return g.one_of(
        lambda: g.Unsqueeze(g.Gather(shape, np.int64(axis), axis=0), [0]), lambda: g.Slice(shape, [axis], [axis + 1])
    )


def target(g: Graph, *parts: Value | int) -> Value:
    return g.Concat(*([part] if isinstance(part, int) else part for part in parts), axis=0)


def heads(g: Graph) -> Value:
    """[b, 3, 8] -> [b, 3, 2, 4], the first dimensions computed."""
    return as_heads(g, g.x, 2, 4)


def as_heads(g: Graph, value: Value, *last: int) -> Value:
    """[b, s, 8] -> [b, s, 2, 4], the first dimensions those of the input."""
    last = last or (8,)
    return g.Reshape(value, g.Concat(*(dimension(g, g.x, axis) for axis in (0, 1)), list(last), axis=0))


def joined(g: Graph) -> Value:
    """[b, 3, 5] -> [b * 3, 5], the product computed."""
    value = g.x @ np.eye(8, 5)
    return g.Reshape(value, target(g, g.Mul(dimension(g, value, 0), dimension(g, g.x, 1)), 5))


def of_an_elementwise_layer(g: Graph) -> Value:
    """The shape of abs(x), which is that of x: the Reshape changes nothing."""
    return g.Reshape(g.Abs(g.x), g.Shape(-g.x))


def to_the_end(g: Graph) -> Value:
    return g.Abs(g.Slice(g.x, [0], dimension(g, g.x, 0), [0]))


def from_the_end(g: Graph, less: int = 0) -> Value:
    """The last rows, as many as there are: transformers keeps them so for a cache of positions."""
    count = dimension(g, g.x, 0)
    return g.Abs(g.Slice(g.x, -(count - [less] if less else count), [g.chance.choice(LAST)], [0]))


def guarded_expand(g: Graph) -> Value:
    """torch guards the target of Expand against -1."""
    dims = target(g, *(dimension(g, g.x, axis) for axis in range(3)))
    return g.Abs(g.Expand(g.x, g.Where(g.Equal(dims, [-1, -1, -1]), [1, 1, 1], dims)))


def other_order(g: Graph) -> Value:
    """[b, 3, 8] -> [3, b, 8]: no dimension stays in its place."""
    return g.Reshape(g.x, target(g, dimension(g, g.x, 1), dimension(g, g.x, 0), 8))


def perhaps_to_the_end(g: Graph) -> Value:
    return g.Slice(g.x, [0], dimension(g, g.x, 0) - [1], [0])


def of_convolutions(g: Graph) -> Value:
    """The shape of a convolution that keeps the dimension of another one."""
    first = g.Conv(g.Transpose(g.x, perm=[2, 1, 0]), np.full((4, 3, 3), 0.2), pads=[1, 1])
    size, pads = g.chance.choice([(1, [0, 0]), (3, [1, 1]), (5, [3, 1])])
    second = g.Conv(first, np.full((4, 4, size), 0.1), pads=pads)
    return g.Reshape(second, g.Concat(dimension(g, first, 0), [2, 2], dimension(g, first, 2), axis=0))


def of_a_concat(g: Graph) -> Value:
    """Beside its axis a Concat has the dimensions of its inputs."""
    value = g.Concat(g.x, g.z, axis=g.chance.choice([1, -2]))
    return g.Reshape(value, g.Concat(dimension(g, g.x, 0), [2, -1], axis=0))


def lists_of_one(g: Graph) -> Value:
    """The shapes of two lists, whole or element by element; a range of as many floats as a list is long."""
    lists = [g.Reshape(g.NonZero(value), [-1]) for value in (g.x, g.z)]
    return g.Expand(np.array([[1.0]]), target(g, *(dimension(g, one, 0) for one in lists)))


def float_range(g: Graph) -> Value:
    """As many floats as there are elements other than 0."""
    return g.Range(0, g.Cast(g.Squeeze(dimension(g, g.NonZero(g.x), 1), [0]), to=g.kind), 1)


def padded_and_cut(g: Graph) -> Value:
    """Padded to a multiple, as before attention in windows, and cut to what it was."""
    size, multiple = dimension(g, g.x, 1), [g.chance.choice([4, 7])]
    width = g.Mod(g.Sub(multiple, g.Mod(size, multiple)), multiple)

    def turned() -> Value:
        """torch lists the widths of each axis from the last one on, and turns them around."""
        rows = g.Reshape(g.Concat([0, 0, 0], width, [0, 0], axis=0), [-1, 2])
        return g.Reshape(g.Transpose(g.Slice(rows, [-1], [-(2**63) + 1], [0], [-1]), perm=[1, 0]), [-1])

    widths = g.one_of(turned, lambda: g.Concat([0] * 4, width, [0], axis=0))
    return as_heads(g, g.Slice(g.Pad(g.x, widths), [0], size, [1]), 2, 4)


def rolled(g: Graph, by: int = 1) -> Value:
    """Rolled along the second dimension."""
    front = g.Slice(g.x, [by], [g.chance.choice(LAST)], [1])
    return as_heads(g, g.Concat(front, g.Slice(g.x, [0], [by], [1]), axis=1), 2, 4)


def every_other(g: Graph) -> Value:
    """Every other row of as many as are even, in two halves."""
    value = g.Pad(g.x, g.Concat([0] * 4, g.Mod(dimension(g, g.x, 1), [2]), [0], axis=0))
    halves = [g.Slice(value, [start], [LAST[0]], [1], [2]) for start in (0, 1)]
    lead = [dimension(g, halves[index], index) for index in (0, 1)]
    return g.Reshape(g.Add(*halves), g.Concat(*lead, [2, 4], axis=0))


def repeated(g: Graph, other: str = "x") -> Value:
    """[b, 3, 8] -> [b, 3, 4, 8], the first dimension that of ``other``."""
    last = [dimension(g, g.x, axis) for axis in (1, 2)] if other == "x" else [1, 1]
    dims = target(g, dimension(g, g[other], 0), last[0], 4, last[1])
    return g.Expand(g.Unsqueeze(g.x, [2]), dims)


def repeated_in_front(g: Graph) -> Value:
    """[b, 3, 8] -> [4, b, 3, 8]."""
    return g.Expand(g.x, target(g, 4, *(dimension(g, g.x, axis) for axis in range(3))))


IDIOMS = {
    "repeated along a dimension of 1": Idiom(repeated, "Unsqueeze Broadcast"),
    "padded to a multiple and cut": Idiom(
        padded_and_cut, "ShapeOf Gather FloorMod Subtract FloorMod Concat Pad Slice Reshape"
    ),
    "a rolled dimension": Idiom(rolled, "VariadicSplit Concat Reshape"),
    "every other row": Idiom(every_other, "ShapeOf Gather FloorMod Concat Pad Slice Slice Add Reshape"),
    "the shape of a convolution": Idiom(of_convolutions, "Transpose Convolution Convolution Reshape", {"x": (5, 3, 2)}),
    "the shapes of two lists": Idiom(
        lists_of_one, "NonZero Reshape ShapeOf " * 2 + "Concat Broadcast", {"x": (2, 3, 8), "z": (2, 3)}
    ),
    "a range of floats": Idiom(float_range, "NonZero ShapeOf Gather Convert Range", types=[np.float32]),
    "the shape of a concat": Idiom(of_a_concat, "Concat Reshape", {"x": (2, 3, 8), "z": (2, 1, 8)}),
    "dimensions taken over": Idiom(heads, "Reshape"),
    "dimensions joined": Idiom(joined, "MatMul Reshape"),
    "the shape of an elementwise layer": Idiom(of_an_elementwise_layer, "Abs"),
    "a slice to the end": Idiom(to_the_end, "Abs"),
    "a slice of as many rows as there are": Idiom(from_the_end, "Abs"),
    "an expand that changes nothing": Idiom(guarded_expand, "Abs"),
}
NEAR_MISSES = {
    "repeated to a dimension of another input": Idiom(
        lambda g: repeated(g, "z"), inputs={"x": (1, 3, 8), "z": (2, 5)}, count=5
    ),
    "repeated in front": Idiom(repeated_in_front, count=3),
    "dimensions in another order": Idiom(other_order, count=4),
    "rolled by more than there may be": Idiom(lambda g: rolled(g, 5), count=7),
    "a slice of all rows but the first": Idiom(lambda g: from_the_end(g, 1), count=6),
    "a slice to the last but one": Idiom(perhaps_to_the_end, count=4),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
