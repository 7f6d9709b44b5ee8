"""MMDeploy's operators, against the plug-in, which runs the layers that OpenVINO itself builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset15 as ops

from tests.engines import run_openvino, written
from tests.rows.row import each, rows

RNG = np.random.default_rng(3)
CENTRES, SIZES, ANGLES = RNG.uniform(0, 8, (1, 12, 2)), RNG.uniform(2, 6, (1, 12, 2)), RNG.uniform(-1, 1, (1, 12, 1))
BOXES = np.concatenate([CENTRES, SIZES, ANGLES], 2).astype(np.float32)
X = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32)
ROIS = np.array([[0, 4, 4, 5, 3, 0.4], [1, 3, 5, 4, 4, -1.2], [1, 6, 2, 8, 2, 2.0]], np.float32)


def by_openvino(layer: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    parameters = [ops.parameter(list(value.shape), np.float32) for value in inputs]
    return run_openvino(written([layer(*parameters).output(0)], parameters), dict(enumerate(inputs)))


def suppressed(boxes: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    limits = [ops.constant(np.array(value)) for value in (np.int64(100), np.float32(0.3), np.float32(0.2))]
    expected = by_openvino(lambda *data: ops.nms_rotated(*data, *limits, clockwise=False), boxes, scores)
    assert len(expected[0]) > 2
    return expected


def aligned(x: np.ndarray, rois: np.ndarray, sampling_ratio: int, clockwise: int) -> list[np.ndarray]:
    def layer(data: Any, regions: Any) -> Any:
        batches = ops.constant(np.array([0, 1, 1], np.int32))
        return ops.roi_align_rotated(data, regions, batches, 4, 2, sampling_ratio, 0.75, bool(clockwise))

    return by_openvino(layer, x, rois[:, 1:].copy())


ROWS = [
    *rows("NMSRotated", 1, domain="mmdeploy", boxes=BOXES, scores=RNG.uniform(0, 1, (1, 2, 12)).astype(np.float32),
          iou_threshold=0.3, score_threshold=0.2, expect=suppressed,
          dims=each(None, {"boxes": [1, None, 5], "scores": [1, None, None]})),
    *rows("MMCVRoIAlignRotated", 1, domain="mmdeploy", x=X, rois=ROIS,
          output_height=4, output_width=2, sampling_ratio=each(0, 2), spatial_scale=0.75, clockwise=each(0, 1),
          expect=aligned, dims=each(None, {"x": [None] * 4, "rois": [None, 6]})),
    *rows("MMCVRoIAlignRotated", 1, domain="mmdeploy", x=np.zeros((1, 1, 4, 4), np.float32), rois=ROIS[:1], aligned=0,
          refused="half pixels"),
]  # fmt: skip
