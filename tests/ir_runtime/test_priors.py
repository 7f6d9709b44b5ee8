"""The IR's prior boxes against OpenVINO."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset8

from ir_runtime.errors import InferenceError
from ir_runtime.operations import priors
from tests.ir_runtime.peers import check_peers

SIZES = [np.array([3, 4]), np.array([48, 64])]


@pytest.mark.parametrize("ops", [opset1, opset8], ids=["1", "8"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"min_size": [8.0, 16.0], "max_size": [20.0], "aspect_ratio": [2.0, 3.0], "flip": True, "offset": 0.5},
        {"min_size": [8.0], "aspect_ratio": [2.0, 1.0, 0.5], "step": 16.0, "offset": 0.5, "clip": True},
        {"min_size": [0.1, 0.2], "aspect_ratio": [2.0], "scale_all_sizes": False, "step": 0.25},
        {"fixed_size": [8.0], "density": [2.0], "offset": 0.5, "step": 16.0},
        {"fixed_size": [8.0, 30.0], "density": [2.0, 1.0], "aspect_ratio": [2.0], "fixed_ratio": [1.0, 2.0]},
    ],
)
@pytest.mark.parametrize("variance", [[], [0.2], [0.1, 0.2, 0.3, 0.4]])
def test_prior_box(ops: Any, attributes: dict[str, Any], variance: list[float]) -> None:
    layer, image = ops.parameter([2], np.int64), ops.parameter([2], np.int64)
    given = {"offset": 0.0, **attributes, "variance": variance}
    check_peers([ops.prior_box(layer, image, given)], [layer, image], SIZES)


@pytest.mark.parametrize(("greatest_first", "widths"), [(True, [8, 16, 12]), (False, [8, 12, 16])])
def test_order(greatest_first: bool, widths: list[float]) -> None:
    """By hand: OpenVINO's CPU plug-in knows the first order alone."""
    op = priors.PriorBox8(
        min_size=[8], max_size=[32], aspect_ratio=[2.25], min_max_aspect_ratios_order=greatest_first, variance=[0.1]
    )
    boxes = op.evaluate(np.array([1, 1]), np.array([10, 10]))[0].reshape(-1, 4)
    np.testing.assert_allclose((boxes[:, 2] - boxes[:, 0]) * 10, widths, rtol=1e-6)


def test_greatest_size_of_an_unscaled_layer() -> None:
    op = priors.PriorBox1(min_size=[0.1], max_size=[0.2], scale_all_sizes=False)
    with pytest.raises(InferenceError, match="max_size"):
        op.boxes()


@pytest.mark.parametrize("steps", [{}, {"step": 16.0}, {"step_widths": 12.0, "step_heights": 14.0}], ids=str)
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("variance", [[], [0.2], [0.1, 0.2, 0.3, 0.4]])
def test_clustered(steps: dict[str, float], clip: bool, variance: list[float]) -> None:
    layer, image = opset1.parameter([2], np.int64), opset1.parameter([2], np.int64)
    attributes = {"width": [8.0, 30.0], "height": [6.0, 40.0], "offset": 0.5, "clip": clip, "variance": variance}
    node = opset1.prior_box_clustered(layer, image, {**attributes, **steps})
    check_peers([node], [layer, image], SIZES)
