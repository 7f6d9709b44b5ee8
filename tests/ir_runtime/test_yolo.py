"""The IR's YOLO layers and Inverse against OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset16 as ops

from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(12)


@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize(("axis", "end_axis"), [(1, 3), (0, 1), (1, 2)])
def test_region_yolo(softmax: bool, axis: int, end_axis: int) -> None:
    x = RNG.standard_normal((2, 3 * 9, 5, 6)).astype(np.float32)
    data = ops.parameter([2, 27, 5, 6], np.float32)
    node = ops.region_yolo(data, 4, 4, 3, softmax, [0, 1, 2], axis, end_axis, [1.0, 2.0])
    check_peers([node], [data], [x])


@pytest.mark.parametrize("stride", [1, 2])
def test_reorg_yolo(stride: int) -> None:
    x = RNG.standard_normal((2, 8, 4, 6)).astype(np.float32)
    data = ops.parameter([2, 8, 4, 6], np.float32)
    check_peers([ops.reorg_yolo(data, [stride])], [data], [x])


@pytest.mark.parametrize("adjoint", [True, False])
def test_inverse(adjoint: bool) -> None:
    x = RNG.standard_normal((2, 3, 4, 4)).astype(np.float32)
    data = ops.parameter([-1, 3, -1, -1], np.float32)
    check_peers([ops.inverse(data, adjoint)], [data], [x], rtol=1e-3, atol=1e-4)
