"""An IR as the source of a conversion: shapes, types, values, outputs, target and compression of the new one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest

import converter
from converter import ConversionError, UnsupportedModelError
from ir_runtime import Model, compile_model, read_model
from tests.commands import a_model, onnx2ir
from tests.engines import node_model


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """An IR that OpenVINO's own converter wrote."""
    onnx.save(a_model(), tmp_path / "model.onnx")
    openvino.save_model(
        openvino.convert_model(tmp_path / "model.onnx"), tmp_path / "theirs.xml", compress_to_fp16=False
    )
    return tmp_path / "theirs.xml"


FEEDS = {"image": np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32), "rate": np.array(2)}


def outputs(model: Model, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
    result = compile_model(model)(feeds)
    return {name: np.asarray(result[name]) for name in ("logits",)}


@pytest.mark.parametrize("target", ["any", "cpu", "cpu@2023.3"])
@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"exact": True}])
def test_the_numbers_stay(theirs: Path, target: str, options: dict[str, Any]) -> None:
    expected = outputs(read_model(theirs), FEEDS)
    made = converter.convert_model(theirs, target=target, **options)
    np.testing.assert_allclose(outputs(made, FEEDS)["logits"], expected["logits"], rtol=1e-5)


def test_a_model_in_memory_stays_as_it_is(theirs: Path) -> None:
    before = read_model(theirs)
    made = converter.convert_model(before, input={"image": [1, 3, 4, 4]})
    assert str(made.inputs[0].shape) == "[1,3,4,4]"
    assert not before.inputs[0].shape.is_static


def test_shapes_values_types_and_outputs(theirs: Path) -> None:
    made = converter.convert_model(
        theirs, input="image[2,3,4,5]{f64}", freeze={"rate": 2}, output=["logits", "hidden"], static=True
    )
    assert [str(one.type) for one in made.inputs] == ["f64[2,3,4,5]"]
    assert "ShapeOf" not in made.types
    result = compile_model(made)({"image": FEEDS["image"].astype(np.float64)})
    expected = outputs(read_model(theirs), FEEDS)["logits"]
    # Sums of numbers of up to 9, of which some come close to 0: they are added in another order.
    np.testing.assert_allclose(result["logits"], expected, rtol=1e-5, atol=1e-6)
    assert result["hidden"].shape == (2, 64, 4, 5)


def test_a_batch(theirs: Path) -> None:
    made = converter.convert_model(theirs, batch=2, output="hidden")
    assert str(made.inputs[0].shape[0]) == "2"
    assert [node.end_names[0] for node in made.parameters] == ["image"]


@pytest.mark.parametrize(("options", "message"), [
    ({"input": "picture[1,3,4,4]"}, "no input 'picture'.*'image'"),
    ({"output": "hiden"}, "no tensor 'hiden'.*'hidden'"),
    ({"freeze": {"rate": 2.5}}, "rate"),
    ({"static": True}, "'image'.*dynamic"),
    ({"input": {"image": [1, 4, 4, 4]}}, "channels|Convolution"),
])  # fmt: skip
def test_options_that_do_not_fit(theirs: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConversionError, Exception), match=message) as caught:
        converter.convert_model(theirs, **options)
    assert type(caught.value).__module__.startswith(("converter.", "ir_runtime."))


def replaced_identity(name: str, opset: int, data: np.ndarray, **attributes: Any) -> Model:
    """An IR of one layer."""
    from ir_runtime.graph.operation import find_operation
    from ir_runtime.graph.shape_inference import make_node

    model = converter.convert_model(node_model("Identity", {"x": data}, opset=17), target="any")
    result = model.results[0]
    result.inputs = [make_node(find_operation(name, opset)(**attributes), result.inputs, "layer").outputs[0]]
    return model


def test_an_operation_that_the_release_does_not_have() -> None:
    windows = {"strides": [1, 1], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [2, 2]}
    model = replaced_identity("AvgPool", 16, np.zeros((1, 1, 4, 4), np.float32), **windows, exclude_pad=True)
    with pytest.raises(UnsupportedModelError, match="AvgPool-16"):
        converter.convert_model(model, target="cpu@2023.3")


@pytest.mark.parametrize(("name", "opset"), [("Inverse", 14), ("Squeeze", 15), ("Identity", 16)])
def test_an_operation_that_older_ones_express(name: str, opset: int) -> None:
    model = converter.convert_model(
        replaced_identity(name, opset, np.zeros((1, 2, 2), np.float32)), target="cpu@2023.3"
    )
    assert max(node.op.opset for part in model.all_models() for node in part.nodes()) <= 13


def test_the_command(theirs: Path) -> None:
    target = theirs.parent / "new.xml"
    code, out, messages = onnx2ir(
        *("convert", str(theirs), "-o", str(target), "--target", "cpu@2024.6", "--compress", "int8", "--verify")
    )
    assert code == 0, messages
    assert "PASSED" in out + messages
    assert target.with_suffix(".bin").stat().st_size < theirs.with_suffix(".bin").stat().st_size
    code, _, messages = onnx2ir("convert", str(theirs))
    assert (code, "-o PATH" in messages) == (2, True)
