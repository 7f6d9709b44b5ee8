"""The IR's operations of object detection against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset3, opset4, opset5, opset9

from tests.ir_runtime.peers import check_peers
from tests.random_data import generator

RNG = generator(5)
FIRST = RNG.uniform(0, 10, (2, 20, 2))
BOXES = np.concatenate([FIRST, FIRST + RNG.uniform(1, 6, (2, 20, 2))], -1).astype(np.float32)
SCORES = RNG.uniform(0, 1, (2, 3, 20)).astype(np.float32)


@pytest.mark.parametrize("ops", [opset1, opset3, opset4, opset5, opset9], ids=lambda ops: ops.__name__[-6:])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("encoding", ["corner", "center"])
def test_non_max_suppression(ops: Any, descending: bool, encoding: str) -> None:
    boxes, scores = ops.parameter([2, 20, 4], np.float32), ops.parameter([2, 3, 20], np.float32)
    limits = [ops.constant(value) for value in (np.int64(6), np.float32(0.3), np.float32(0.2))]
    kind = {} if ops is opset1 else {"output_type": "i32"}
    node = ops.non_max_suppression(
        boxes, scores, *limits, box_encoding=encoding, sort_result_descending=descending, **kind
    )
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sigma", [0.2, 0.5, 2.0])
@pytest.mark.parametrize("ops", [opset5, opset9], ids=lambda ops: ops.__name__[-6:])
def test_soft_suppression(ops: Any, descending: bool, sigma: float) -> None:
    boxes, scores = ops.parameter([2, -1, 4], np.float32), ops.parameter([2, 3, -1], np.float32)
    limits = [ops.constant(value) for value in (np.int64(9), np.float32(0.3), np.float32(0.2), np.float32(sigma))]
    node = ops.non_max_suppression(boxes, scores, *limits, sort_result_descending=descending)
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])


IMAGES = RNG.standard_normal((2, 3, 9, 11)).astype(np.float32)
CORNERS = np.array(
    [[0, 0, 10, 8], [2, 1, 6, 7], [1.3, 2.2, 1.4, 2.3], [-3, -2, 4, 5], [5, 5, 20, 20], [8, 6, 3, 2], [3, 3, 3, 3]],
    np.float32,
)
BATCHES = np.array([0, 1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("aligned", [None, "asymmetric", "half_pixel", "half_pixel_for_nn"])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_roi_align(mode: str, aligned: str | None, ratio: int, scale: float) -> None:
    corners = CORNERS[:5]  # A region without points gives what was in memory.
    data, regions = opset9.parameter([-1, 3, -1, -1], np.float32), opset9.parameter([-1, 4], np.float32)
    batches = opset9.parameter([-1], np.int64)
    if aligned is None:
        node = opset3.roi_align(data, regions, batches, 3, 4, ratio, scale, mode)
    else:
        node = opset9.roi_align(data, regions, batches, 3, 4, ratio, scale, mode, aligned)
    check_peers([node], [data, regions, batches], [IMAGES, corners, BATCHES[:5]])


@pytest.mark.parametrize("method", ["max", "bilinear"])
@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("size", [[3, 4], [1, 1]])
def test_roi_pooling(method: str, scale: float, size: list[int]) -> None:
    corners = CORNERS if method == "max" else np.clip(CORNERS, 0, 11) / 12
    rows = np.concatenate([BATCHES[:, None], corners], 1).astype(np.float32)
    data, regions = opset9.parameter([2, 3, -1, -1], np.float32), opset9.parameter([-1, 5], np.float32)
    node = opset9.roi_pooling(data, regions, output_roi=size, spatial_scale=scale, method=method)
    check_peers([node], [data, regions], [IMAGES, rows])
