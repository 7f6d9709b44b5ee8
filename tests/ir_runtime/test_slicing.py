"""Slices, splits and pads in the IR against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset16 as ov

from ir_runtime.operations.slicing import sliced_extent
from ir_runtime.shapes import INFINITY, Dimension
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
@pytest.mark.parametrize("extent", [(0, 5), (3, 3), (2, 9), (4, INFINITY)])
def test_extents_of_slices_hold_every_possible_outcome(
    step: int, start: tuple[int, int], stop: tuple[int, int], extent: tuple[int, int]
) -> None:
    found = sliced_extent(Dimension(*extent), start, stop, step)
    for size in range(extent[0], min(extent[1], 12) + 1):
        for first in range(start[0], start[1] + 1):
            for last in range(stop[0], stop[1] + 1):
                assert found.contains(len(range(size)[first:last:step])), (size, first, last)
