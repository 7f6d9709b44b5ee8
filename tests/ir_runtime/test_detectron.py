"""The parts of Detectron's networks against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset6 as ops

from ir_runtime.errors import ExecutionError, InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.engines import run_openvino
from tests.ir_runtime.peers import check_inference, check_peers, made, written_by_openvino
from tests.random_data import generator

RNG = generator(27)
PREFIX = "ExperimentalDetectron"


def node(name: str, parameters: list[Any], attributes: dict[str, Any]) -> list[Any]:
    return list(made(PREFIX + name, 6, parameters, **attributes).outputs())


def check(name: str, feeds: list[np.ndarray], attributes: dict[str, Any], *, dynamic: bool = False) -> None:
    shapes = [[-1] * value.ndim if dynamic else list(value.shape) for value in feeds]
    parameters = [ops.parameter(shape, np.float32) for shape in shapes]
    check_peers(node(name, parameters, attributes), parameters, feeds, atol=1e-4)


GRID = np.tile(np.stack(np.meshgrid(np.arange(7) * 8, np.arange(5) * 8), -1), 2)[:, :, None]
SIZES = np.concatenate([np.zeros((5, 7, 3, 2)), RNG.uniform(4, 20, (5, 7, 3, 2))], -1)
ANCHORS = (GRID + SIZES).reshape(-1, 4).astype(np.float32)
DELTAS = (RNG.standard_normal((12, 5, 7)) * 0.6).astype(np.float32)
SCORES = RNG.uniform(0.1, 1, (3, 5, 7)).astype(np.float32)
IMAGE = np.array([40, 56, 1], np.float32)
PROPOSED: dict[str, Any] = {"min_size": 0.0, "nms_threshold": 0.5, "pre_nms_count": 60, "post_nms_count": 20}


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"nms_threshold": 0.8, "pre_nms_count": 30},
        {"pre_nms_count": 1000, "post_nms_count": 30},
        {"nms_threshold": 0.2, "post_nms_count": 50},
        {"min_size": 4.0},
    ],
    ids=str,
)
def test_proposals(dynamic: bool, attributes: dict[str, Any]) -> None:
    feeds = [IMAGE, ANCHORS, DELTAS, SCORES]
    check("GenerateProposalsSingleImage", feeds, {**PROPOSED, **attributes}, dynamic=dynamic)


def test_small_proposals() -> None:
    """By the specification they go; OpenVINO gives them a score of 0 instead, so the others are compared."""
    feeds, given = [IMAGE, ANCHORS, DELTAS, SCORES], {**PROPOSED, "min_size": 16.0, "pre_nms_count": 200}
    parameters = [ops.parameter(list(value.shape), np.float32) for value in feeds]
    written = written_by_openvino(node("GenerateProposalsSingleImage", parameters, given), parameters)
    boxes, values = run_openvino(written, dict(enumerate(feeds)))
    count = int((values > 0).sum())
    assert 1 < count < 20
    rows, found = find_operation(PREFIX + "GenerateProposalsSingleImage", 6)(**given).evaluate(*feeds)
    np.testing.assert_allclose(found, values, rtol=1e-6)
    np.testing.assert_allclose(rows[:count], boxes[:count], rtol=1e-5, atol=1e-4)
    assert not rows[count:].any()


@pytest.mark.parametrize("most", [1, 5, 20])
def test_top_regions(most: int) -> None:
    regions, values = RNG.uniform(0, 9, (12, 4)).astype(np.float32), RNG.permutation(12).astype(np.float32)
    for dynamic in (True, False):
        # Rows after the last region are left undefined where there are fewer than asked for.
        check("TopKROIs", [regions, values], {"max_rois": min(most, 12)}, dynamic=dynamic)
    rows = find_operation(PREFIX + "TopKROIs", 6)(max_rois=most).evaluate(regions, values)
    assert rows.shape == (most, 4)
    assert not rows[12:].any()


PRIORS = RNG.uniform(-20, 20, (3, 4)).astype(np.float32)
LAYER, SCENE = np.zeros((1, 2, 4, 5), np.float32), np.zeros((1, 3, 41, 48), np.float32)
CELLS: dict[str, Any] = {"flatten": True, "h": 0, "w": 0, "stride_x": 0.0, "stride_y": 0.0}


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("strides", [{}, {"stride_x": 8.0}, {"stride_x": 7.5, "stride_y": 4.0}], ids=str)
@pytest.mark.parametrize("cells", [{}, {"h": 4, "w": 5}], ids=str)
def test_grid(flatten: bool, strides: dict[str, float], cells: dict[str, int]) -> None:
    attributes = {**CELLS, **strides, **cells, "flatten": flatten}
    for dynamic in (True, False):
        check("PriorGridGenerator", [PRIORS, LAYER, SCENE], attributes, dynamic=dynamic)


@pytest.mark.parametrize("flatten", [True, False])
def test_grid_of_fewer_cells(flatten: bool) -> None:
    """What follows the last cell is undefined by the specification."""
    given, feeds = {**CELLS, "h": 2, "w": 3, "flatten": flatten}, [PRIORS, LAYER, SCENE]
    parameters = [ops.parameter(list(value.shape), np.float32) for value in feeds]
    written = written_by_openvino(node("PriorGridGenerator", parameters, given), parameters)
    expected = run_openvino(written, dict(enumerate(feeds)))[0]
    found = find_operation(PREFIX + "PriorGridGenerator", 6)(**given).evaluate(*feeds)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.reshape(-1)[: 2 * 3 * 12], expected.reshape(-1)[: 2 * 3 * 12], rtol=1e-5)


LAYERS = [RNG.standard_normal((1, 2, size, size + 10)).astype(np.float32) for size in (64, 32, 16)]
DIMENSIONS = RNG.uniform(1, 250, (14, 2)) * np.logspace(-1, 0.3, 14)[:, None]
CORNERS = RNG.uniform(-20, 150, (14, 2))
REGIONS = np.concatenate([CORNERS, CORNERS + DIMENSIONS], -1).astype(np.float32)
REGIONS[5, 2] = REGIONS[5, 0]  # no area
REGIONS[6, 3] = REGIONS[6, 1] - 3  # upside down


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("size", [1, 3])
def test_pooling_from_a_pyramid(aligned: bool, ratio: int, layers: int, size: int) -> None:
    attributes = {
        "output_size": size,
        "sampling_ratio": ratio,
        "pyramid_scales": [4, 8, 16][:layers],
        "aligned": aligned,
    }
    check("ROIFeatureExtractor", [REGIONS, *LAYERS[:layers]], attributes)


BOXES = RNG.uniform(0, 60, (30, 2))
BOXES = np.concatenate([BOXES, BOXES + RNG.uniform(4, 40, (30, 2))], -1).astype(np.float32)
BOXES[3, 2] = BOXES[3, 0]  # no area
MOVES = RNG.standard_normal((30, 16)).astype(np.float32) * 3
KINDS = RNG.uniform(0, 1, (30, 4)).astype(np.float32)
DETECTED: dict[str, Any] = {
    "score_threshold": 0.2,
    "nms_threshold": 0.4,
    "max_delta_log_wh": 1.5,
    "num_classes": 4,
    "post_nms_count": 50,
    "max_detections_per_image": 20,
    "class_agnostic_box_regression": False,
    "deltas_weights": [10.0, 8.0, 5.0, 4.0],
}


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"max_detections_per_image": 80},
        {"post_nms_count": 3},
        {"post_nms_count": -1, "nms_threshold": 0.1},
        {"score_threshold": 0.8, "max_delta_log_wh": 0.1},
        {"score_threshold": 2.0},
        {"nms_threshold": 0.9, "max_detections_per_image": 5},
    ],
    ids=str,
)
def test_detections(dynamic: bool, attributes: dict[str, Any]) -> None:
    feeds = [BOXES, MOVES, KINDS, np.array([[70, 80, 1]], np.float32)]
    check("DetectionOutput", feeds, {**DETECTED, **attributes}, dynamic=dynamic)


def test_no_regions() -> None:
    """By hand: OpenVINO has no arrays without elements here."""
    feeds = [BOXES[:0], MOVES[:0], KINDS[:0], np.array([[70, 80, 1]], np.float32)]
    for value in find_operation(PREFIX + "DetectionOutput", 6)(**DETECTED).evaluate(*feeds):
        assert len(value) == 20
        assert not value.any()


POOLED: dict[str, Any] = {"output_size": 3, "sampling_ratio": 2, "pyramid_scales": [4, 8], "aligned": False}


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("name", "shapes", "attributes"),
    [
        ("GenerateProposalsSingleImage", [[3], [90, 4], [12, 5, 6], [3, 5, 6]], PROPOSED),
        ("GenerateProposalsSingleImage", [[-1], [-1, -1], [-1, -1, -1], [-1, -1, -1]], PROPOSED),
        ("TopKROIs", [[10, 4], [10]], {"max_rois": 5}),
        ("TopKROIs", [[-1, -1], [-1]], {"max_rois": 5}),
        ("PriorGridGenerator", [[3, 4], [1, 8, 5, 6], [1, 3, 40, 48]], CELLS),
        ("PriorGridGenerator", [[-1, 4], [1, 8, 5, 6], [1, 3, 40, 48]], {**CELLS, "flatten": False}),
        ("PriorGridGenerator", [[3, 4], [-1, -1, -1, 6], [1, 3, 40, 48]], {**CELLS, "h": 2, "w": 3}),
        ("ROIFeatureExtractor", [[10, 4], [1, 16, 20, 30], [1, 16, 10, 15]], POOLED),
        ("ROIFeatureExtractor", [[-1, 4], [1, -1, -1, -1], [-1, 16, 10, 15]], POOLED),
        ("DetectionOutput", [[20, 4], [20, 16], [20, 4], [1, 3]], DETECTED),
        ("DetectionOutput", [[-1, -1], [20, -1], [-1, 4], [-1, -1]], DETECTED),
    ],
)
def test_inferred_shapes(kind: Any, name: str, shapes: list[list[int]], attributes: dict[str, Any]) -> None:
    parameters = [ops.parameter(shape, kind) for shape in shapes]
    check_inference(node(name, parameters, attributes), parameters)


@pytest.mark.parametrize(
    ("name", "shapes", "attributes", "message"),
    [
        ("GenerateProposalsSingleImage", [[4], [90, 4], [12, 5, 6], [3, 5, 6]], PROPOSED, "dimensions"),
        ("GenerateProposalsSingleImage", [[3], [80, 4], [12, 5, 6], [3, 5, 6]], PROPOSED, "anchors"),
        ("TopKROIs", [[10, 4], [9]], {"max_rois": 5}, "regions"),
        ("TopKROIs", [[10, 4], [10]], {"max_rois": -5}, "max_rois"),
        ("PriorGridGenerator", [[3, 4], [1, 8, 5, 6], [2, 3, 40, 48]], CELLS, "images"),
        ("PriorGridGenerator", [[3, 4], [1, 8, 5, 6], [1, 3, 40, 48]], {**CELLS, "h": 6}, "h must lie"),
        ("ROIFeatureExtractor", [[10, 4], [1, 16, 20, 30], [1, 15, 10, 15]], POOLED, "channels"),
        ("ROIFeatureExtractor", [[10, 4], [1, 16, 20, 30]], {**POOLED, "pyramid_scales": []}, "scales"),
        ("DetectionOutput", [[20, 4], [20, 12], [20, 4], [1, 3]], DETECTED, "deltas"),
        ("DetectionOutput", [[20, 4], [20, 16], [20, 4], [1, 3]], {**DETECTED, "deltas_weights": [1.0]}, "weights"),
    ],
)
def test_contradictions(name: str, shapes: list[list[int]], attributes: dict[str, Any], message: str) -> None:
    types = [TensorType(element_types.f32, PartialShape(shape)) for shape in shapes]
    with pytest.raises(InferenceError, match=message):
        find_operation(PREFIX + name, 6)(**attributes).infer(types)


def test_grid_larger_than_the_layer() -> None:
    with pytest.raises(ExecutionError, match="larger"):
        find_operation(PREFIX + "PriorGridGenerator", 6)(h=9, w=3).evaluate(PRIORS, LAYER, SCENE)
