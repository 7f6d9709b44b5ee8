"""Layers that look like a normalization of ONNX, but whose constants add dimensions."""

from __future__ import annotations

import numpy as np
import pytest

import converter
from ir_runtime import compile_model
from ir_runtime.graph.model import Output
from tests.to_onnx.graphs import constant, layer, model, op, operators, parameter, run

X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)


def check_shape(x: Output, y: Output, name: str, expected: bool) -> None:
    ir = model([x], {"y": y})
    exported = converter.export_model(ir)
    assert (name in operators(exported)) == expected
    result = compile_model(ir)({"x": X})["y"]
    if expected:  # onnxruntime itself fuses the other layers to one that drops the dimensions of the epsilon
        np.testing.assert_allclose(run(exported, {"x": X})["y"], result, rtol=1e-4, atol=1e-5)
    assert len(exported.graph.output[0].type.tensor_type.shape.dim) == result.ndim


@pytest.mark.parametrize("part", ["scale", "bias"])
@pytest.mark.parametrize(("shape", "fused"), [((4,), True), ((1, 4), True), ((1,), True), ((1, 1, 4), False)])
def test_layer_normalization(shape: tuple[int, ...], fused: bool, part: str) -> None:
    x = parameter("x", None, 4)
    mvn = op("MVN", 6, normalize_variance=True, eps=1e-5, eps_mode="inside_sqrt")
    scale = np.full(shape if part == "scale" else (4,), 0.5)
    scaled = layer(op("Multiply", 1), layer(mvn, x, constant([-1], "i64"), name="mvn"), constant(scale), name="scaled")
    bias = np.full(shape if part == "bias" else (4,), 0.25)
    ir = model([x], {"y": layer(op("Add", 1), scaled, constant(bias), name="shifted")})
    exported = converter.export_model(ir)
    assert (len(operators(exported)) == 1) == fused
    found, expected = run(exported, {"x": X})["y"], compile_model(ir)({"x": X})["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize(("shape", "fused"), [((), True), ((1, 1), True), ((1, 1, 1), False)])
def test_rms_normalization(shape: tuple[int, ...], fused: bool, scaled: bool) -> None:
    x = parameter("x", None, 4)
    squares = layer(op("Power", 1), x, constant(2.0), name="squares")
    mean = layer(op("ReduceMean", 1, keep_dims=True), squares, constant([-1], "i64"), name="mean")
    root = layer(op("Sqrt", 1), layer(op("Add", 1), mean, constant(np.full(shape, 1e-5)), name="sum"), name="root")
    y = layer(op("Divide", 1), x, root, name="normalized")
    if scaled:
        y = layer(op("Multiply", 1), y, constant([1.0, 2, 3, 4]), name="scaled")
    check_shape(x, y, "RMSNormalization", fused)
