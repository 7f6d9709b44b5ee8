"""Position-sensitive pooling and ROIAlignRotated against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset15 as ops

from ir_runtime.errors import AttributeValueError, InferenceError
from ir_runtime.graph import element_types
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shapes import PartialShape
from tests.ir_runtime.peers import check_inference, check_peers, made
from tests.random_data import generator

RNG = generator(23)
IMAGES = RNG.standard_normal((2, 54, 9, 11)).astype(np.float32)
CORNERS = np.array(
    [
        [0, 0, 0, 10, 8],
        [1, 2, 1, 6, 7],
        [0, 1.3, 2.5, 1.4, 2.6],
        [1, -3, -2, 4, 5],
        [0, 5, 5, 20, 20],
        [1, 8, 6, 3, 2],
        [0, -9, -9, -5, -4],
    ],
    np.float32,
)
ENDED = np.concatenate([CORNERS[:2], [[-1, 0, 0, 0, 0]], CORNERS[2:4]]).astype(np.float32)


def parameters_of(feeds: list[np.ndarray]) -> list[Any]:
    """Of static shapes: OpenVINO's CPU plug-in takes no others here."""
    return [ops.parameter(list(value.shape), np.float32) for value in feeds]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("regions", [CORNERS, ENDED], ids=["all", "ended"])
def test_averages(size: int, scale: float, regions: np.ndarray) -> None:
    count = 54 // size**2
    data, places = parameters_of([IMAGES, regions])
    node = ops.psroi_pooling(data, places, count, size, scale, 0, 0, "average")
    check_peers([node], [data, places], [IMAGES, regions])


@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("bins", [(1, 1), (3, 2)])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_interpolated_values(size: int, bins: tuple[int, int], scale: float) -> None:
    count = 54 // (bins[0] * bins[1])
    parts = CORNERS / np.array([1, 12, 12, 12, 12], np.float32)
    data, places = parameters_of([IMAGES, parts])
    node = ops.psroi_pooling(data, places, count, size, scale, *bins, "bilinear")
    check_peers([node], [data, places], [IMAGES, parts])


OFFSETS = RNG.uniform(-1, 1, (7, 4, 2, 2)).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("bins", [(1, 1), (3, 2)])
@pytest.mark.parametrize("offsets", [None, OFFSETS, OFFSETS[:, :2]], ids=["none", "two classes", "one class"])
@pytest.mark.parametrize("size", [1, 3])
def test_deformable(scale: float, bins: tuple[int, int], offsets: np.ndarray | None, size: int) -> None:
    count = 54 // size**2
    feeds = [IMAGES, CORNERS] + ([] if offsets is None else [offsets])
    parameters = parameters_of(feeds)
    given = {"spatial_scale": scale, "group_size": size, "spatial_bins_x": bins[0], "spatial_bins_y": bins[1]}
    if offsets is not None:
        given |= {"part_size": 2, "trans_std": 0.3}
    node = made("DeformablePSROIPooling", 1, parameters, output_dim=count, **given)
    check_peers(list(node.outputs()), parameters, feeds)


def test_deformable_list_that_ends() -> None:
    parameters = [ops.parameter([2, 54, 9, 11], np.float32), ops.parameter([5, 5], np.float32)]
    node = made("DeformablePSROIPooling", 1, parameters, output_dim=6, spatial_scale=1.0, group_size=3)
    check_peers(list(node.outputs()), parameters, [IMAGES, ENDED])


TURNED = np.array(
    [
        [5, 4, 6, 4, 0],
        [5, 4, 6, 4, 0.7],
        [2, 3, 9, 2, -1.2],
        [10, 8, 8, 8, 2.5],
        [-4, -4, 2, 2, 1],
        [3, 3, 0.5, 0.3, 3],
    ],
    np.float32,
)


@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("ratio", [0, 1, 2])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_roi_align_rotated(clockwise: bool, ratio: int, scale: float) -> None:
    data, places = ops.parameter([-1, 4, -1, -1], np.float32), ops.parameter([-1, 5], np.float32)
    batches = ops.parameter([-1], np.int32)
    node = ops.roi_align_rotated(data, places, batches, 3, 4, ratio, scale, clockwise)
    feeds = [IMAGES[:, :4], TURNED, np.array([0, 1, 0, 1, 0, 1], np.int32)]
    check_peers([node], [data, places, batches], feeds)


