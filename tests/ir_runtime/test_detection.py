"""The IR's operations of object detection against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset3, opset4, opset5, opset9

from tests.ir_runtime.peers import check_peers

RNG = np.random.default_rng(5)
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
    node = ops.non_max_suppression(boxes, scores, *limits, box_encoding=encoding, sort_result_descending=descending, **kind)
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sigma", [0.2, 0.5, 2.0])
@pytest.mark.parametrize("ops", [opset5, opset9], ids=lambda ops: ops.__name__[-6:])
def test_soft_suppression(ops: Any, descending: bool, sigma: float) -> None:
    boxes, scores = ops.parameter([2, -1, 4], np.float32), ops.parameter([2, 3, -1], np.float32)
    limits = [ops.constant(value) for value in (np.int64(9), np.float32(0.3), np.float32(0.2), np.float32(sigma))]
    node = ops.non_max_suppression(boxes, scores, *limits, sort_result_descending=descending)
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])
