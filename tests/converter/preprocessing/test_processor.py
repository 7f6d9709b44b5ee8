"""The steps have the numbers and the executed layers of OpenVINO's PrePostProcessor, and ``verify`` knows them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from converter import Postprocess, Preprocess
from tests.commands import onnx2ir
from tests.converter.preprocessing.pictures import MEAN, SCALE, both, compiled, executed, model_of_pictures, picture

U8 = {"element_type": "u8", "layout": "nhwc", "model_layout": "nchw"}
NCHW = {"model_layout": "nchw"}

# name -> (steps, shape of the picture, its type)
ROWS = {
    "mean": (Preprocess(mean=MEAN, **NCHW), (1, 3, 12, 16), "f32"),
    "mean of one number": (Preprocess(mean=127.5), (1, 3, 12, 16), "f32"),
    "scale": (Preprocess(scale=SCALE, **NCHW), (1, 3, 12, 16), "f32"),
    "scale of one number": (Preprocess(scale=255), (1, 3, 12, 16), "f32"),
    "mean and scale": (Preprocess(mean=MEAN, scale=SCALE, **NCHW), (1, 3, 12, 16), "f32"),
    "u8": (Preprocess(element_type="u8"), (1, 3, 12, 16), "u8"),
    "f16": (Preprocess(element_type="f16"), (1, 3, 12, 16), "f16"),
    "layout": (Preprocess(layout="nhwc", model_layout="nchw"), (1, 12, 16, 3), "f32"),
    "u8 layout": (Preprocess(**U8), (1, 12, 16, 3), "u8"),
    "u8 layout mean scale": (Preprocess(mean=MEAN, scale=SCALE, **U8), (1, 12, 16, 3), "u8"),
    "reversed": (Preprocess(reverse_channels=True, **NCHW), (1, 3, 12, 16), "f32"),
    "reversed mean scale": (Preprocess(mean=MEAN, scale=SCALE, reverse_channels=True, **U8), (1, 12, 16, 3), "u8"),
    "bgr": (Preprocess(color="bgr", mean=MEAN, **U8), (1, 12, 16, 3), "u8"),
    "bgr for a model of bgr": (Preprocess(color="bgr", model_color="bgr", mean=MEAN, **U8), (1, 12, 16, 3), "u8"),
    "rgb for a model of bgr": (Preprocess(color="rgb", model_color="bgr", mean=MEAN, **U8), (1, 12, 16, 3), "u8"),
    "nv12": (Preprocess(color="nv12", mean=MEAN, scale=SCALE, **NCHW), (1, 18, 16, 1), "u8"),
    "nv12 to bgr": (Preprocess(color="nv12", model_color="bgr", scale=255, **NCHW), (1, 18, 16, 1), "u8"),
    "nv12 in floats": (Preprocess(color="nv12", element_type="f32", **NCHW), (1, 18, 16, 1), "f32"),
    "i420": (Preprocess(color="i420", mean=MEAN, **NCHW), (1, 18, 16, 1), "u8"),
    "i420 to bgr": (Preprocess(color="i420", model_color="bgr", **NCHW), (1, 18, 16, 1), "u8"),
    "nv12 of any size": (Preprocess(color="nv12", resize="linear", mean=MEAN, **NCHW), (1, 30, 24, 1), "u8"),
    "linear": (Preprocess(resize="linear", mean=MEAN, **U8), (1, 31, 7, 3), "u8"),
    "cubic": (Preprocess(resize="cubic", scale=255, **U8), (1, 31, 7, 3), "u8"),
    "nearest": (Preprocess(resize="nearest", **U8), (1, 31, 50, 3), "u8"),
    "bilinear, as Pillow": (Preprocess(resize="bilinear_pillow", mean=MEAN, **U8), (1, 31, 37, 3), "u8"),
    "bicubic, as Pillow": (Preprocess(resize="bicubic_pillow", scale=255, **U8), (1, 9, 40, 3), "u8"),
    "linear without a layout": (Preprocess(resize="linear", model_layout="nchw"), (1, 3, 40, 5), "f32"),
    "everything": (
        Preprocess(resize="linear", mean=MEAN, scale=SCALE, reverse_channels=True, **U8), (1, 24, 33, 3), "u8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("first", ["Conv", "Sub", "Add"])
@pytest.mark.parametrize("row", ROWS)
def test_numbers_and_layers_are_those_of_the_processor(row: str, first: str, tmp_path: Path) -> None:
    steps, shape, kind = ROWS[row]
    model = model_of_pictures(first=first)
    ours, theirs = (compiled(path) for path in both(model, tmp_path, steps))
    given = picture(*shape, kind=kind)
    for name in ("scores", "features"):
        np.testing.assert_allclose(ours([given])[name], theirs([given])[name], rtol=1e-6, atol=1e-3)
    assert executed(ours) <= executed(theirs)
    here = ir_runtime.compile_model(ir_runtime.read_model(tmp_path / "ours.xml"))
    np.testing.assert_allclose(here([given])["scores"], theirs([given])["scores"], rtol=1e-4, atol=2e-3)
    report = converter.verify(model, tmp_path / "ours.xml", inputs={"image": given}, layers=True)
    assert report.passed, report.verdict
    assert not report.layers_problem
    assert len(report.layers) >= 2
    assert {check.state for check in report.weights} <= {"identical", "unused"}


FOLDED = [(row, 0, "") for row in ROWS if ROWS[row][0].scale and ROWS[row][0].color not in ("nv12", "i420")]
FOLDED += [("scale", 1, ""), ("mean and scale", 1, "Subtract"), ("reversed mean scale", 1, "Subtract")]


@pytest.mark.parametrize(("row", "padding", "left"), FOLDED)
def test_mean_and_scale_become_part_of_a_convolution(row: str, padding: int, left: str, tmp_path: Path) -> None:
    """The numbers of the layers that they replace; zeros of pads need the mean."""
    steps, shape, kind = ROWS[row]
    model, given = model_of_pictures(padding=padding), picture(*shape, kind=kind)
    irs = [converter.convert_model(model, preprocess={"image": replace(steps, fold=fold)}) for fold in (False, True)]
    types = [{node.op.type for node in ir.nodes()} for ir in irs]
    assert "Multiply" in types[0]
    assert types[1] & {"Multiply", "Subtract"} == set(filter(None, [left]))
    assert len(irs[1].nodes()) < len(irs[0].nodes())
    for name, ir in zip(("plain", "folded"), irs):
        converter.save_model(ir, tmp_path / f"{name}.xml")
    plain, folded = (compiled(tmp_path / f"{name}.xml") for name in ("plain", "folded"))
    assert executed(folded) <= executed(plain)
    expected = ir_runtime.compile_model(irs[0])({"image": given})
    for name in ("scores", "features"):
        tolerance = 1e-5 * float(np.abs(expected[name]).max())
        for found in (ir_runtime.compile_model(irs[1])({"image": given})[name], folded([given])[name]):
            np.testing.assert_allclose(found, expected[name], rtol=0, atol=tolerance)


def test_verify_knows_what_the_weights_hold(tmp_path: Path) -> None:
    model = model_of_pictures(padding=0)
    onnx.save(model, tmp_path / "m.onnx")
    arguments = ["--mean-values", "[123.7,116.3,103.5]", "--scale-values", "[58.4,57.1,57.4]", "--layout", "nchw"]
    words = ["convert", str(tmp_path / "m.onnx"), *arguments, "--fold-preprocessing", "--verify", "--quiet"]
    code, out, messages = onnx2ir(*words)
    assert code == 0, out + messages
    found = [node.op.type for node in ir_runtime.read_model(tmp_path / "m.xml").nodes() if node.op.type != "Const"]
    assert found == ["Parameter", "Convolution", "Add", "ReLU", "Result", "Result"]
    report = converter.verify(tmp_path / "m.onnx", tmp_path / "m.xml", layers=True)
    assert report.passed
    assert report.layers_problem == "mean and scale are part of the IR's weights"
    # Without the steps the model is another one.
    converter.save_model(converter.convert_model(model), tmp_path / "plain.xml")
    assert not converter.verify(tmp_path / "m.xml", tmp_path / "plain.xml").passed


@pytest.mark.parametrize("fields", [
    {"layout": "nhwc", "model_layout": "nchw"}, {"element_type": "f16"},
    {"element_type": "i32", "layout": "nhwc", "model_layout": "nchw"},
])  # fmt: skip
@pytest.mark.parametrize("output", ["scores", "features"])
def test_outputs(fields: dict[str, Any], output: str, tmp_path: Path) -> None:
    """Also where the output is shared with a layer of the model."""
    steps = Preprocess(mean=MEAN, scale=SCALE, **U8)
    model = model_of_pictures()
    ours, theirs = (compiled(path) for path in both(model, tmp_path, steps, {output: Postprocess(**fields)}))
    given = picture(1, 12, 16, 3)
    found, wanted = ours([given]), theirs([given])
    for name, place in (("scores", 0), ("features", 1)):
        assert found[name].dtype == wanted[place].dtype
        np.testing.assert_allclose(found[name], wanted[place], rtol=1e-5, atol=1e-5)
    assert executed(ours) <= executed(theirs)
    report = converter.verify(model, tmp_path / "ours.xml", inputs={"image": given}, layers=True)
    assert not report.layers_problem
    assert all(one.passed for one in report.outputs if one.element_type != "int32"), report.verdict


@pytest.mark.parametrize("steps", [
    {"mean": (123.675, 116.28, 105.0), "scale": SCALE}, {"mean": MEAN, "scale": SCALE, "reverse_channels": True}, {},
])  # fmt: skip
def test_verify_finds_other_steps(steps: dict[str, Any]) -> None:
    """An IR that does something else than its record says differs."""
    model = model_of_pictures()
    right = converter.convert_model(model, preprocess={"image": Preprocess(mean=MEAN, scale=SCALE, **U8)})
    wrong = converter.convert_model(model, preprocess={"image": Preprocess(**steps, **U8)})
    wrong.runtime_info = right.runtime_info
    assert converter.verify(model, right).passed
    assert not converter.verify(model, wrong).passed
