"""DetectionOutput against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset8 as ops

from ir_runtime.errors import AttributeValueError, InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.ir_runtime.peers import check_inference, check_peers, made
from tests.random_data import generator

RNG = generator(24)
PRIORS, CLASSES = 25, 4
FIRST = RNG.uniform(0, 0.7, (2, PRIORS, 2))
BOXES = np.concatenate([FIRST, FIRST + RNG.uniform(0.05, 0.4, (2, PRIORS, 2))], -1)
VARIANCES = RNG.uniform(0.05, 0.3, (2, PRIORS, 4))
SCORES = RNG.uniform(0, 1, (2, PRIORS * CLASSES)).astype(np.float32)
CORNER, CENTER = "caffe.PriorBoxParameter.CORNER", "caffe.PriorBoxParameter.CENTER_SIZE"
PLAIN: dict[str, Any] = {
    "keep_top_k": [15],
    "nms_threshold": 0.4,
    "confidence_threshold": 0.2,
    "code_type": CORNER,
    "share_location": True,
    "normalized": True,
}


def priors_of(normalized: bool, encoded: bool, images: int, ends: int = PRIORS) -> np.ndarray:
    """The third input: boxes and perhaps their variances, in pixels of 60 by 40 after a number if not normalized."""
    boxes = BOXES[:images]
    if not normalized:
        numbers = np.zeros((images, PRIORS, 1))
        numbers[:, ends:] = -1
        boxes = np.concatenate([numbers, boxes * np.array([60, 40, 60, 40])], -1)
    rows = boxes.reshape(images, 1, -1)
    if not encoded:
        variances = np.zeros_like(rows)
        variances[:, 0, : 4 * PRIORS] = VARIANCES[:images].reshape(images, -1)
        rows = np.concatenate([rows, variances], 1)
    return rows.astype(np.float32)


def moves_of(share: bool, scale: float = 1.0) -> np.ndarray:
    count = 1 if share else CLASSES
    return (np.random.default_rng(25).standard_normal((2, PRIORS * count * 4)) * scale * 0.3).astype(np.float32)


def check(revision: int, attributes: dict[str, Any], feeds: list[np.ndarray]) -> None:
    given = {**PLAIN, **attributes, **({"num_classes": CLASSES} if revision == 1 else {})}
    parameters = [ops.parameter(list(value.shape), np.float32) for value in feeds]
    check_peers([made("DetectionOutput", revision, parameters, **given)], parameters, feeds)


@pytest.mark.parametrize("revision", [1, 8])
@pytest.mark.parametrize("code", [CORNER, CENTER])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("encoded", [True, False])
@pytest.mark.parametrize("images", [1, 2])
def test_moves(revision: int, code: str, share: bool, encoded: bool, images: int) -> None:
    attributes = {"code_type": code, "share_location": share, "variance_encoded_in_target": encoded}
    feeds = [moves_of(share, 0.3 if encoded else 1.0), SCORES, priors_of(True, encoded, images)]
    check(revision, attributes, feeds)


@pytest.mark.parametrize("style", [False, True], ids=["all classes", "best class"])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize(
    "attributes",
    [
        {"keep_top_k": [6]},
        {"keep_top_k": [100]},
        {"keep_top_k": [-1], "top_k": 7},
        {"keep_top_k": [-1]},
        {"keep_top_k": [8], "top_k": 12, "confidence_threshold": 0.7},
        {"nms_threshold": 0.05, "clip_before_nms": True},
        {"nms_threshold": 0.8, "clip_after_nms": True},
        {"confidence_threshold": 2.0},
    ],
    ids=str,
)
def test_selection(style: bool, share: bool, attributes: dict[str, Any]) -> None:
    given = {**attributes, "decrease_label_id": style, "share_location": share}
    check(8, given, [moves_of(share), SCORES, priors_of(True, False, 1)])


@pytest.mark.parametrize("background", [-1, 0, 2])
@pytest.mark.parametrize("share", [True, False])
def test_background(background: int, share: bool) -> None:
    attributes = {"background_label_id": background, "share_location": share, "keep_top_k": [-1]}
    check(8, attributes, [moves_of(share), SCORES, priors_of(True, False, 1)])


@pytest.mark.parametrize("code", [CORNER, CENTER])
@pytest.mark.parametrize("encoded", [True, False])
@pytest.mark.parametrize("ends", [PRIORS, 14])
@pytest.mark.parametrize("style", [False, True])
def test_pixels(code: str, encoded: bool, ends: int, style: bool) -> None:
    attributes = {
        "normalized": False,
        "input_width": 60,
        "input_height": 40,
        "code_type": code,
        "variance_encoded_in_target": encoded,
        "decrease_label_id": style,
    }
    check(8, attributes, [moves_of(True, 0.3), SCORES, priors_of(False, encoded, 2, ends)])


@pytest.mark.parametrize("revision", [1, 8])
@pytest.mark.parametrize("code", [CORNER, CENTER])
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("style", [False, True])
def test_earlier_stage(revision: int, code: str, share: bool, normalized: bool, style: bool) -> None:
    attributes = {
        "objectness_score": 0.4,
        "code_type": code,
        "share_location": share,
        "normalized": normalized,
        "decrease_label_id": style,
    }
    objects = np.random.default_rng(26).uniform(0, 1, (2, PRIORS * 2)).astype(np.float32)
    feeds = [moves_of(share), SCORES, priors_of(normalized, False, 2), objects, moves_of(share, 0.5)[:, ::-1].copy()]
    check(revision, attributes, feeds)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(
    "limits", [{"keep_top_k": [6]}, {"keep_top_k": [-1], "top_k": 7}, {"keep_top_k": [-1]}], ids=str
)
@pytest.mark.parametrize("revision", [1, 8])
def test_inferred_shapes(kind: Any, limits: dict[str, Any], revision: int) -> None:
    given = {**PLAIN, **limits, **({"num_classes": CLASSES} if revision == 1 else {})}
    for shapes in (
        [[2, 100], [2, 100], [1, 2, 100]],
        [[-1, 100], [-1, 100], [-1, 2, 100]],
        [[2, -1], [2, 100], [2, 2, 100]],
        [[2, 100], [2, -1], [2, 2, -1]],
        [[-1, -1], [-1, -1], [-1, -1, -1]],
        [[2, 100], [2, 100], [1, 2, 100], [2, 50], [2, 100]],
        [[2, 100], [2, -1], [1, 2, -1], [2, 50], [2, -1]],
    ):
        parameters = [ops.parameter(shape, kind) for shape in shapes]
        check_inference([made("DetectionOutput", revision, parameters, **given)], parameters, exact=False)
    parameters = [ops.parameter(shape, kind) for shape in ([2, 400], [2, 100], [1, 2, 100])]
    check_inference([made("DetectionOutput", revision, parameters, **{**given, "share_location": False})], parameters)


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        ([[2, 100], [3, 100], [1, 2, 100]], {}, "number of images"),
        ([[2, 100], [2, 100], [3, 2, 100]], {}, "lists of priors"),
        ([[2, 100], [2, 100], [1, 1, 100]], {}, "rows of the priors"),
        ([[2, 96], [2, 100], [1, 2, 100]], {}, "priors and of moves"),
        ([[2, 100], [2, 90], [1, 2, 100]], {}, "the scores have 90 values"),
        ([[2, 100], [2, 100], [1, 2, 100]], {"keep_top_k": []}, "keep_top_k"),
        ([[2, 100], [2, 100], [1, 2, 100], [2, 50]], {}, "come together"),
    ],
)
def test_contradictions(shapes: list[list[int]], attributes: dict[str, Any], message: str) -> None:
    types = [TensorType(element_types.f32, PartialShape(shape)) for shape in shapes]
    with pytest.raises(InferenceError, match=message):
        find_operation("DetectionOutput", 8)(**{**PLAIN, **attributes}).infer(types)


def test_wrong_code() -> None:
    with pytest.raises(AttributeValueError, match="code_type"):
        find_operation("DetectionOutput", 8)(**{**PLAIN, "code_type": "caffe.PriorBoxParameter.OTHER"})
