"""Slices that are one split, shuffled channels and blocks, and dimensions of 1 that move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.rows.formula import Graph, Idiom, Value, spelled

END = 2**31 - 1
LAST = 2**63 - 1
IMAGE = {"x": (2, 4, 4, 6)}
Dims = Sequence[int | str]


def sliced(g: Graph, value: Value, start: int, stop: int, axis: int, step: int = 1) -> Value:
    return g.Slice(value, [start], [stop], [axis], [step])


def joined(g: Graph, *bounds: Sequence[int]) -> Value:
    """Slices of eight columns, whatever the shape of x, put together in any order."""
    value, axis = g.x @ g.weights(8, 8), g.chance.choice([2, -1])
    slices = [sliced(g, value, each[0], each[1], axis, *each[2:]) for each in bounds]
    return g.Concat(*g.chance.sample(slices, len(slices)), axis=2)


def three_slices(g: Graph) -> Value:
    """Bounds are counted from either end."""
    two, five = ((place, place - 8) for place in (2, 5))
    some = g.chance.choice
    return joined(g, (0, some(two)), (some(two), some(five)), (some(five), some([8, END, LAST])))


def rolled(g: Graph) -> Value:
    """Swin's shift: what is in front goes to the end."""
    place = g.chance.choice([3, -3])
    return joined(g, (place, g.chance.choice([END, LAST])), (0, place))


def halved_part(g: Graph) -> Value:
    """What a rotary embedding of the first numbers of each head takes."""
    value = g.x @ g.weights(8, 8)
    part, rest = sliced(g, value, 0, 4, 2), sliced(g, value, 4, 8, 2)
    return g.Concat(part, rest, sliced(g, part, 2, 4, 2), sliced(g, part, 0, 2, 2), axis=2)


def dimensions(g: Graph, value: Value, dims: Dims) -> Any:
    """A target shape: numbers, and "2" or "2*2" for a dimension of the value and its double, as torch computes them."""
    if not any(isinstance(dim, str) for dim in dims):
        return list(dims)
    shape, parts = g.Shape(value), []
    for dim in dims:
        if isinstance(dim, str):
            one = g.Gather(shape, np.int64(dim[0]), axis=0)
            parts.append(g.Unsqueeze(g.Mul(one, np.int64(2)) if dim.endswith("*2") else one, [0]))
        else:
            parts.append([dim])
    return g.Concat(*parts, axis=0)


def moved(g: Graph, first: Dims, order: Sequence[int], last: Dims, batch: Dims = ("0", -1, 0)) -> Value:
    """Reshape, Transpose, Reshape; the batch is taken over or follows from the rest."""
    value = g.Conv(g.x, g.weights(12, 4, 1, 1))
    middle, final = ([g.chance.choice(batch), *dims] for dims in (first, last))
    split = g.Transpose(g.Reshape(value, dimensions(g, value, middle)), perm=order)
    return g.Reshape(split, dimensions(g, value, final))


