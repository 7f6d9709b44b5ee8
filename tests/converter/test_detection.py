"""ONNX's NonMaxSuppression through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model

RNG = np.random.default_rng(7)


def random_boxes(batches: int, count: int, centered: bool) -> np.ndarray:
    first = RNG.uniform(0, 10, (batches, count, 2))
    sides = RNG.uniform(1, 6, (batches, count, 2))
    return np.concatenate([first, sides if centered else first + sides], -1).astype(np.float32)


BOXES = random_boxes(2, 30, False)
SCORES = RNG.uniform(-1, 1, (2, 3, 30)).astype(np.float32)
LIMIT, OVERLAP, LEAST = np.array([5]), np.array([0.4], np.float32), np.array([0.1], np.float32)
ORDER = ["boxes", "scores", "limit", "overlap", "least"]
DYNAMIC: Any = {"boxes": ["n", "k", 4], "scores": ["n", "c", "k"]}


def inputs(**options: Any) -> dict[str, Any]:
    return {"boxes": BOXES, "scores": SCORES, **options}


@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("shapes", [None, DYNAMIC], ids=str)
@pytest.mark.parametrize("constant", [True, False])
def test_selection(opset: int, centered: int, shapes: Any, constant: bool) -> None:
    feeds = {"boxes": random_boxes(2, 30, bool(centered)), "scores": SCORES}
    options = {"limit": LIMIT, "overlap": OVERLAP, "least": LEAST}
    inputs_, constants = (feeds, options) if constant else ({**feeds, **options}, {})
    model = node_model(
        "NonMaxSuppression",
        inputs_,
        constants=constants,
        attributes={"center_point_box": centered},
        opset=opset,
        shapes=shapes,
    )
    check_node(model, inputs_)


@pytest.mark.parametrize("limit", [0, 1, 30, 2**31 - 1, 2**31, 2**63 - 1])
@pytest.mark.parametrize("shapes", [None, DYNAMIC], ids=str)
def test_limits(limit: int, shapes: Any) -> None:
    constants = {"limit": np.array([limit]), "overlap": OVERLAP, "least": LEAST}
    check_node(node_model("NonMaxSuppression", inputs(), constants=constants, opset=11, shapes=shapes), inputs())


@pytest.mark.parametrize(
    ("order", "given"),
    [
        (["boxes", "scores"], []),
        (["boxes", "scores", "limit"], ["limit"]),
        (["boxes", "scores", "limit", "overlap"], ["limit", "overlap"]),
        (["boxes", "scores", "limit", "", "least"], ["limit", "least"]),
        (["boxes", "scores", "", "overlap", "least"], ["overlap", "least"]),
    ],
)
def test_inputs_left_out(order: list[str], given: list[str]) -> None:
    options = {"limit": LIMIT, "overlap": OVERLAP, "least": LEAST}
    constants = {name: options[name] for name in given}
    check_node(node_model("NonMaxSuppression", inputs(), constants=constants, order=order, opset=11), inputs())


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("threshold", [0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0])
def test_exact_threshold(threshold: float, constant: bool) -> None:
    """A box whose overlap equals the threshold stays; corners come in any order."""
    boxes = [[0, 0, 2, 2], [2, 2, 0, 0], [0, 1, 2, 3], [0, 0, 2, 1], [2, 0, 0, 0.5], [0, 0, 2, 1.5], [7, 7, 7, 7]]
    scores = np.linspace(0.9, 0.1, len(boxes))[None, None].astype(np.float32)
    feeds = {"boxes": np.array([boxes], np.float32), "scores": scores}
    options = {"limit": np.array([9]), "overlap": np.array([threshold], np.float32)}
    inputs_, constants = (feeds, options) if constant else ({**feeds, **options}, {})
    check_node(node_model("NonMaxSuppression", inputs_, constants=constants, opset=11), inputs_)


def test_nothing_to_select() -> None:
    feeds = {"boxes": np.empty((1, 0, 4), np.float32), "scores": np.empty((1, 2, 0), np.float32)}
    model = node_model("NonMaxSuppression", feeds, constants={"limit": LIMIT}, opset=11, shapes=DYNAMIC)
    check_node(model, feeds, [np.empty((0, 3), np.int64)])


def test_nothing_above_the_threshold() -> None:
    constants = {"limit": LIMIT, "overlap": OVERLAP, "least": np.array([2.0], np.float32)}
    check_node(node_model("NonMaxSuppression", inputs(), constants=constants, opset=11), inputs())


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({"scores": SCORES[:1]}, {}, "number of batches"),
        ({"scores": SCORES[..., :7]}, {}, "number of boxes"),
        ({"boxes": BOXES[..., :3]}, {}, "coordinates"),
        ({"boxes": BOXES[0]}, {}, "must have 3 dimensions"),
        ({"limit": np.array([1, 2])}, {}, "max_output_boxes_per_class must be a single number"),
        ({}, {"center_point_box": 2}, "center_point_box must be 0 or 1"),
    ],
)
def test_contradictions(changed: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    feeds = {**inputs(limit=LIMIT), **changed}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("NonMaxSuppression", feeds, attributes=attributes, opset=11))
