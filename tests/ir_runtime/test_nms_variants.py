"""MatrixNms, MulticlassNms and NMSRotated against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset8, opset9, opset13

from ir_runtime.errors import AttributeValueError, ExecutionError, InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.ir_runtime.peers import check_inference, check_peers
from tests.random_data import generator

RNG = generator(21)
FIRST = RNG.uniform(0, 8, (3, 30, 2))
BOXES = np.concatenate([FIRST, FIRST + RNG.uniform(0.5, 6, (3, 30, 2))], -1).astype(np.float32)
BOXES[0, 3] = BOXES[0, 2]  # twice the same box
BOXES[0, 5, 2:] = BOXES[0, 5, :2]  # no area
SCORES = RNG.uniform(0, 1, (3, 4, 30)).astype(np.float32)

SORTED = [
    {"sort_result_type": kind, "sort_result_across_batch": across}
    for kind in ("none", "score", "classid")
    for across in (False, True)
]
LIMITS: list[dict[str, Any]] = [
    {},
    {"nms_top_k": 6, "score_threshold": 0.3},
    {"keep_top_k": 5, "background_class": 1},
    {"nms_top_k": 9, "keep_top_k": 11, "normalized": False, "output_type": "i32"},
]


@pytest.mark.parametrize("order", SORTED, ids=str)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("decay", ["linear", "gaussian"])
def test_matrix_nms(order: dict[str, Any], limits: dict[str, Any], decay: str) -> None:
    boxes, scores = opset8.parameter([3, 30, 4], np.float32), opset8.parameter([3, 4, 30], np.float32)
    node = opset8.matrix_nms(boxes, scores, decay_function=decay, **order, **limits)
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])


@pytest.mark.parametrize("post", [0.2, 0.6, 0.9])
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_matrix_nms_thresholds(post: float, sigma: float) -> None:
    boxes, scores = opset8.parameter([-1, -1, 4], np.float32), opset8.parameter([-1, -1, -1], np.float32)
    node = opset8.matrix_nms(boxes, scores, decay_function="gaussian", gaussian_sigma=sigma, post_threshold=post)
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])


@pytest.mark.parametrize("order", SORTED, ids=str)
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("ops", [opset8, opset9], ids=["8", "9"])
def test_multiclass_nms(ops: Any, order: dict[str, Any], limits: dict[str, Any]) -> None:
    boxes, scores = ops.parameter([3, 30, 4], np.float32), ops.parameter([3, 4, 30], np.float32)
    node = ops.multiclass_nms(boxes, scores, iou_threshold=0.2, **order, **limits)
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])


@pytest.mark.parametrize("threshold", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("eta", [0.0, 0.7, 0.95, 1.0])
def test_threshold_that_shrinks(threshold: float, eta: float) -> None:
    """OpenVINO holds a box against those taken with the threshold as it is when the box's turn comes; so do we.

    By the specification's steps it would be the threshold of when each of those was taken.
    """
    boxes, scores = opset9.parameter([-1, -1, 4], np.float32), opset9.parameter([-1, -1, -1], np.float32)
    node = opset9.multiclass_nms(boxes, scores, iou_threshold=threshold, nms_eta=eta)
    check_peers(list(node.outputs()), [boxes, scores], [BOXES, SCORES])


@pytest.mark.parametrize("order", SORTED, ids=str)
@pytest.mark.parametrize("limits", LIMITS[:3], ids=str)
@pytest.mark.parametrize("counts", [[10, 0, 20], [30], [5, 5, 5, 5]], ids=str)
def test_multiclass_nms_of_images(order: dict[str, Any], limits: dict[str, Any], counts: list[int]) -> None:
    boxes, scores = opset9.parameter([3, -1, 4], np.float32), opset9.parameter([3, -1], np.float32)
    images = opset9.parameter([-1], np.int64)
    node = opset9.multiclass_nms(boxes, scores, images, iou_threshold=0.3, **order, **limits)
    check_peers(list(node.outputs()), [boxes, scores, images], [BOXES, SCORES[:, 0], np.array(counts)])


def test_half_precision() -> None:
    boxes, scores = opset8.parameter([3, 30, 4], np.float16), opset8.parameter([3, 4, 30], np.float16)
    feeds = [BOXES.astype(np.float16), SCORES.astype(np.float16)]
    node = opset8.multiclass_nms(boxes, scores, iou_threshold=0.3)
    check_peers(list(node.outputs()), [boxes, scores], feeds, rtol=1e-3)


@pytest.mark.parametrize(("name", "revision"), [("MatrixNms", 8), ("MulticlassNms", 9)])
def test_nothing_taken(name: str, revision: int) -> None:
    """By the specification: OpenVINO fails, or loses the numbers of rows where there are no boxes to look at."""
    op = find_operation(name, revision)()
    for count in (0, 5):
        scores = np.full((2, 3, count), -1, np.float32)
        rows, indices, counts = op.evaluate(np.zeros((2, count, 4), np.float32), scores)
        assert rows.shape == (0, 6)
        assert indices.shape == (0, 1)
        assert counts.tolist() == [0, 0]


def test_no_boxes_of_a_class() -> None:
    """The limit 0 is one, and only -1 is none: OpenVINO's MulticlassNms of few boxes takes nothing, either."""
    rows, indices, counts = find_operation("MulticlassNms", 8)(nms_top_k=0).evaluate(BOXES, SCORES)
    assert [rows.shape, indices.shape, counts.tolist()] == [(0, 6), (0, 1), [0, 0, 0]]


