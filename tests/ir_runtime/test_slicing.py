"""Slices, splits and pads in the IR against OpenVINO."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from openvino import opset16 as ov

from ir_runtime.graph.element_types import f32, i64
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import INFINITY, Dimension, PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.slicing import Slice8, StridedSlice1, sliced_dimension
from tests.ir_runtime.peers import check_peers

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


def data(dynamic: bool) -> Any:
    return ov.parameter([-1, -1, -1] if dynamic else [3, 4, 5], np.float32)


def ints(*values: int) -> Any:
    return ov.constant(np.array(values, np.int64))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("begin", "end", "strides", "masks"),
    [
        ([0, 1, 1], [1, 3, 4], [1, 1, 2], {}),
        ([0, 1, 1], [1, 3, 4], [1, 1, 1], {"begin_mask": [1, 1, 0], "end_mask": [0, 1, 0]}),
        ([1, 0], [2, 2], [1, 1], {"shrink_axis_mask": [1, 0]}),
        ([0, 1], [0, 3], [1, 1], {"new_axis_mask": [1, 0]}),
        ([0, 0, 2], [0, 0, 4], [1, 1, 1], {"ellipsis_mask": [1, 0, 0], "end_mask": [0, 1, 0]}),
        ([1, 0, -1], [2, 0, 0], [1, 1, 1], {"ellipsis_mask": [0, 1, 0], "shrink_axis_mask": [1, 0, 1]}),
        ([1, 1], [2, 3], [1, 1], {"begin_mask": [1, 0], "shrink_axis_mask": [1, 0]}),
        ([-1], [0], [-1], {"end_mask": [1]}),
        ([0, -1, -2], [3, -4, 1], [2, -1, 1], {"end_mask": [0, 0, 1]}),
    ],
)
def test_strided_slice(dynamic: bool, begin: list[int], end: list[int], strides: list[int], masks: Any) -> None:
    x = data(dynamic)
    all_masks = {"begin_mask": [0] * len(begin), "end_mask": [0] * len(begin), **masks}
    node = ov.strided_slice(x, ints(*begin), ints(*end), ints(*strides), **all_masks)
    check_peers([node], [x], [X])


@pytest.mark.parametrize("dynamic", [False, True])
def test_splits(dynamic: bool) -> None:
    x = data(dynamic)
    even = ov.split(x, ov.constant(np.int64(-2)), 2)
    check_peers([even.output(i) for i in range(2)], [x], [X])
    x = data(dynamic)
    uneven = ov.variadic_split(x, ov.constant(np.int64(2)), ints(1, -1, 2))
    check_peers([uneven.output(i) for i in range(3)], [x], [X])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("begin", "end"), [([1, 0, 2], [0, 2, 1]), ([0, -1, 2], [-1, 1, 0])])
def test_pad(mode: str, dynamic: bool, begin: list[int], end: list[int]) -> None:
    x = data(dynamic)
    fill = ov.constant(np.float32(7)) if mode == "constant" else None
    check_peers([ov.pad(x, ints(*begin), ints(*end), mode, fill)], [x], [X])


@pytest.mark.parametrize("dynamic", [False, True])
def test_slice_scatter(dynamic: bool) -> None:
    x, updates = data(dynamic), ov.parameter([3, 2, 2], np.float32)
    node = ov.slice_scatter(x, updates, ints(3, 0), ints(-5, 4), ints(-2, 2), ints(1, 2))
    check_peers([node], [x, updates], [X, -np.ones((3, 2, 2), np.float32)])


@pytest.mark.parametrize("step", [1, 2, -1, -3])
@pytest.mark.parametrize("start", [(0, 0), (2, 2), (-3, -3), (-4, -1), (0, 3), (-2, 2), (2**31 - 1, 2**31 - 1)])
@pytest.mark.parametrize(
    "stop", [(0, 0), (3, 3), (-2, -2), (-4, -1), (1, 5), (-1, 1), (-(2**31), -(2**31)), (2**63 - 1,) * 2]
)
@pytest.mark.parametrize("dimension", [(0, 5), (3, 3), (2, 9), (4, INFINITY)])
def test_dimensions_of_slices_hold_every_possible_outcome(
    step: int, start: tuple[int, int], stop: tuple[int, int], dimension: tuple[int, int]
) -> None:
    found = sliced_dimension(Dimension(*dimension), start, stop, step)
    for size in range(dimension[0], min(dimension[1], 12) + 1):
        for first in range(start[0], start[1] + 1):
            for last in range(stop[0], stop[1] + 1):
                assert found.contains(len(range(size)[first:last:step])), (size, first, last)


def _intervals(ends: Sequence[int]) -> list[tuple[int, int]]:
    return [(low, high) for low in ends for high in ends if low <= high]


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -5])
def test_dimensions_of_slices_are_the_least_and_the_greatest_outcome(step: int) -> None:
    positions = range(-9, 10)
    # What Python itself takes, by dimension, start and stop; 40 elements are as good as an open dimension.
    sizes = range(41)
    taken = np.array([[[len(range(n)[a:b:step]) for b in positions] for a in positions] for n in sizes])
    for low, high in [*_intervals((0, 1, 3, 6)), (0, INFINITY), (2, INFINITY), (7, INFINITY)]:
        of_dimensions = taken[low : min(high, 40) + 1]
        for start, stop in itertools.product(_intervals((-9, -3, -1, 0, 2, 9)), repeat=2):
            outcomes = of_dimensions[:, start[0] + 9 : start[1] + 10, stop[0] + 9 : stop[1] + 10]
            found = sliced_dimension(Dimension(low, high), start, stop, step)
            grows = high == INFINITY and outcomes[-1].max() > outcomes[-10].max()
            wanted = Dimension(int(outcomes.min()), INFINITY if grows else int(outcomes.max()))
            assert found == wanted, (Dimension(low, high), start, stop)


INT32, INT64 = 2**31 - 1, 2**63 - 1


@pytest.mark.parametrize(
    ("dimension", "start", "stop", "step", "wanted"),
    [
        ((0, INFINITY), -1, INT32, 1, (0, 1)),
        ((0, INFINITY), -1, INT64, 1, (0, 1)),
        ((3, INFINITY), -1, INT64, 1, (1, 1)),
        ((2, INFINITY), -7, INT64, 2, (1, 4)),
        ((0, INFINITY), 0, INT32, 1, (0, INFINITY)),
        ((5, INFINITY), 2, INT64, 3, (1, INFINITY)),
        ((0, INFINITY), -INT64, -1, 1, (0, INFINITY)),
        ((4, INFINITY), -INT32, 2, 1, (0, 2)),
        ((4, INFINITY), -1, -INT32, -1, (4, INFINITY)),
        ((4, INFINITY), INT64, -INT64 - 1, -2, (2, INFINITY)),
        ((0, INFINITY), 3, -INT64, -1, (0, 4)),
        ((0, INFINITY), INT64, -4, -1, (0, 3)),
        ((9, 12), INT32, -4, -1, (3, 3)),
    ],
)
def test_far_ends_of_slices_are_open(
    dimension: tuple[int, int], start: int, stop: int, step: int, wanted: tuple[int, int]
) -> None:
    assert sliced_dimension(Dimension(*dimension), (start, start), (stop, stop), step) == Dimension(*wanted)


def test_the_last_elements_of_an_open_dimension() -> None:
    x = TensorType(f32, PartialShape([None, 4]))
    start, stop, step = (TensorType(i64, PartialShape([1]), Tensor.from_array(np.array([n]))) for n in (-2, INT64, 1))
    for op in (Slice8(), StridedSlice1(), StridedSlice1(end_mask=(1,))):
        assert op.infer([x, start, stop, step])[0].shape == PartialShape([Dimension(0, 2), 4])
