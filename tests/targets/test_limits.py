"""What OpenVINO's CPU plug-in computes otherwise and no rule replaces, as docs/limits.md lists it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.engines import assert_close, converted, node_model, run_numpy, run_onnxruntime, run_openvino

X = {"x": np.array([np.nan, -3, 0.5, 7], np.float32)}
LOW, HIGH = np.float32(-1), np.float32(1)
BEYOND = {"x": np.array([-np.inf, np.inf, 3e9, -2.5], np.float32)}
ROWS: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "NaN in Clamp": ("Clip", X, {"low": LOW, "high": HIGH}, {}),
    "NaN in ReLU": ("Relu", X, {}, {}),
    "NaN in Maximum": ("Max", X, {"low": LOW}, {}),
    "NaN in Minimum": ("Min", X, {"high": HIGH}, {}),
    "floats beyond int32 as int64": ("Cast", BEYOND, {}, {"to": onnx.TensorProto.INT64}),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [[4], ["n"]], ids=["static", "dynamic"])
@pytest.mark.parametrize("engine", ["numpy", "openvino"])
def test_what_limits_lists(name: str, shape: list[Any], engine: str, request: pytest.FixtureRequest) -> None:
    if engine == "openvino":
        reason = "where this passes, the plug-in is right: take the line from docs/limits.md"
        request.applymarker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    op_type, feeds, constants, attributes = ROWS[name]
    model = node_model(op_type, feeds, opset=13, constants=constants, attributes=attributes, shapes={"x": shape})
    run = run_numpy if engine == "numpy" else run_openvino
    assert_close(run(converted(model), feeds)[0], run_onnxruntime(model, feeds)[0])