def test_region_of_no_dimension() -> None:
    data, places = ops.parameter([2, 4, 9, 11], np.float32), ops.parameter([1, 5], np.float32)
    batches = ops.parameter([1], np.int64)
    for ratio in (0, 2):
        node = ops.roi_align_rotated(data, places, batches, 3, 4, ratio, 1.0, True)
        feeds = [IMAGES[:, :4], np.array([[3, 3, 0, 2, 0.5]], np.float32), np.array([0])]
        check_peers([node], [data, places, batches], feeds)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_inferred_shapes(kind: Any) -> None:
    data, places = ops.parameter([2, 54, 9, 11], kind), ops.parameter([7, 5], kind)
    open_data, open_places = ops.parameter([-1, -1, -1, -1], kind), ops.parameter([-1, -1], kind)
    batches, offsets = ops.parameter([-1], np.int32), ops.parameter([-1, 4, 2, 2], kind)
    for x, r in ((data, places), (open_data, open_places)):
        check_inference([ops.psroi_pooling(x, r, 6, 3, 1.0, 0, 0, "average")], [x, r])
        check_inference([ops.psroi_pooling(x, r, 9, 4, 1.0, 3, 2, "bilinear")], [x, r])
        node = made("DeformablePSROIPooling", 1, [x, r], output_dim=6, group_size=3, spatial_scale=1.0)
        check_inference([node], [x, r])
        node = made("DeformablePSROIPooling", 1, [x, r, offsets], output_dim=6, group_size=3, part_size=2)
        check_inference([node], [x, r, offsets])
        check_inference([ops.roi_align_rotated(x, r, batches, 3, 4, 2, 1.0, True)], [x, r, batches])


AVERAGE: dict[str, Any] = {"output_dim": 6, "group_size": 3, "spatial_scale": 1.0, "mode": "average"}


@pytest.mark.parametrize(
    ("name", "shapes", "attributes", "message"),
    [
        ("PSROIPooling", [[2, 50, 9, 11], [7, 5]], AVERAGE, "channels"),
        ("PSROIPooling", [[2, 54, 9, 11], [7, 4]], AVERAGE, "region"),
        ("PSROIPooling", [[2, 54, 9, 11], [7, 5]], {**AVERAGE, "group_size": 0}, "positive"),
        ("PSROIPooling", [[2, 54, 9, 11], [7, 5]], {**AVERAGE, "mode": "bilinear"}, "spatial_bins"),
        ("DeformablePSROIPooling", [[2, 54, 9, 11], [7, 5, 1]], {"output_dim": 54}, "2 dimensions"),
        ("DeformablePSROIPooling", [[2, 54, 9, 11], [7, 5], [6, 2, 1, 1]], {"output_dim": 54}, "offsets"),
        ("DeformablePSROIPooling", [[2, 54, 9, 11], [7, 5], [7, 10, 1, 1]], {"output_dim": 54}, "spread"),
        ("ROIAlignRotated", [[2, 54, 9, 11], [7, 4], [7]], {"pooled_h": 2, "pooled_w": 2}, "region"),
        ("ROIAlignRotated", [[2, 54, 9, 11], [7, 5], [6]], {"pooled_h": 2, "pooled_w": 2}, "batches"),
        ("ROIAlignRotated", [[2, 54, 9, 11], [7, 5], [7]], {"pooled_h": 2}, "positive"),
    ],
)
def test_contradictions(name: str, shapes: list[list[int]], attributes: dict[str, Any], message: str) -> None:
    types = [TensorType(element_types.f32, PartialShape(shape)) for shape in shapes]
    with pytest.raises(InferenceError, match=message):
        find_operation(name, 15)(**attributes).infer(types)


def test_wrong_mode() -> None:
    with pytest.raises(AttributeValueError, match="mode"):
        find_operation("PSROIPooling", 1)(**{**AVERAGE, "mode": "max"})
