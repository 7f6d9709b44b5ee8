"""MMDeploy's operators against the plug-in, which runs the layers that OpenVINO itself builds."""

from __future__ import annotations

import numpy as np
import openvino.opset15 as ops
import pytest

import converter
from tests.engines import check_node, node_model, run_openvino
from tests.ir_runtime.peers import written_by_openvino
from tests.random_data import generator

RNG = generator(3)


@pytest.mark.parametrize("dynamic", [False, True])
def test_suppression_of_rotated_boxes(dynamic: bool) -> None:
    centres, sizes = RNG.uniform(0, 8, (1, 12, 2)), RNG.uniform(2, 6, (1, 12, 2))
    boxes = np.concatenate([centres, sizes, RNG.uniform(-1, 1, (1, 12, 1))], 2).astype(np.float32)
    scores = RNG.uniform(0, 1, (1, 2, 12)).astype(np.float32)
    parameters = [ops.parameter(list(value.shape), np.float32) for value in (boxes, scores)]
    limits = [ops.constant(np.array(value)) for value in (np.int64(100), np.float32(0.3), np.float32(0.2))]
    layer = ops.nms_rotated(*parameters, *limits, clockwise=False)
    expected = run_openvino(written_by_openvino([layer.output(0)], parameters), {0: boxes, 1: scores})
    feeds = {"boxes": boxes, "scores": scores}
    model = node_model(
        "NMSRotated",
        feeds,
        opset=1,
        domain="mmdeploy",
        attributes={"iou_threshold": 0.3, "score_threshold": 0.2},
        shapes={"boxes": [1, None, 5], "scores": [1, None, None]} if dynamic else None,
    )
    assert len(expected[0]) > 2
    check_node(model, feeds, expected)


@pytest.mark.parametrize("clockwise", [0, 1])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("dynamic", [False, True])
def test_rotated_regions(clockwise: int, ratio: int, dynamic: bool) -> None:
    x = RNG.standard_normal((2, 3, 9, 8)).astype(np.float32)
    rois = np.array([[0, 4, 4, 5, 3, 0.4], [1, 3, 5, 4, 4, -1.2], [1, 6, 2, 8, 2, 2.0]], np.float32)
    parameters = [ops.parameter([2, 3, 9, 8], np.float32), ops.parameter([3, 5], np.float32)]
    batches = ops.constant(np.array([0, 1, 1], np.int32))
    layer = ops.roi_align_rotated(*parameters, batches, 4, 2, ratio, 0.75, bool(clockwise))
    expected = run_openvino(written_by_openvino([layer], parameters), {0: x, 1: rois[:, 1:]})
    given = {"output_height": 4, "output_width": 2, "sampling_ratio": ratio, "spatial_scale": 0.75}
    feeds = {"x": x, "rois": rois}
    model = node_model(
        "MMCVRoIAlignRotated",
        feeds,
        opset=1,
        domain="mmdeploy",
        attributes={**given, "clockwise": clockwise},
        shapes={"x": [None] * 4, "rois": [None, 6]} if dynamic else None,
    )
    check_node(model, feeds, expected)


def test_regions_that_are_not_aligned() -> None:
    feeds = {"x": np.zeros((1, 1, 4, 4), np.float32), "rois": np.zeros((1, 6), np.float32)}
    model = node_model("MMCVRoIAlignRotated", feeds, opset=1, domain="mmdeploy", attributes={"aligned": 0})
    with pytest.raises(converter.ConversionError, match="half pixels"):
        converter.convert_model(model)
