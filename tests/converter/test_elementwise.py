"""ONNX's element-wise operators through both engines, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engines import check_node, node_model

FLOATS = np.array([[-2.5, -1.0, -0.0], [0.25, 1.0, 3.75]], np.float32)


@pytest.mark.parametrize(
    ("op_type", "opset", "x"),
    [
        ("Erf", 9, FLOATS),
        ("Erf", 13, FLOATS),
    ],
)
def test_unary(op_type: str, opset: int, x: np.ndarray) -> None:
    check_node(node_model(op_type, {"x": x}, opset=opset), {"x": x})
