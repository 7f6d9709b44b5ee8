"""ONNX's Det through both engines, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(9)
SINGULAR = np.array([[[1, 2, 3], [2, 4, 6], [1, 1, 1]], [[0, 1, 0], [0, 0, 3], [2, 0, 0]]], np.float32)


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 2), (5, 5), (2, 3, 3), (2, 1, 4, 4), (0, 3, 3)], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_det(opset: int, shape: tuple[int, ...], dynamic: bool) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    shapes = {"x": [None] * (len(shape) - 1) + [shape[-1]]} if dynamic else None
    expected = np.asarray(np.linalg.det(x.astype(np.float64)), np.float32)
    check_node(node_model("Det", {"x": x}, opset=opset, shapes=shapes), {"x": x}, [expected])


def test_pivots_of_zero() -> None:
    check_node(node_model("Det", {"x": SINGULAR}, opset=11), {"x": SINGULAR}, [np.array([0, 6], np.float32)])


@pytest.mark.parametrize(
    ("x", "shape", "message"),
    [
        (SINGULAR[0, 0], None, "must be square"),
        (SINGULAR[:, :2], None, "must be square"),
        (SINGULAR, [None, None, None], "must be known while converting"),
    ],
)
def test_refusals(x: np.ndarray, shape: Any, message: str) -> None:
    shapes = None if shape is None else {"x": shape}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("Det", {"x": x}, opset=11, shapes=shapes))
