"""The IR's patches of images against OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset16 as ops

from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(11)


@pytest.mark.parametrize("pad", ["valid", "same_upper", "same_lower"])
@pytest.mark.parametrize(
    ("sizes", "strides", "rates"), [([3, 3], [5, 5], [1, 1]), ([2, 3], [1, 2], [2, 1]), ([4, 1], [3, 1], [1, 1])]
)
def test_extract_image_patches(pad: str, sizes: list[int], strides: list[int], rates: list[int]) -> None:
    x = RNG.standard_normal((2, 3, 10, 11)).astype(np.float32)
    data = ops.parameter([-1, 3, -1, -1], np.float32)
    check_peers([ops.extract_image_patches(data, sizes, strides, rates, pad)], [data], [x])


@pytest.mark.parametrize("batch", [(2,), ()])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_col2im(batch: tuple[int, ...], dtype: type) -> None:
    x = RNG.integers(-9, 9, (*batch, 18, 24)).astype(dtype)
    data = ops.parameter([-1] * x.ndim, dtype)
    sizes = ops.constant(np.array([6, 7])), ops.constant(np.array([2, 3]))
    node = ops.col2im(data, *sizes, strides=[2, 1], dilations=[1, 2], pads_begin=[1, 1], pads_end=[1, 2])
    check_peers([node], [data], [x])