CLASSES: list[dict[str, int]] = [{}, {"nms_top_k": 5}, {"keep_top_k": 7}, {"nms_top_k": 5, "keep_top_k": 40}]


@pytest.mark.parametrize("attributes", CLASSES, ids=str)
@pytest.mark.parametrize("build", [opset8.matrix_nms, opset8.multiclass_nms, opset9.multiclass_nms])
def test_inferred_shapes(build: Any, attributes: dict[str, int]) -> None:
    boxes, scores = opset9.parameter([2, 20, 4], np.float16), opset9.parameter([2, 3, 20], np.float16)
    check_inference(list(build(boxes, scores, output_type="i32", **attributes).outputs()), [boxes, scores])
    for shapes in ([[2, -1, 4], [-1, 3, -1]], [[-1, -1, -1], [-1, -1, -1]], [None, [2, 3, 20]], [None, None]):
        made = [openvino.PartialShape.dynamic() if shape is None else openvino.PartialShape(shape) for shape in shapes]
        parameters = [opset9.parameter(shape, np.float32) for shape in made]
        check_inference(list(build(*parameters, **attributes).outputs()), parameters, exact=False)


@pytest.mark.parametrize("attributes", CLASSES, ids=str)
def test_inferred_shapes_of_images(attributes: dict[str, int]) -> None:
    boxes, scores = opset9.parameter([3, 20, 4], np.float32), opset9.parameter([3, 20], np.float32)
    images = opset9.parameter([2], np.int32)
    node = opset9.multiclass_nms(boxes, scores, images, **attributes)
    check_inference(list(node.outputs()), [boxes, scores, images])


TURNED = np.concatenate(
    [RNG.uniform(0, 6, (2, 25, 2)), RNG.uniform(0.5, 5, (2, 25, 2)), RNG.uniform(-4, 4, (2, 25, 1))], -1
).astype(np.float32)
TURNED[0, 3] = TURNED[0, 2]
TURNED[0, 4, :4] = TURNED[0, 5, :4]
TURNED[0, 4, 4] = TURNED[0, 5, 4] + np.float32(np.pi / 2)
TURNED[1, 3, 2] = 0  # no area
TURNED[:, 10:15, 4] = 0


@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("limits", [(0, 0.3, 0.0), (5, 0.1, 0.2), (25, 0.0, 0.0), (25, 0.4, 0.1), (25, 0.7, 0.5)])
def test_nms_rotated(clockwise: bool, descending: bool, limits: tuple[int, float, float]) -> None:
    boxes, scores = opset13.parameter([-1, -1, 5], np.float32), opset13.parameter([2, -1, -1], np.float32)
    given = [opset13.constant(np.array(value, kind)) for value, kind in zip(limits, (np.int64, np.float32, np.float32))]
    node = opset13.nms_rotated(
        boxes, scores, *given, sort_result_descending=descending, output_type="i32", clockwise=clockwise
    )
    check_peers(list(node.outputs()), [boxes, scores], [TURNED, SCORES[:2, :, :25]])


