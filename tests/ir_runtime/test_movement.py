"""Blocks, reversals and other movements in the IR against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset16 as ov

from ir_runtime.errors import InferenceError
from ir_runtime.graph.element_types import f32
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.ir_runtime.peers import check_peers

X = np.arange(2 * 8 * 4 * 6, dtype=np.float32).reshape(2, 8, 4, 6)


def data(dynamic: bool = False) -> Any:
    return ov.parameter([-1, -1, -1, -1] if dynamic else [2, 8, 4, 6], np.float32)


def ints(*values: int) -> Any:
    return ov.constant(np.array(values, np.int64))


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_depth_and_space(mode: str, dynamic: bool) -> None:
    x = data(dynamic)
    check_peers([ov.depth_to_space(x, mode, 2), ov.space_to_depth(x, mode, 2)], [x], [X])


@pytest.mark.parametrize("mode", ["blocks_first", "depth_first"])
def test_depth_and_space_of_three_dimensions(mode: str) -> None:
    x = ov.parameter([1, 8, 4, 2, 2], np.float32)
    values = np.arange(128, dtype=np.float32).reshape(1, 8, 4, 2, 2)
    check_peers([ov.depth_to_space(x, mode, 2), ov.space_to_depth(x, mode, 2)], [x], [values])


@pytest.mark.parametrize(("name", "method"), [("DepthToSpace", ov.depth_to_space), ("SpaceToDepth", ov.space_to_depth)])
@pytest.mark.parametrize("shape", [[4], [4, 4]], ids=str)
def test_depth_and_space_need_space(name: str, method: Any, shape: list[int]) -> None:
    """OpenVINO refuses these data, too."""
    with pytest.raises(RuntimeError, match="lower than 3"):
        method(ov.parameter(shape, np.float32), "blocks_first", 2)
    with pytest.raises(InferenceError, match="needs a batch, channels and space"):
        find_operation(name, 1)(block_size=2).infer([TensorType(f32, PartialShape(shape))])


@pytest.mark.parametrize("dynamic", [False, True])
def test_batch_and_space(dynamic: bool) -> None:
    x = data(dynamic)
    there = ov.space_to_batch(x, ints(1, 1, 2, 3), ints(0, 0, 1, 0), ints(0, 0, 1, 3))
    check_peers([there], [x], [X])
    x = data(dynamic)
    back = ov.batch_to_space(x, ints(1, 2, 1, 1), ints(0, 1, 0, 0), ints(0, 2, 0, 0))
    check_peers([back], [x], [X])


@pytest.mark.parametrize("axis", [1, -1])
def test_shuffle_channels(axis: int) -> None:
    x = data()
    check_peers([ov.shuffle_channels(x, axis, 2)], [x], [X])


@pytest.mark.parametrize("dynamic", [False, True])
def test_reverse(dynamic: bool) -> None:
    x = data(dynamic)
    check_peers([ov.reverse_sequence(x, ints(1, 3), 0, 2)], [x], [X])


@pytest.mark.parametrize(("shift", "axes"), [([1, -2], [1, 3]), ([3], [0]), ([1, 1], [2, 2])])
def test_roll(shift: list[int], axes: list[int]) -> None:
    x = data()
    check_peers([ov.roll(x, ints(*shift), ints(*axes))], [x], [X])


@pytest.mark.parametrize("repeats", [[2], [1, 2, 1, 1], [2, 1, 1, 1, 3]])
def test_tile(repeats: list[int]) -> None:
    x = data()
    check_peers([ov.tile(x, ints(*repeats))], [x], [X])


@pytest.mark.parametrize("skip", [False, True])
def test_squeeze(skip: bool) -> None:
    x = ov.parameter([1, 3, 1], np.float32)
    axes = ints(0, 1) if skip else ints(0, 2)
    check_peers([ov.squeeze(x, axes, skip)], [x], [np.ones((1, 3, 1), np.float32)])


@pytest.mark.parametrize("target", [[2, 3, 4], [3, 4]])
def test_explicit_broadcast(target: list[int]) -> None:
    x = ov.parameter([3], np.float32)
    axes = ints(1) if len(target) == 3 else ints(0)
    check_peers([ov.broadcast(x, ints(*target), axes, "EXPLICIT")], [x], [np.arange(3, dtype=np.float32)])
