"""onnxruntime's operators of a few layers through both engines, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, opened
from tests.random_data import generator

R = generator(31)


def check(op_type: str, inputs: dict[str, np.ndarray], outputs: int = 1, **attributes: Any) -> None:
    model = node_model(op_type, inputs, opset=1, domain="com.microsoft", outputs=outputs, attributes=attributes)
    check_node(model, inputs)
    check_node(opened(model), inputs)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float64])
@pytest.mark.parametrize(("dim", "size", "step"), [(-1, 2, 1), (0, 3, 2), (1, 2, 3), (-2, 4, 1), (2, 6, 5)])
def test_unfold_tensor(dtype: Any, dim: int, size: int, step: int) -> None:
    x = (R.standard_normal((5, 4, 6)) * 9).astype(dtype)
    check("UnfoldTensor", {"x": x}, dim=dim, size=size, step=step)


@pytest.mark.parametrize("attributes", [{"size": 0}, {"size": 1, "step": 0}], ids=str)
def test_unfold_tensor_without_a_size(attributes: dict[str, Any]) -> None:
    model = node_model("UnfoldTensor", {"x": np.ones(3, "f4")}, opset=1, domain="com.microsoft", attributes=attributes)
    with pytest.raises(converter.InvalidModelError, match="size and step must be positive"):
        converter.convert_model(model)


def test_sample_op() -> None:
    check("SampleOp", {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})


def test_unique() -> None:
    check("Unique", {"x": np.array([2, 1, 1, 3, 4, 3], np.float32)}, 3)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [0, 1])
def test_grid_sample(mode: str, padding_mode: str, align_corners: int) -> None:
    x, grid = (R.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4, 5), (2, 3, 2, 2)))
    check("GridSample", {"x": x, "grid": grid}, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