def shuffled(g: Graph) -> Value:
    groups, last = g.chance.choice([2, 3, 4]), g.chance.choice([["2", "3"], ["2", -1]])
    batch: Dims = ("0", 0) if -1 in last else ("0", -1, 0)
    return moved(g, [groups, 12 // groups, "2", "3"], (0, 2, 1, 3, 4), [12, *last], batch)


def from_depth(g: Graph, order: Sequence[int] | None = None) -> Value:
    return g.one_of(
        lambda: moved(g, [2, 2, 3, "2", "3"], order or [0, 3, 4, 1, 5, 2], [3, "2*2", "3*2"]),
        lambda: moved(g, [3, 2, 2, "2", "3"], order or [0, 1, 4, 2, 5, 3], [3, "2*2", "3*2"]),
    )


def rows_and_columns(g: Graph, axes: Sequence[int] = (1, 2), shared: bool = False) -> Value:
    """Every other row, and of these every other column; the arguments spoil it."""
    some = g.chance.choice
    first, second = (some([axis, axis - 4]) for axis in axes)
    rows = sliced(g, g.Abs(g.x), some([0, 1]), some([END, LAST]), first, 2)
    part = sliced(g, rows, some([0, 1]), some([END, -1]), second, 2)
    return g.Add(part, g.ReduceMax(rows)) if shared else part


def merged_patches(g: Graph) -> Value:
    value = g.Abs(g.x)
    rows = [sliced(g, value, start, END, 1, 2) for start in (0, 1)]
    parts = [sliced(g, each, start, LAST, g.chance.choice([2, -2]), 2) for start in (0, 1) for each in rows]
    return g.Concat(*g.chance.sample(parts, 4), axis=3)


def parts_along_two_axes(g: Graph) -> Value:
    """Two halves, of each of which some columns: real and imaginary parts without the first frame."""
    parts = [sliced(g, g.Abs(g.x), *bounds, 2) for bounds in ((0, 4), (4, END))]
    return g.Add(*(sliced(g, part, 1, END, 1) for part in parts))


def pooled(g: Graph) -> Value:
    """The mean of each channel, put last for a normalization, back, and flattened."""
    means = g.ReduceMean(g.Conv(g.x, g.weights(6, 3, 1, 1)), axes=[2, 3])
    back = g.Transpose(g.Abs(g.Transpose(means, perm=[0, 2, 3, 1])), perm=[0, 3, 1, 2])
    return g.one_of(
        lambda: g.Flatten(back, axis=1), lambda: g.Reshape(back, g.chance.choice([[0, 6], [0, -1], [-1, 6]]))
    )


def one_head(g: Graph, target: list[int], order: Sequence[int] = (0, 2, 1, 3)) -> Value:
    """Heads that are taken apart and moved in front of positions, where there is only one."""
    return g.Abs(g.Transpose(g.Reshape(g.x, target), perm=order))


SPLIT = "MatMul VariadicSplit Concat"
IDIOMS = {
    "parts along two axes": Idiom(parts_along_two_axes, "Abs Slice Slice Add"),
    "ones moved and flattened": Idiom(pooled, "Convolution ReduceMean Transpose Abs Reshape", {"x": (2, 3, 4, 5)}),
    "ones moved behind a Reshape": Idiom(
        lambda g: one_head(g, g.chance.choice([[2, -1, 1, 8], [0, -1, 1, 8], [-1, 3, 1, 8]])), "Reshape Abs"
    ),
    "patches that are put together": Idiom(merged_patches, "Abs Slice Slice Slice Slice Concat", IMAGE),
    "rows and columns": Idiom(rows_and_columns, "Abs Slice", IMAGE),
    "slices one after the other": Idiom(three_slices, SPLIT),
    "slices of which one is there twice": Idiom(lambda g: joined(g, (0, 4), (4, END), (0, 4)), SPLIT),
    "slices counted from the end up to the last column": Idiom(lambda g: joined(g, (0, -6), (-6, -3), (-3, 8)), SPLIT),
    "a roll": Idiom(rolled, SPLIT),
    "halves of a part": Idiom(halved_part, "MatMul VariadicSplit VariadicSplit Concat"),
    "shuffled channels": Idiom(shuffled, "Convolution ShuffleChannels", IMAGE),
    "blocks from channels": Idiom(from_depth, "Convolution DepthToSpace", IMAGE),
}


def no_split(build: Any) -> Idiom:
    return Idiom(build, absent="VariadicSplit")


def no_shuffle(*arguments: Any) -> Idiom:
    return Idiom(lambda g: moved(g, *arguments), inputs=IMAGE, absent="ShuffleChannels")


def moved_and_flattened(g: Graph) -> Value:
    return g.Reshape(g.Transpose(g.x, perm=[0, 3, 1, 2]), [-1, 6])


def rolled_rows(g: Graph) -> Value:
    return g.Concat(sliced(g, g.x, 3, END, 0), sliced(g, g.x, 0, 3, 0), axis=0)


NEAR_MISSES = {
    "dimensions moved and flattened": Idiom(moved_and_flattened, inputs={"x": (2, 3, 1, 6)}, count=2),
    "two heads": Idiom(lambda g: one_head(g, [0, -1, 2, 4]), count=3),
    "one head whose numbers move": Idiom(lambda g: one_head(g, [2, -1, 1, 8], (0, 3, 2, 1)), count=3),
    "one head, and positions that are taken over": Idiom(lambda g: one_head(g, [0, 0, 1, 8]), count=3),
    "rows of rows": Idiom(lambda g: rows_and_columns(g, (1, 1)), inputs=IMAGE, count=3),
    "rows that are read elsewhere": Idiom(lambda g: rows_and_columns(g, shared=True), inputs=IMAGE, count=5),
    "slices with a gap": no_split(lambda g: joined(g, (0, 3), (4, END))),
    "slices that overlap": no_split(lambda g: joined(g, (0, 4), (3, END))),
    "slices that end before the end": no_split(lambda g: joined(g, (0, 4), (4, 7))),
    "slices with steps": no_split(lambda g: joined(g, (0, 4, 2), (4, END, 2))),
    "a dynamic dimension that may be too short": no_split(rolled_rows),
    "another order of channels": no_shuffle([3, 4, "2", "3"], (0, 2, 1, 4, 3), [12, "3", "2"]),
    "another order of blocks": Idiom(lambda g: from_depth(g, [0, 3, 4, 2, 5, 1]), inputs=IMAGE, absent="DepthToSpace"),
    "channels of another batch": no_shuffle([3, 4, 2, 12], (0, 2, 1, 3, 4), [12, 2, 12], (-1,)),
    "rows and columns that change places": no_shuffle([3, 4, "3", "2"], (0, 2, 1, 3, 4), [12, "3", "2"]),
    "channels that are divided otherwise": no_shuffle([3, 2, "2", "3"], (0, 2, 1, 3, 4), [12, "2", "3"], (-1,)),
}
ROWS = spelled(IDIOMS, NEAR_MISSES)
