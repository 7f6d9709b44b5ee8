"""Slices that are one split, shuffled channels and blocks, and dimensions of 1 that move."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .convolutions import weights
from .graphs import Graph, Idiom, NearMiss

END = 2**31 - 1
LAST = 2**63 - 1
IMAGE = {"x": (2, 4, 4, 6)}


def sliced(graph: Graph, value: str, start: int, stop: int, axis: int, step: int = 1) -> str:
    lists = [graph.integers([number]) for number in (start, stop, axis, step)]
    return graph("Slice", value, *lists)


def mixed(graph: Graph, chance: random.Random) -> str:
    """Eight columns, whatever the shape of x: the weights know."""
    return graph("MatMul", "x", graph.constant(weights(chance, 8, 8)))


def joined(graph: Graph, chance: random.Random, *bounds: Sequence[int]) -> str:
    """Slices of eight columns, put together in any order."""
    value, axis = mixed(graph, chance), chance.choice([2, -1])
    slices = [sliced(graph, value, each[0], each[1], axis, *each[2:]) for each in bounds]
    return graph("Concat", *chance.sample(slices, len(slices)), axis=2)


def three_slices(graph: Graph, chance: random.Random) -> str:
    """Bounds are counted from either end."""
    end = chance.choice([8, END, LAST])
    return joined(
        graph,
        chance,
        (0, chance.choice([2, -6])),
        (chance.choice([2, -6]), chance.choice([5, -3])),
        (chance.choice([5, -3]), end),
    )


def rolled(graph: Graph, chance: random.Random) -> str:
    """Swin's shift: what is in front goes to the end."""
    place = chance.choice([3, -3])
    return joined(graph, chance, (place, chance.choice([END, LAST])), (0, place))


def shape_in_numbers(graph: Graph, value: str, numbers: Sequence[int | str]) -> str:
    """A target shape: numbers, and "2" or "2*2" for a dimension of the value and its double, as torch computes them."""
    if not any(isinstance(number, str) for number in numbers):
        return graph.integers(list(numbers))
    shape, parts = graph("Shape", value), []
    for number in numbers:
        if isinstance(number, str):
            one = graph("Gather", shape, graph.integers(int(number[0])), axis=0)
            one = graph("Mul", one, graph.integers(2)) if number.endswith("*2") else one
            parts.append(graph("Unsqueeze", one, graph.integers([0])))
        else:
            parts.append(graph.integers([number]))
    return graph("Concat", *parts, axis=0)


def moved(
    graph: Graph,
    chance: random.Random,
    first: Sequence[int | str],
    order: Sequence[int],
    last: Sequence[int | str],
    *,
    batch: Sequence[int | str] = ("0", -1, 0),
) -> str:
    """Reshape, Transpose, Reshape; the batch is taken over or follows from the rest."""
    value = graph("Conv", "x", graph.constant(weights(chance, 12, 4, 1, 1)))
    middle, final = ([chance.choice(batch), *numbers] for numbers in (first, last))
    split = graph("Reshape", value, shape_in_numbers(graph, value, middle))
    return graph("Reshape", graph("Transpose", split, perm=order), shape_in_numbers(graph, value, final))


