"""Proposal and GenerateProposals against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset9 as ops

from ir_runtime.errors import ExecutionError, InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.engines import run_openvino
from tests.ir_runtime.peers import check_inference, check_peers, made, written_by_openvino
from tests.random_data import generator

RNG = generator(22)
SCORES = RNG.uniform(0.1, 1, (2, 12, 5, 7)).astype(np.float32)
DELTAS = (RNG.standard_normal((2, 24, 5, 7)) * 0.3).astype(np.float32)
ATTRIBUTES: dict[str, Any] = {
    "base_size": 16,
    "pre_nms_topn": 100,
    "post_nms_topn": 20,
    "nms_thresh": 0.5,
    "feat_stride": 8,
    "min_size": 4,
    "ratio": [0.5, 1.0, 2.5],
    "scale": [0.75, 2.0],
}


@pytest.mark.parametrize("framework", ["", "tensorflow"])
@pytest.mark.parametrize("revision", [1, 4])
@pytest.mark.parametrize("image", [[40, 56, 1], [40, 56, 0.5, 3]], ids=str)
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"clip_before_nms": False, "clip_after_nms": True},
        {"clip_before_nms": False, "normalize": True, "pre_nms_topn": 30},
        {"normalize": True, "nms_thresh": 0.7},
        {"box_size_scale": 2.0, "box_coordinate_scale": 5.0},
        {"nms_thresh": 0.3, "base_size": 15, "post_nms_topn": 10},
    ],
    ids=str,
)
def test_proposal(framework: str, revision: int, image: list[float], attributes: dict[str, Any]) -> None:
    dimensions = np.array(image, np.float32)
    shapes = ([2, 12, -1, -1], [2, 24, 5, 7], list(dimensions.shape))
    parameters = [ops.parameter(shape, np.float32) for shape in shapes]
    given = {**ATTRIBUTES, **attributes, "framework": framework}
    node = made("Proposal", revision, parameters, **given)
    check_peers(list(node.outputs()), parameters, [SCORES, DELTAS, dimensions], atol=1e-4)


@pytest.mark.parametrize("framework", ["", "tensorflow"])
def test_rows_that_end_early(framework: str) -> None:
    """Fewer boxes than rows: OpenVINO leaves the scores of such rows undefined, so boxes alone are compared."""
    dimensions = np.array([40, 56, 1], np.float32)
    parameters = [ops.parameter(shape, np.float32) for shape in ([2, 12, 5, 7], [2, 24, 5, 7], [3])]
    given = {**ATTRIBUTES, "post_nms_topn": 60, "nms_thresh": 0.1, "framework": framework}
    node = made("Proposal", 4, parameters, **given)
    check_peers([node.output(0)], parameters, [SCORES, DELTAS, dimensions], atol=1e-4)
    rows, values = find_operation("Proposal", 4)(**given).evaluate(SCORES, DELTAS, dimensions)
    count = int(np.flatnonzero(rows[:60, 0] == -1)[0])
    assert count < 59
    assert (values[:count] > 0).all()
    assert not values[count:60].any()


@pytest.mark.parametrize("framework", ["", "tensorflow"])
def test_small_boxes(framework: str) -> None:
    """By the specification they go; OpenVINO gives them a score of 0 instead, so the others are compared."""
    dimensions = np.array([40, 56, 1], np.float32)
    given = {**ATTRIBUTES, "min_size": 20, "pre_nms_topn": 420, "post_nms_topn": 60, "framework": framework}
    parameters = [ops.parameter(shape, np.float32) for shape in ([2, 12, 5, 7], [2, 24, 5, 7], [3])]
    written = written_by_openvino(list(made("Proposal", 4, parameters, **given).outputs()), parameters)
    expected = run_openvino(written, {0: SCORES, 1: DELTAS, 2: dimensions})
    rows, values = find_operation("Proposal", 4)(**given).evaluate(SCORES, DELTAS, dimensions)
    for image in (slice(0, 60), slice(60, 120)):
        count = int(np.flatnonzero(rows[image, 0] == -1)[0])
        assert (expected[1][image][:count] > 0).all()
        assert not expected[1][image][count:].any()
        np.testing.assert_allclose(rows[image][:count], expected[0][image][:count], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(values[image][:count], expected[1][image][:count])


@pytest.mark.parametrize("revision", [1, 4])
@pytest.mark.parametrize(
    "shapes",
    [
        ([2, 8, 5, 6], [2, 16, 5, 6], [3]),
        ([-1, 8, -1, -1], [-1, 16, 5, 6], [-1]),
        ([2, -1, -1, -1], [-1, 16, 5, 6], [4]),
    ],
)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_inferred_shapes_of_proposal(revision: int, shapes: tuple[list[int], ...], kind: Any) -> None:
    parameters = [ops.parameter(shape, kind) for shape in shapes]
    node = made("Proposal", revision, parameters, **ATTRIBUTES)
    check_inference(list(node.outputs()), parameters)


ANCHORS = np.concatenate([np.zeros((5, 7, 3, 2)), RNG.uniform(4, 20, (5, 7, 3, 2))], -1)
ANCHORS += np.tile(np.stack(np.meshgrid(np.arange(7) * 8, np.arange(5) * 8), -1), 2)[:, :, None]
GENERATED: dict[str, Any] = {"min_size": 3.0, "nms_threshold": 0.5, "pre_nms_count": 80, "post_nms_count": 25}


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("image", [[40, 56, 1], [40, 56, 2, 4]], ids=str)
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pre_nms_count": 20, "roi_num_type": "i32"},
        {"nms_threshold": 0.8, "pre_nms_count": 1000, "post_nms_count": 500},
        {"min_size": 9.0},
    ],
    ids=str,
)
def test_generate_proposals(normalized: bool, image: list[float], attributes: dict[str, Any]) -> None:
    dimensions = np.array([image, image], np.float32)
    feeds = [dimensions, ANCHORS.astype(np.float32), DELTAS[:, :12] * 2, SCORES[:, :3]]
    parameters = [ops.parameter([-1] * np.ndim(value), np.float32) for value in feeds]
    node = ops.generate_proposals(*parameters, normalized=normalized, **{**GENERATED, **attributes})
    check_peers(list(node.outputs()), parameters, feeds, atol=1e-4)


def test_threshold_that_shrinks() -> None:
    """By hand: OpenVINO takes an eta of 1 alone.

    Four boxes of width 10 in a row: each overlaps the one before by 8 of 12, then 7 of 13, then 1 of 19.
    """
    op = find_operation("GenerateProposals", 9)
    anchors = np.array([[0, 0, 10, 10], [2, 0, 12, 10], [5, 0, 15, 10], [14, 0, 24, 10]], np.float32)
    feeds = [
        np.array([[100, 100, 1]], np.float32),
        anchors.reshape(1, 1, 4, 4),
        np.zeros((1, 16, 1, 1), np.float32),
        np.array([0.9, 0.8, 0.7, 0.6], np.float32).reshape(1, 4, 1, 1),
    ]
    counts = {"post_nms_count": 4, "pre_nms_count": 4}
    for eta, left in ((1.0, [0.9, 0.8, 0.7, 0.6]), (0.9, [0.9, 0.7, 0.6])):
        _, values, number = op(nms_threshold=0.7, nms_eta=eta, **counts).evaluate(*feeds)
        np.testing.assert_allclose(values, left)
        assert number.tolist() == [len(left)]


@pytest.mark.parametrize(
    "shapes",
    [
        ([2, 3], [5, 6, 3, 4], [2, 12, 5, 6], [2, 3, 5, 6]),
        ([-1, 4], [5, 6, 3, 4], [-1, 12, 5, 6], [-1, 3, 5, 6]),
        ([2, -1], [-1, -1, -1, 4], [-1, -1, -1, -1], [-1, -1, -1, -1]),
    ],
)
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_inferred_shapes_of_generate_proposals(shapes: tuple[list[int], ...], kind: Any) -> None:
    parameters = [ops.parameter(shape, kind) for shape in shapes]
    node = ops.generate_proposals(*parameters, **GENERATED, roi_num_type="i32")
    check_inference(list(node.outputs()), parameters)


@pytest.mark.parametrize(
    ("name", "shapes", "attributes", "message"),
    [
        ("Proposal", [[2, 8, 5, 6], [2, 15, 5, 6], [3]], ATTRIBUTES, "number of deltas"),
        ("Proposal", [[2, 8, 5, 6], [3, 16, 5, 6], [3]], ATTRIBUTES, "number of images"),
        ("Proposal", [[2, 8, 5, 6], [2, 16, 5, 6], [2]], ATTRIBUTES, "three or four"),
        ("Proposal", [[2, 8, 5, 6], [2, 16, 5, 6], [3]], {**ATTRIBUTES, "framework": "other"}, "framework"),
        ("GenerateProposals", [[2, 3], [5, 6, 3, 5], [2, 12, 5, 6], [2, 3, 5, 6]], GENERATED, "coordinates"),
        ("GenerateProposals", [[2, 3], [5, 6, 3, 4], [2, 12, 5, 7], [2, 3, 5, 6]], GENERATED, "width"),
        ("GenerateProposals", [[2, 3], [5, 6, 3, 4], [2, 9, 5, 6], [2, 3, 5, 6]], GENERATED, "number of deltas"),
        (
            "GenerateProposals",
            [[2, 3], [5, 6, 3, 4], [2, 12, 5, 6], [2, 3, 5, 6]],
            {**GENERATED, "post_nms_count": 0},
            "positive",
        ),
    ],
)
def test_contradictions(name: str, shapes: list[list[int]], attributes: dict[str, Any], message: str) -> None:
    types = [TensorType(element_types.f32, PartialShape(shape)) for shape in shapes]
    with pytest.raises(InferenceError, match=message):
        find_operation(name, 9)(**attributes).infer(types)


@pytest.mark.parametrize(
    ("dimensions", "ratio", "message"),
    [([0, 56, 1], [1.0], "positive"), ([40, 56, 1], [1.0, 2.0], "anchors")],
)
def test_wrong_values(dimensions: list[float], ratio: list[float], message: str) -> None:
    op = find_operation("Proposal", 1)(**{**ATTRIBUTES, "ratio": ratio, "scale": [1.0]})
    with pytest.raises(ExecutionError, match=message):
        op.evaluate(SCORES[:, :2], DELTAS[:, :4], np.array(dimensions, np.float32))
