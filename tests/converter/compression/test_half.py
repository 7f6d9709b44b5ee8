"""Weights as float16: which ones are stored so, which ones stay, and the messages about them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest

import converter
import ir_runtime
from converter.compression.half_precision import misfits, to_half
from converter.conversion import compressed
from ir_runtime import Model
from tests.commands import onnx2ir
from tests.engines import core, node_model, run_numpy, run_onnxruntime, run_openvino


def constants(model: Model) -> dict[str, str]:
    stored = [node for node in model.nodes() if node.op.data is not None and node.op.data.size > 1]
    return {node.name.removesuffix("_compressed"): node.op.data.element_type.name for node in stored}


def added(weights: np.ndarray) -> onnx.ModelProto:
    return node_model("Add", {"x": np.ones(len(weights), np.float32)}, opset=17, constants={"w": weights})


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.74, 0.76, 1.0])
@pytest.mark.parametrize("value", [1e-9, 1e-7, 6.2e-5, 0.0])
def test_small_numbers_stay_where_openvino_keeps_them(share: float, value: float, tmp_path: Path) -> None:
    weights = np.ones(100, np.float32)
    weights[: int(100 * share)] = value
    model = added(weights)
    ours = constants(compressed(converter.convert_model(model), None, True).model)["w"]
    openvino.save_model(core().read_model(model.SerializeToString()), tmp_path / "m.xml", compress_to_fp16=True)
    theirs = next(op for op in core().read_model(tmp_path / "m.xml").get_ops() if op.get_type_name() == "Constant")
    assert ours == theirs.get_element_type().get_type_name()


@pytest.mark.parametrize(("value", "kept"), [(65505.0, 1), (-1e30, 1), (-np.inf, 0)])
def test_a_number_that_would_become_infinite_keeps_its_tensor(value: float, kept: int, tmp_path: Path) -> None:
    """OpenVINO writes 65504 instead, which is another model."""
    model = added(np.array([1, value, 2], np.float32))
    stored = compressed(converter.convert_model(model), None, True)
    assert stored.half is not None
    assert constants(stored.model) == {"w": "f32" if kept else "f16"}
    assert dict(stored.half.kept) == ({"have values beyond 65504": 1} if kept else {})
    onnx.save(model, tmp_path / "m.onnx")
    messages = onnx2ir("convert", str(tmp_path / "m.onnx"), "--compress-to-fp16")[2]
    assert ("0 constants are float16, but not 1 that have values beyond 65504" in messages) == bool(kept)


def test_numbers_that_decide_shapes_stay() -> None:
    """12 times float32's 4/3 is 16, and 15 with float16's."""
    scales = np.array([1, 1, 4 / 3, 4 / 3], np.float32)
    x = np.random.default_rng(1).random((1, 2, 12, 12), np.float32)
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    model = node_model(
        "Resize", {"x": x}, opset=13, attributes=attributes, constants={"s": scales}, order=["x", "", "s"]
    )
    stored = compressed(converter.convert_model(model), None, True)
    assert stored.half is not None
    assert stored.half.kept.total() == 1
    ir, expected = ir_runtime.model_to_bytes(stored.model), run_onnxruntime(model, {"x": x})[0]
    for run in (run_numpy, run_openvino):
        np.testing.assert_allclose(run(ir, {"x": x})[0], expected, rtol=1e-6)


def every_kind_of_number() -> np.ndarray:
    """Random bits of float32, and every number halfway between two of float16 with its neighbours."""
    random = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, np.uint64).astype(np.uint32).view(np.float32)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    between = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(between, np.float32(limit)) for limit in (-np.inf, np.inf)]
    ends = np.array([65504, 65519.99, 65520, 1e30, np.inf, np.nan, 0.0, 2.0**-14, 2.0**-25], np.float32)
    return np.concatenate([random, between, *near, -between, ends, -ends])


def test_halves_are_those_of_numpy() -> None:
    values = every_kind_of_number()
    with np.errstate(all="ignore"):
        fits = np.abs(values) < 65520
        for given in (values, values[fits], values[fits & (np.abs(values) > 2**-14)], values[:3], values[:0]):
            expected = given.astype(np.float16)
            np.testing.assert_array_equal(to_half(given).view(np.uint16), expected.view(np.uint16))
        wide = values[fits].astype(np.float64)
        np.testing.assert_array_equal(to_half(wide), wide.astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_beyond_float16_are_counted(dtype: type) -> None:
    values = np.array([0.0, -0.0, 1.0, -65504, np.inf, np.nan, 2.0**-14, -(2.0**-15), 1e-40], dtype)
    assert misfits(values) == (False, 2)
    assert misfits(np.append(values, dtype(-65505))) == (True, 2)
    assert misfits(np.tile(values, 10_000)) == (False, 20_000)
    assert misfits(values[:0]) == (False, 0)