def shuffled(graph: Graph, chance: random.Random, order: Sequence[int] = (0, 2, 1, 3, 4), last: int = 12) -> str:
    groups = chance.choice([2, 3, 4])
    last_space = chance.choice([["2", "3"], ["2", -1]])
    batch = ("0", 0) if -1 in last_space else ("0", -1, 0)
    return moved(graph, chance, [groups, 12 // groups, "2", "3"], order, [last, *last_space], batch=batch)


def from_depth(graph: Graph, chance: random.Random, *, order: Sequence[int] | None = None) -> str:
    if chance.random() < 0.5:
        return moved(graph, chance, [2, 2, 3, "2", "3"], order or [0, 3, 4, 1, 5, 2], [3, "2*2", "3*2"])
    return moved(graph, chance, [3, 2, 2, "2", "3"], order or [0, 1, 4, 2, 5, 3], [3, "2*2", "3*2"])


def rows_and_columns(graph: Graph, chance: random.Random, *, axes: Sequence[int] = (1, 2), shared: bool = False) -> str:
    """Every other row, and of these every other column; ``axes`` and ``shared`` spoil it."""
    first, second = (chance.choice([axis, axis - 4]) for axis in axes)
    rows = sliced(graph, graph("Abs", "x"), chance.choice([0, 1]), chance.choice([END, LAST]), first, 2)
    part = sliced(graph, rows, chance.choice([0, 1]), chance.choice([END, -1]), second, 2)
    return graph("Add", part, graph("ReduceMax", rows)) if shared else part


def merged_patches(graph: Graph, chance: random.Random) -> str:
    value = graph("Abs", "x")
    rows = [sliced(graph, value, start, END, 1, 2) for start in (0, 1)]
    parts = [sliced(graph, each, start, LAST, chance.choice([2, -2]), 2) for start in (0, 1) for each in rows]
    return graph("Concat", *chance.sample(parts, 4), axis=3)


def parts_along_two_axes(graph: Graph, chance: random.Random) -> str:
    """Two halves, of each of which some columns: real and imaginary parts without the first frame."""
    parts = [sliced(graph, graph("Abs", "x"), *bounds, 2) for bounds in ((0, 4), (4, END))]
    parts = [sliced(graph, part, 1, END, 1) for part in parts]
    return graph("Add", *parts)


def pooled(graph: Graph, chance: random.Random) -> str:
    """The mean of each channel, put last for a normalization, back, and flattened."""
    means = graph("ReduceMean", graph("Conv", "x", graph.constant(weights(chance, 6, 3, 1, 1))), axes=[2, 3])
    back = graph("Transpose", graph("Abs", graph("Transpose", means, perm=[0, 2, 3, 1])), perm=[0, 3, 1, 2])
    if chance.random() < 0.5:
        return graph("Flatten", back, axis=1)
    return graph("Reshape", back, graph.integers(chance.choice([[0, 6], [0, -1], [-1, 6]])))


def one_head(graph: Graph, chance: random.Random, target: list[int], order: Sequence[int] = (0, 2, 1, 3)) -> str:
    """Heads that are taken apart and moved in front of positions, where there is only one."""
    return graph("Abs", graph("Transpose", graph("Reshape", "x", graph.integers(target)), perm=order))


IDIOMS = {
    "parts along two axes": Idiom(build=parts_along_two_axes, becomes=["Abs", "Slice", "Slice", "Add"]),
    "ones moved and flattened": Idiom(
        build=pooled,
        inputs={"x": (2, 3, 4, 5)},
        becomes=["Convolution", "ReduceMean", "Transpose", "Abs", "Reshape"],
    ),
    "ones moved behind a Reshape": Idiom(
        build=lambda g, c: one_head(g, c, c.choice([[2, -1, 1, 8], [0, -1, 1, 8], [-1, 3, 1, 8]])),
        becomes=["Reshape", "Abs"],
    ),
    "patches that are put together": Idiom(
        build=merged_patches, inputs=IMAGE, becomes=["Abs", *["Slice"] * 4, "Concat"]
    ),
    "rows and columns": Idiom(build=rows_and_columns, inputs=IMAGE, becomes=["Abs", "Slice"]),
    "slices one after the other": Idiom(build=three_slices, becomes=["MatMul", "VariadicSplit", "Concat"]),
    "slices of which one is there twice": Idiom(
        build=lambda g, c: joined(g, c, (0, 4), (4, END), (0, 4)), becomes=["MatMul", "VariadicSplit", "Concat"]
    ),
    "slices counted from the end up to the last column": Idiom(
        build=lambda g, c: joined(g, c, (0, -6), (-6, -3), (-3, 8)), becomes=["MatMul", "VariadicSplit", "Concat"]
    ),
    "a roll": Idiom(build=rolled, becomes=["MatMul", "VariadicSplit", "Concat"]),
    "shuffled channels": Idiom(build=shuffled, inputs=IMAGE, becomes=["Convolution", "ShuffleChannels"]),
    "blocks from channels": Idiom(build=from_depth, inputs=IMAGE, becomes=["Convolution", "DepthToSpace"]),
}

NEAR_MISSES = {
    "dimensions moved and flattened": NearMiss(
        build=lambda g, c: g("Reshape", g("Transpose", "x", perm=[0, 3, 1, 2]), g.integers([-1, 6])),
        inputs={"x": (2, 3, 1, 6)},
        count=2,
    ),
    "two heads": NearMiss(build=lambda g, c: one_head(g, c, [0, -1, 2, 4]), count=3),
    "one head whose numbers move": NearMiss(build=lambda g, c: one_head(g, c, [2, -1, 1, 8], (0, 3, 2, 1)), count=3),
    "one head, and positions that are taken over": NearMiss(build=lambda g, c: one_head(g, c, [0, 0, 1, 8]), count=3),
    "rows of rows": NearMiss(build=lambda g, c: rows_and_columns(g, c, axes=(1, 1)), inputs=IMAGE, count=3),
    "rows that are read elsewhere": NearMiss(
        build=lambda g, c: rows_and_columns(g, c, shared=True), inputs=IMAGE, count=5
    ),
    "slices with a gap": NearMiss(build=lambda g, c: joined(g, c, (0, 3), (4, END)), absent="VariadicSplit"),
    "slices that overlap": NearMiss(build=lambda g, c: joined(g, c, (0, 4), (3, END)), absent="VariadicSplit"),
    "slices that end before the end": NearMiss(build=lambda g, c: joined(g, c, (0, 4), (4, 7)), absent="VariadicSplit"),
    "slices with steps": NearMiss(build=lambda g, c: joined(g, c, (0, 4, 2), (4, END, 2)), absent="VariadicSplit"),
    "a dynamic dimension that may be too short": NearMiss(
        build=lambda g, c: g("Concat", sliced(g, "x", 3, END, 0), sliced(g, "x", 0, 3, 0), axis=0),
        absent="VariadicSplit",
    ),
    "another order of channels": NearMiss(
        build=lambda g, c: moved(g, c, [3, 4, "2", "3"], (0, 2, 1, 4, 3), [12, "3", "2"]),
        inputs=IMAGE,
        absent="ShuffleChannels",
    ),
    "another order of blocks": NearMiss(
        build=lambda g, c: from_depth(g, c, order=[0, 3, 4, 2, 5, 1]), inputs=IMAGE, absent="DepthToSpace"
    ),
    "channels of another batch": NearMiss(
        build=lambda g, c: moved(g, c, [3, 4, 2, 12], (0, 2, 1, 3, 4), [12, 2, 12], batch=(-1,)),
        inputs=IMAGE,
        absent="ShuffleChannels",
    ),
    "rows and columns that change places": NearMiss(
        build=lambda g, c: moved(g, c, [3, 4, "3", "2"], (0, 2, 1, 3, 4), [12, "3", "2"]),
        inputs=IMAGE,
        absent="ShuffleChannels",
    ),
    "channels that are divided otherwise": NearMiss(
        build=lambda g, c: moved(g, c, [3, 2, "2", "3"], (0, 2, 1, 3, 4), [12, "2", "3"], batch=(-1,)),
        inputs=IMAGE,
        absent="ShuffleChannels",
    ),
}
