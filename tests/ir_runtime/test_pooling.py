"""Max pooling with indices against OpenVINO; the other poolings are compared by operator and by kernel."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset16 as ov

from tests.ir_runtime.peers import check_peers


@pytest.mark.parametrize("axis", [0, 2])
def test_indices_of_windows_in_the_padding_alone(axis: int) -> None:
    x = ov.parameter([2, 2, 2, 3], np.float32)
    node = ov.max_pool(x, [1, 1], [1, 1], [1, 1], [0, 0], [1, 1], "floor", "explicit", "i64", axis)
    check_peers([node.output(1)], [x], [np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3)])
