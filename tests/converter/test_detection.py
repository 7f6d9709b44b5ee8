"""ONNX's NonMaxSuppression, RoiAlign and MaxRoiPool through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, run_onnxruntime, schema_types
from tests.random_data import generator

RNG = generator(7)


def random_boxes(batches: int, count: int, centered: bool) -> np.ndarray:
    first = RNG.uniform(0, 10, (batches, count, 2))
    sides = RNG.uniform(1, 6, (batches, count, 2))
    return np.concatenate([first, sides if centered else first + sides], -1).astype(np.float32)


BOXES = random_boxes(2, 30, False)
SCORES = RNG.uniform(-1, 1, (2, 3, 30)).astype(np.float32)
LIMIT, OVERLAP, LEAST = np.array([5]), np.array([0.4], np.float32), np.array([0.1], np.float32)
ORDER = ["boxes", "scores", "limit", "overlap", "least"]
DYNAMIC: Any = {"boxes": ["n", "k", 4], "scores": ["n", "c", "k"]}
OPEN: Any = {"boxes": ["n", "k", "four"], "scores": ["n", "c", "k"]}


def inputs(**options: Any) -> dict[str, Any]:
    return {"boxes": BOXES, "scores": SCORES, **options}


@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("centered", [0, 1])
@pytest.mark.parametrize("shapes", [None, DYNAMIC, OPEN], ids=str)
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


def test_no_boxes_to_select() -> None:
    feeds = {"boxes": np.empty((1, 0, 4), np.float32), "scores": np.empty((1, 2, 0), np.float32)}
    model = node_model("NonMaxSuppression", feeds, constants={"limit": LIMIT}, opset=11, shapes=DYNAMIC)
    check_node(model, feeds, [np.empty((0, 3), np.int64)])


def test_no_scores_above_the_threshold() -> None:
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


# --- regions ---

X = RNG.standard_normal((2, 3, 9, 11)).astype(np.float32)
ROIS = np.array(
    [[0, 0, 10, 8], [2, 1, 6, 7], [1.3, 2.2, 1.4, 2.3], [-3, -2, 4, 5], [5, 5, 20, 20], [8, 6, 3, 2], [3, 3, 3, 3]],
    np.float32,
)
BATCHES = np.array([0, 1, 0, 1, 0, 1, 0])
REGIONS: Any = {"x": X, "rois": ROIS, "batches": BATCHES}
OPEN: Any = {"x": ["n", None, "h", "w"], "rois": ["r", 4], "batches": ["r"]}


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("shapes", [None, OPEN], ids=str)
def test_average_of_regions(opset: int, ratio: int, scale: float, shapes: Any) -> None:
    attributes = {"output_height": 3, "output_width": 4, "sampling_ratio": ratio, "spatial_scale": scale}
    check_node(node_model("RoiAlign", REGIONS, attributes=attributes, opset=opset, shapes=shapes), REGIONS)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("shapes", [None, OPEN], ids=str)
def test_regions(mode: str, transformation: str, ratio: int, scale: float, shapes: Any) -> None:
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": transformation,
        "output_height": 3,
        "output_width": 4,
        "sampling_ratio": ratio,
        "spatial_scale": scale,
    }
    check_node(node_model("RoiAlign", REGIONS, attributes=attributes, opset=16, shapes=shapes), REGIONS)


@pytest.mark.parametrize("opset", [10, 16, 22])
@pytest.mark.parametrize("dtype", schema_types("RoiAlign", 22, "T1"), ids=str)
def test_types_of_regions(opset: int, dtype: np.dtype[Any]) -> None:
    if dtype.name == "bfloat16" and opset < 22:
        opset = 22
    small = {"x": X.astype(dtype), "rois": ROIS[:5].round().astype(dtype), "batches": BATCHES[:5]}
    wide = {**small, "x": small["x"].astype(np.float32), "rois": small["rois"].astype(np.float32)}
    attributes = {"output_height": 2, "output_width": 2, "sampling_ratio": 2}
    expected = run_onnxruntime(node_model("RoiAlign", wide, attributes=attributes, opset=min(opset, 16)), wide)[0]
    model = node_model("RoiAlign", small, attributes=attributes, opset=opset)
    check_node(model, small, [expected.astype(dtype)])


def test_one_bin() -> None:
    check_node(node_model("RoiAlign", REGIONS, opset=16), REGIONS)


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("shapes", [None, {"x": ["n", None, "h", "w"], "rois": ["r", 5]}], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_max_roi_pool(opset: int, scale: float, shapes: Any, dtype: str) -> None:
    rois = np.concatenate([BATCHES[:, None], ROIS], 1)
    attributes = {"pooled_shape": [3, 4], "spatial_scale": scale}
    wide = {"x": X.astype(dtype).astype(np.float32), "rois": rois.astype(dtype).astype(np.float32)}
    expected = run_onnxruntime(node_model("MaxRoiPool", wide, attributes=attributes, opset=1), wide)[0]
    feeds = {name: value.astype(dtype) for name, value in wide.items()}
    model = node_model("MaxRoiPool", feeds, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, feeds, [expected.astype(dtype)])


@pytest.mark.parametrize(
    ("changed", "attributes", "message"),
    [
        ({}, {"mode": "min"}, "mode must be avg or max"),
        ({}, {"mode": "max"}, "maxima over a number of points"),
        ({}, {"coordinate_transformation_mode": "pixel"}, "coordinate_transformation_mode must be"),
        ({}, {"output_height": 0}, "must be positive"),
        ({"rois": ROIS[:, :3]}, {}, "coordinates"),
        ({"batches": BATCHES[:3]}, {}, "number of regions"),
        ({"x": X[0]}, {}, "must have 4 dimensions"),
    ],
)
def test_contradictions_of_regions(changed: dict[str, Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("RoiAlign", {**REGIONS, **changed}, attributes=attributes, opset=16))
