"""Mean and scale as part of the first convolution: the numbers of the layers that they replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter import Preprocess
from tests.commands import onnx2ir
from tests.converter.preprocessing.pictures import MEAN, SCALE, compiled, executed, model_of_pictures, picture

U8: dict[str, Any] = {"element_type": "u8", "layout": "nhwc", "model_layout": "nchw"}
NCHW: dict[str, Any] = {"model_layout": "nchw"}


def layers(model: ir_runtime.Model) -> list[str]:
    return [node.op.type for node in model.nodes() if node.op.type not in ("Const", "Parameter", "Result")]


# name -> (steps, pads of the convolution, whether a Subtract is left)
ROWS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "mean and scale": ({"mean": MEAN, "scale": SCALE, **NCHW}, 0, False),
    "one number each": ({"mean": 127.5, "scale": 127.5}, 0, False),
    "one mean": ({"mean": 127.5, "scale": SCALE, **NCHW}, 0, False),
    "scale": ({"scale": SCALE, **NCHW}, 1, False),
    "mean with pads": ({"mean": MEAN, "scale": SCALE, **NCHW}, 1, True),
    "bytes": ({"mean": MEAN, "scale": SCALE, **U8}, 0, False),
    "reversed": ({"mean": MEAN, "scale": SCALE, "reverse_channels": True, **U8}, 0, False),
    "reversed with pads": ({"mean": MEAN, "scale": SCALE, "reverse_channels": True, **U8}, 1, True),
    "resized": ({"mean": MEAN, "scale": SCALE, "resize": "linear", **U8}, 0, False),
    "bgr": ({"mean": MEAN, "scale": SCALE, "color": "bgr", **U8}, 0, False),
}


@pytest.mark.parametrize("row", ROWS)
def test_numbers_are_those_of_the_layers(row: str, tmp_path: Path) -> None:
    steps, padding, is_left = ROWS[row]
    model = model_of_pictures(padding=padding)
    plain = converter.convert_model(model, preprocess={"image": Preprocess(**steps)})
    folded = converter.convert_model(model, preprocess={"image": Preprocess(fold=True, **steps)})
    assert "Multiply" in layers(plain) or "scale" not in steps
    assert "Multiply" not in layers(folded)
    assert ("Subtract" in layers(folded)) == is_left
    assert len(layers(folded)) < len(layers(plain))
    shape = (1, 3, 12, 16) if "layout" not in steps else (1, 20, 9, 3) if "resize" in steps else (1, 12, 16, 3)
    given = picture(*shape, kind="u8" if "element_type" in steps else "f32")
    for name, model_of in (("plain", plain), ("folded", folded)):
        converter.save_model(model_of, tmp_path / f"{name}.xml")
    engines = {name: compiled(tmp_path / f"{name}.xml") for name in ("plain", "folded")}
    assert executed(engines["folded"]) <= executed(engines["plain"])
    expected = ir_runtime.compile_model(plain)({"image": given})
    for name in ("scores", "features"):
        tolerance = 1e-5 * float(np.abs(expected[name]).max())
        for found in (ir_runtime.compile_model(folded)({"image": given})[name], engines["folded"]([given])[name]):
            np.testing.assert_allclose(found, expected[name], rtol=0, atol=tolerance)


def test_verify_knows_what_the_weights_hold(tmp_path: Path) -> None:
    model = model_of_pictures(padding=0)
    onnx.save(model, tmp_path / "m.onnx")
    arguments = ["--mean-values", "[123.7,116.3,103.5]", "--scale-values", "[58.4,57.1,57.4]", "--layout", "nchw"]
    words = ["convert", str(tmp_path / "m.onnx"), *arguments, "--fold-preprocessing", "--verify", "--quiet"]
    code, out, messages = onnx2ir(*words)
    assert code == 0, out + messages
    assert layers(ir_runtime.read_model(tmp_path / "m.xml")) == ["Convolution", "Add", "ReLU"]
    report = converter.verify(tmp_path / "m.onnx", tmp_path / "m.xml", layers=True)
    assert report.passed
    assert report.layers_problem == "mean and scale are part of the IR's weights"
    # Without the steps the model is another one.
    converter.save_model(converter.convert_model(model), tmp_path / "plain.xml")
    assert not converter.verify(tmp_path / "m.xml", tmp_path / "plain.xml").passed


def test_half_precision_and_compression(tmp_path: Path) -> None:
    steps = Preprocess(mean=MEAN, scale=SCALE, fold=True, **U8)
    folded = converter.convert_model(model_of_pictures(padding=0), preprocess={"image": steps})
    converter.save_model(folded, tmp_path / "m.xml", compress="int8")
    given = picture(1, 12, 16, 3)
    expected = ir_runtime.compile_model(folded)({"image": given})["scores"]
    found = ir_runtime.compile_model(ir_runtime.read_model(tmp_path / "m.xml"))({"image": given})["scores"]
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_together_with_export_round_trip_and_another_target(tmp_path: Path) -> None:
    onnx.save(model_of_pictures(padding=0), tmp_path / "m.onnx")
    steps = Preprocess(mean=MEAN, scale=SCALE, fold=True, **U8)
    converter.save_model(converter.convert_model(tmp_path / "m.onnx", preprocess={"image": steps}), tmp_path / "m.xml")
    converter.save_onnx(tmp_path / "m.xml", tmp_path / "back.onnx")
    assert converter.verify(tmp_path / "back.onnx", tmp_path / "m.xml").passed
    assert converter.round_trip(tmp_path / "m.xml").passed
    older = converter.convert_model(tmp_path / "m.xml", target="cpu@2024.6")
    converter.save_model(older, tmp_path / "older.xml", compress_to_fp16=True)
    assert converter.verify(tmp_path / "m.onnx", tmp_path / "older.xml").passed
    with pytest.raises(converter.ConversionError, match="has preprocessing already"):
        converter.convert_model(tmp_path / "m.xml", preprocess={"image": steps})


@pytest.mark.parametrize(
    ("options", "first", "message"),
    [
        ({"mean": MEAN, **NCHW}, "Sub", "every layer that reads it, but 'shift' is a Subtract"),
        ({"mean": MEAN, **NCHW}, "Add", "every layer that reads it, but 'twice' is a Concat"),
        ({**NCHW}, "Conv", "fold is of no use without mean or scale"),
    ],
)
def test_mistakes(options: dict[str, Any], first: str, message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model_of_pictures(first=first), preprocess={"image": Preprocess(fold=True, **options)})


def test_the_option_needs_something_to_fold(tmp_path: Path) -> None:
    onnx.save(model_of_pictures(), tmp_path / "m.onnx")
    code, _, messages = onnx2ir("convert", str(tmp_path / "m.onnx"), "--fold-preprocessing")
    assert (code, "fold is of no use without mean or scale" in messages) == (1, True)
