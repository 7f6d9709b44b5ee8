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


ROIS = [[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.1, 1.2, 0.4], [0.5, 0.5, 0.5, 0.5], [0.9, 0.8, 0.1, 0.2]]


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (2, 5), (6, 1)], ids=str)
def test_crop_and_resize(mode: str, size: tuple[int, int]) -> None:
    inputs = {
        "x": R.standard_normal((2, 3, 6, 7)).astype(np.float32),
        "rois": np.array(ROIS, np.float32),
        "images": np.array([0, 1, 1, 0, 1], np.int32),
        "size": np.array(size, np.int32),
    }
    check("CropAndResize", inputs, mode=mode, extrapolation_value=0.5)


def test_matrix_products_of_16_bits() -> None:
    a, b = (R.integers(-3000, 3000, shape).astype(np.int16) for shape in ((2, 3, 4), (2, 4, 5)))
    check("MatMulInteger16", {"a": a, "b": b})


def test_transposed_convolution_with_pads_as_an_input() -> None:
    x = {"x": R.standard_normal((1, 2, 5, 5)).astype(np.float32)}
    constants = {
        name: R.standard_normal(shape).astype(np.float32) for name, shape in (("w", (2, 3, 3, 3)), ("b", (3,)))
    }
    constants["pads"] = np.array([1, 1, 1, 0], np.int64)
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "constants": constants}
    order, attributes = ["x", "w", "pads", "b"], {"strides": [2, 2]}
    check_node(node_model("ConvTransposeWithDynamicPads", x, **options, order=order, attributes=attributes), x)


@pytest.mark.parametrize("with_segments", [False, True])
@pytest.mark.parametrize("with_mask", [False, True])
def test_quantized_embedding(with_segments: bool, with_mask: bool) -> None:
    inputs = {"ids": R.integers(0, 9, (2, 4)).astype(np.int32)}
    shapes = {"word": (9, 8), "place": (6, 8), "gamma": (8,), "beta": (8,)}
    if with_segments:
        inputs["kinds"] = R.integers(0, 2, (2, 4)).astype(np.int32)
        shapes["segment"] = (2, 8)
    if with_mask:
        inputs["mask"] = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    constants: dict[str, Any] = {}
    for name, shape in shapes.items():
        constants[name] = R.integers(0, 256, shape).astype(np.uint8)
        constants[f"{name}_scale"] = np.float32(R.uniform(0.01, 0.03))
        constants[f"{name}_zero"] = np.uint8(R.integers(90, 160))
    tables = ("word", "place", "segment", "gamma", "beta")
    listed = [
        "ids",
        "kinds",
        *tables,
        "mask",
        *(f"{name}_scale" for name in tables),
        *(f"{name}_zero" for name in tables),
    ]
    order = [name if name in {**inputs, **constants} else "" for name in listed]
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "constants": constants, "order": order}
    model = node_model("QEmbedLayerNormalization", inputs, **options, outputs=2)
    check_node(model, inputs)
    check_node(opened(model), inputs)


@pytest.mark.parametrize("op_type", ["BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"])
def test_searches_are_refused_with_advice(op_type: str) -> None:
    model = node_model(op_type, {"x": np.ones(3, np.int32)}, opset=1, domain="com.microsoft")
    with pytest.raises(converter.UnsupportedModelError, match="search with openvino-genai"):
        converter.convert_model(model)
