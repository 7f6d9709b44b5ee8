"""``fp16``: weights in float16 that are converted, a model that computes in float16, weights in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import converter
from converter import ConversionError
from ir_runtime import Model, compile_model, read_model
from ir_runtime.graph.model import Output
from tests.commands import onnx2ir
from tests.to_onnx.graphs import check, constant, layer, model, op, operators, parameter, run
from tests.to_onnx.test_export import network

IMAGE = np.random.default_rng(1).standard_normal((2, 3, 8, 6)).astype(np.float32)
FLOATS = {TensorProto.FLOAT: "f32", TensorProto.FLOAT16: "f16"}


@pytest.fixture(name="compressed")
def _compressed(tmp_path: Path) -> Model:
    path = tmp_path / "m.xml"
    converter.save_model(converter.convert_model(network()), path, compress_to_fp16=True)
    return read_model(path)


def weights(exported: onnx.ModelProto) -> set[str]:
    return {
        FLOATS[one.data_type] for one in exported.graph.initializer if one.data_type in FLOATS and len(one.dims) > 1
    }


def largest_error(exported: onnx.ModelProto, ir: Model, feeds: dict[str, Any]) -> float:
    found, expected = run(exported, feeds), compile_model(ir)(feeds)
    assert all(found[name].dtype == expected[name].dtype for name in found)
    return max(float(np.abs(found[name] - expected[name]).max() / np.abs(expected[name]).max()) for name in found)


def test_weights_are_kept_and_converted(compressed: Model) -> None:
    exported = check(compressed, {"image": IMAGE})
    assert weights(exported) == {"f16"}
    assert operators(exported).count("Cast") == 3


def test_weights_are_unfolded(compressed: Model) -> None:
    exported = check(compressed, {"image": IMAGE}, fp16="unfold")
    assert weights(exported) == {"f32"}
    assert "Cast" not in operators(exported)
    kept = converter.export_model(compressed)
    assert kept.ByteSize() < exported.ByteSize()


def test_the_model_computes_in_float16(compressed: Model) -> None:
    exported = converter.export_model(compressed, fp16="model")
    assert weights(exported) == {"f16"}
    # One at the input, and one at each of the three outputs.
    assert operators(exported).count("Cast") == 4
    inferred = onnx.shape_inference.infer_shapes(exported, strict_mode=True)
    inner = {one.type.tensor_type.elem_type for one in inferred.graph.value_info}
    assert inner == {TensorProto.FLOAT16}
    assert [one.type.tensor_type.elem_type for one in exported.graph.input] == [TensorProto.FLOAT]
    assert largest_error(exported, compressed, {"image": IMAGE}) < 5e-3


def test_a_model_of_float32_in_float16(tmp_path: Path) -> None:
    ir = converter.convert_model(network())
    exported = converter.export_model(ir, fp16="model")
    assert weights(exported) == {"f16"}
    assert largest_error(exported, ir, {"image": IMAGE}) < 5e-3
    same = converter.export_model(ir, fp16="unfold")
    assert same == converter.export_model(ir)


def test_an_output_in_the_middle_keeps_its_name_and_type() -> None:
    x = parameter("x", None, 4)
    inner = layer(op("ReLU"), x, name="relu")
    inner.add_name("features")
    ir = model([x], {"features": inner, "y": layer(op("Tanh"), inner, name="tanh"), "same": x})
    exported = converter.export_model(ir, fp16="model")
    feeds = {"x": np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)}
    assert [one.name for one in exported.graph.output] == ["features", "y", "same"]
    assert largest_error(exported, ir, feeds) < 2e-3


def angles(positions: Output, embedded: Output) -> Output:
    """Rotary positions: products of positions and frequencies, whose cosines meet the data."""
    number = layer(op("Convert", 1, destination_type="f32"), positions, name="convert")
    turned = layer(op("Multiply"), number, constant(np.array([[1.0, 0.01]], np.float32)), name="angles")
    return layer(op("Multiply"), embedded, layer(op("Cos"), turned, name="cos"), name="rotated")


def test_positions_are_computed_in_float32() -> None:
    """float16 has no 5001: an angle of it would be 5000."""
    positions, x = parameter("positions", None, 1, kind="i64"), parameter("x", None, 2)
    ir = model([positions, x], {"y": angles(positions, x)})
    feeds = {"positions": np.array([[5001], [7003]]), "x": np.ones((2, 2), np.float32)}
    exported = converter.export_model(ir, fp16="model")
    assert largest_error(exported, ir, feeds) < 2e-3
    inferred = onnx.shape_inference.infer_shapes(exported, strict_mode=True)
    kinds = {one.name: one.type.tensor_type.elem_type for one in inferred.graph.value_info}
    assert kinds["cos"] == TensorProto.FLOAT
    assert TensorProto.FLOAT16 in kinds.values()


def test_masks_beyond_the_largest_number_hide_rows_without_nan() -> None:
    """1 - mask times the lowest float32 is minus infinity in float16: a row of it would be NaN in Softmax."""
    mask, x = parameter("mask", None, 3, kind="i64"), parameter("x", None, 3)
    number = layer(op("Convert", 1, destination_type="f32"), mask, name="convert")
    hidden = layer(op("Subtract"), constant(1.0), number, name="hidden")
    lowest = constant(np.finfo(np.float32).min)
    bias = layer(op("Multiply"), hidden, lowest, name="bias")
    scores = layer(op("Add"), x, bias, name="scores")
    ir = model([mask, x], {"y": layer(op("Softmax", 8, axis=1), scores, name="softmax")})
    feeds = {"mask": np.array([[1, 1, 0], [0, 0, 0]]), "x": np.array([[1, 2, 3], [0, 0, 0]], np.float32)}
    found = run(converter.export_model(ir, fp16="model"), feeds)["y"]
    np.testing.assert_allclose(found, compile_model(ir)(feeds)["y"], atol=1e-3)


def test_constants_beyond_the_largest_number_become_that() -> None:
    x = parameter("x", 2)
    ir = model([x], {"y": layer(op("Minimum"), x, constant([1e9, np.inf]), name="least")})
    exported = converter.export_model(ir, fp16="model")
    (limit,) = [one for one in exported.graph.initializer if one.data_type == TensorProto.FLOAT16]
    assert onnx.numpy_helper.to_array(limit).tolist() == [65504.0, np.inf]


@pytest.mark.parametrize("fp16", ["keep", "model", "unfold"])
@pytest.mark.parametrize("compress", ["fp16", "int8", "int4"])
def test_with_every_compression(compress: str, fp16: Any, tmp_path: Path) -> None:
    how: dict[str, Any] = {"compress_to_fp16": True} if compress == "fp16" else {"compress": compress}
    converter.save_model(converter.convert_model(network()), tmp_path / "m.xml", **how)
    ir = read_model(tmp_path / "m.xml")
    exported = converter.export_model(ir, fp16=fp16)
    assert largest_error(exported, ir, {"image": IMAGE}) < (5e-3 if fp16 == "model" else 1e-5)


def test_the_command_and_a_wrong_value(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "n.onnx")
    assert onnx2ir("convert", str(tmp_path / "n.onnx"), "--compress-to-fp16")[0] == 0
    code, out, messages = onnx2ir("export", str(tmp_path / "n.xml"), "-o", str(tmp_path / "b.onnx"), "--fp16", "unfold")
    assert code == 0, out + messages
    assert weights(onnx.load(tmp_path / "b.onnx")) == {"f32"}
    with pytest.raises(ConversionError, match="fp16 must be one of keep, model, unfold, but is 'half'"):
        converter.export_model(tmp_path / "n.xml", fp16="half")  # type: ignore[arg-type]