def test_common_areas_by_hand() -> None:
    """Squares of side 2: one turned by an eighth is cut to an octagon; one within; one that only touches."""
    op = find_operation("NMSRotated", 13)(sort_result_descending=False)
    boxes = np.array([[0, 0, 2, 2, 0], [0, 0, 2, 2, np.pi / 4], [0, 0, 1, 1, 1], [2, 0, 2, 2, 0]], np.float32)
    octagon = 8 * (np.sqrt(2) - 1)
    shares = op.shares(boxes)(0, np.arange(4))  # type: ignore[attr-defined]
    np.testing.assert_allclose(shares, [1, octagon / (8 - octagon), 0.25, 0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("limit", [0, 5, 50])
def test_inferred_shapes_of_rotated_boxes(limit: int) -> None:
    boxes, scores = opset13.parameter([2, 20, 5], np.float16), opset13.parameter([2, 3, 20], np.float16)
    given = [opset13.constant(value) for value in (np.int64(limit), np.float32(0.3), np.float32(0.1))]
    check_inference(list(opset13.nms_rotated(boxes, scores, *given).outputs()), [boxes, scores])
    open_boxes, open_scores = opset13.parameter([2, -1, 5], np.float32), opset13.parameter([-1, 3, -1], np.float32)
    node = opset13.nms_rotated(open_boxes, open_scores, *given, output_type="i32")
    check_inference(list(node.outputs()), [open_boxes, open_scores], exact=False)


def inferred(name: str, revision: int, shapes: list[list[int]], **attributes: Any) -> Any:
    """What is inferred for an operation of constants of those shapes."""
    made = [TensorType(element_types.f32, PartialShape(shape)) for shape in shapes]
    return find_operation(name, revision)(**attributes).infer(made)


@pytest.mark.parametrize(
    ("name", "revision", "shapes", "attributes", "message"),
    [
        ("MatrixNms", 8, [[2, 20, 4], [3, 3, 20]], {}, "number of images"),
        ("MatrixNms", 8, [[2, 20, 5], [2, 3, 20]], {}, "coordinates"),
        ("MatrixNms", 8, [[2, 20, 4], [2, 3, 20]], {"nms_top_k": -2}, "nms_top_k"),
        ("MulticlassNms", 8, [[2, 20, 4], [2, 3, 21]], {}, "number of boxes"),
        ("MulticlassNms", 8, [[2, 20, 4], [2, 3, 20]], {"nms_eta": 1.5}, "nms_eta"),
        ("MulticlassNms", 9, [[2, 20, 4], [2, 3, 20], [4]], {}, "2 dimensions"),
        ("MulticlassNms", 9, [[2, 20, 4], [3, 20], [4]], {}, "number of classes"),
        ("NMSRotated", 13, [[2, 20, 4], [2, 3, 20], [], [], []], {}, "coordinates"),
        ("NMSRotated", 13, [[2, 20, 5], [2, 3, 20], [2], [], []], {}, "limit"),
    ],
)
def test_contradictions(
    name: str, revision: int, shapes: list[list[int]], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InferenceError, match=message):
        inferred(name, revision, shapes, **attributes)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("MatrixNms", {"decay_function": "cubic"}), ("MulticlassNms", {"sort_result_type": "box"})],
)
def test_wrong_attributes(name: str, attributes: dict[str, Any]) -> None:
    with pytest.raises(AttributeValueError):
        find_operation(name, 9)(**attributes)


def test_more_boxes_than_given() -> None:
    op = find_operation("MulticlassNms", 9)()
    with pytest.raises(ExecutionError, match="only 4"):
        op.evaluate(np.zeros((2, 4, 4), np.float32), np.zeros((2, 4), np.float32), np.array([3, 2]))
