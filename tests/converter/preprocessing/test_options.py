"""Preprocessing as options, as a file and in Python: the numbers and layers of OpenVINO's PrePostProcessor."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest

import converter
import ir_runtime
from converter import Postprocess, Preprocess
from converter.passes.preprocessing.recorded import Recorded
from tests.commands import onnx2ir
from tests.converter.optimization.models import parse
from tests.converter.preprocessing.pictures import MEAN, SCALE, both, compiled, executed, model_of_pictures, picture
from tests.engines import EXACT

U8: dict[str, Any] = {"element_type": "u8", "layout": "nhwc", "model_layout": "nchw"}
STEPS = Preprocess(mean=MEAN, scale=SCALE, resize="linear", reverse_channels=True, **U8)


def run(*arguments: object) -> str:
    """What the command prints; it must succeed."""
    code, out, messages = onnx2ir(*map(str, arguments))
    assert code == 0, out + messages
    return out


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    onnx.save(model_of_pictures(), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def recorded(path: Path) -> Recorded:
    return Recorded.of(ir_runtime.read_model(path))


NCHW = {"model_layout": "nchw"}
COMPLETE: dict[str, Any] = {"element_type": "f32", "layout": "nchw", "model_layout": "nchw"}
OPTIONS: list[tuple[str, dict[str, Any] | str]] = [
    # words of mo, and what is recorded of them; or the error
    *((words, {"mean": (1, 2, 3), **COMPLETE}) for words in (
        "--mean-values image[1,2,3]", "--mean_values image(1,2,3)", "--mean_values=(1,2,3)")),
    ("--scale-values image[255]", {"scale": 255, "element_type": "f32"}),
    ("--scale 2", {"scale": 2, "element_type": "f32"}),
    *((f"--reverse_input_channels{value}", {"reverse_channels": True, **COMPLETE}) for value in ("", "=True")),
    *((words, {**COMPLETE, "layout": "nhwc"}) for words in (
        "--layout nchw->nhwc", "--layout image([n,c,h,w]->[n,h,w,c])",
        "--source_layout nchw --target_layout image(nhwc)")),
    *((f"--input {words}", {"element_type": "u8"}) for words in ("image[u8]", "image[2,3,12,16],image[u8]")),
    ("--resize cubic", {"resize": "cubic", "size": (12, 16), **COMPLETE}),
    ("--color image(nv12->bgr)", {"color": "nv12", "model_color": "bgr", **U8}),
    ("--mean-values image[1,2]", "'image': mean has 2 values, but by the layout nchw it has 3"),
    ("--mean-values data[1,2,3]", "given for 'data', but the model has no such input; its inputs are 'image'"),
    ("--mean-values [1,2,3],[1,2,3]", "mean is given for more inputs than the model has: image"),
    ("--layout nc", "'image' has 4 dimensions [1,3,12,16], but its layout is nc"),
    ("--layout nchw->nhwd", "cannot be brought from the layout nhwd to nchw: the letters differ"),
    ("--mean-values image[1],image[2]", "'image' is given mean twice"),
    ("--scale 2 --scale-values image[3]", "'image' is given scale twice"),
    ("--mean-values image[a]", "--mean-values must be numbers, but has 'a'"),
    ("--mean-values image[1,2", "has brackets or commas that do not fit"),
    ("--fold-preprocessing", "fold is of no use without mean or scale"),
    ("--scale-values 0", "scale divides the input, so that it cannot be 0"),
    ("--resize area", "resize must be linear, cubic, nearest, bilinear_pillow or bicubic_pillow, but is 'area'"),
    ("--color yuv", "color must be rgb, bgr, nv12 or i420, but is 'yuv'"),
    ("--input image[u9]", "element_type must be a type such as u8 or f32, but is 'u9'"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "wanted"), OPTIONS)
def test_options_of_mo(words: str, wanted: dict[str, Any] | str, stored: Path) -> None:
    target = stored.with_suffix(".xml")
    code, _, messages = onnx2ir("convert", str(stored), "-o", str(target), "--verify", "--json", *words.split())
    if isinstance(wanted, str):
        assert (code, wanted in messages, target.exists()) == (1, True, False), messages
        return
    assert code == 0, messages
    assert recorded(target).inputs == {"image": Preprocess(**wanted)}
    compiled(target)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is read from Python 3.11 on")
def test_a_file(stored: Path) -> None:
    file = stored.with_suffix(".toml")
    file.write_text(
        '[inputs.image]\nelement_type = "u8"\nlayout = "nhwc"\nmodel_layout = "nchw"\nresize = "linear"\n'
        'mean = [1, 2, 3]\n[outputs.scores]\nlayout = "nhwc"\nmodel_layout = "nchw"\n'
    )
    run("convert", stored, "--preprocess", file, "--scale-values", "2", "--verify")
    found = recorded(stored.with_suffix(".xml"))
    assert (found.inputs["image"].mean, found.inputs["image"].scale) == ((1, 2, 3), (2,))
    assert found.outputs["scores"].layout == "nhwc"
    shown = json.loads(run("inspect", stored.with_suffix(".xml"), "--json"))
    assert shown["preprocessing"]["image"]["resize"] == "linear"
    assert "preprocessing of image" in run("inspect", stored.with_suffix(".xml"))


OPEN = partial(model_of_pictures, (1, 3, "h", "w"))
INTEGERS = partial(parse, "m (int64[2] x) => (int64[2] y) { y = Neg (x) }")


def preprocessed() -> ir_runtime.Model:
    return converter.convert_model(model_of_pictures(), preprocess={"image": STEPS})


FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"size": 8}, "size is of no use without resize"),
    ({"crop": (8, 8), "resize": "linear"}, "crop needs size, to which images are resized before"),
    ({"crop": 8, "resize": "linear", "size": 8}, "crop must be the height and the width that images get, but is 8"),
    ({"size": (8, 0), "resize": "linear"}, r"size must be the height and the width that .* but is \(8, 0\)"),
    ({"crop": (8, 9), "resize": "linear", "size": 8}, r"crop takes the middle .* is \[8, 9\], and size is 8"),
    ({"size": 12, "resize": "linear"}, "size is that of the shorter side alone: say with crop"),
    ({"size": 16, "crop": (12, 15), "resize": "linear"}, r"height and width 12, 16, but crop is \[12, 15\]"),
    ({"fold": True, "mean": 1}, "every layer that reads it, but 'shift' is a Subtract"),
    ({"fold": True, "mean": 2}, "every layer that reads it, but 'twice' is a Concat"),
    ({"fold": True}, "fold is of no use without mean or scale"),
]
WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (model_of_pictures, {"preprocess": {"picture": STEPS}}, "the model has no input 'picture'"),
    (model_of_pictures, {"preprocess": {"image": "u8"}}, "preprocess must map names to Preprocess"),
    (model_of_pictures, {"preprocess": 7}, "preprocess must map names of inputs"),
    (model_of_pictures, {"postprocess": {"q": Postprocess(element_type="f16")}}, "the model has no output 'q'"),
    (OPEN, {"preprocess": {"image": STEPS}}, "needs the model's height and width, but one is dynamic"),
    (INTEGERS, {"preprocess": {"x": Preprocess(mean=1)}}, "mean, scale and resize need a model that takes floats"),
    (model_of_pictures, {"preprocess": {"image": STEPS}, "stateful": True}, "preprocessing is for models without"),
    (preprocessed, {"preprocess": {"image": Preprocess(mean=1)}}, "'image' has preprocessing already"),
]


@pytest.mark.parametrize(("make", "options", "message"), WRONG)
def test_errors_in_python(make: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(make(), **options)


@pytest.mark.parametrize(("fields", "message"), FIELDS)
def test_fields_that_do_not_fit(fields: dict[str, Any], message: str) -> None:
    model = model_of_pictures(first="Sub" if "shift" in message else "Add" if "twice" in message else "Conv")
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model, preprocess={"image": Preprocess(model_layout="nchw", **fields)})


@pytest.mark.parametrize("compress", ["int8", "fp16"])
def test_compressed(compress: str, stored: Path) -> None:
    """Mean and scale stay float32."""
    option = ["--compress-to-fp16"] if compress == "fp16" else ["--compress", "int8"]
    values = ["--mean-values", "image[123.675,116.28,103.53]", "--reverse-input-channels", "--layout", "nchw->nhwc"]
    run("convert", stored, *option, *values, "--verify")
    constants = [node.op.data for node in ir_runtime.read_model(stored.with_suffix(".xml")).nodes() if node.op.data]
    assert any(np.array_equal(data.array().reshape(-1), np.float32(MEAN[::-1])) for data in constants)
    run("verify", stored, stored.with_suffix(".xml"), "--layers")


@pytest.mark.parametrize("target", ["cpu", "cpu@2023.3", "any"])
@pytest.mark.parametrize("fuse", [True, False])
def test_an_older_release_and_an_ir_as_source(target: str, fuse: bool, stored: Path, tmp_path: Path) -> None:
    model = converter.convert_model(stored, preprocess={"image": STEPS}, target=target, fuse=fuse)
    converter.save_model(model, tmp_path / "first.xml")
    again = converter.convert_model(tmp_path / "first.xml", input={"image": [1, 30, 40, 3]}, target=target)
    converter.save_model(again, tmp_path / "second.xml")
    for name in ("first", "second"):
        report = converter.verify(stored, tmp_path / f"{name}.xml", layers=True, engine="openvino")
        assert report.passed, report.verdict
        assert not report.layers_problem
    assert converter.verify(tmp_path / "first.xml", tmp_path / "second.xml").passed


def test_where_preprocessing_ends(tmp_path: Path) -> None:
    """Layers and weights are compared behind it; where that place is hidden, the report tells that they are not."""
    model = model_of_pictures(first="Sub")
    steps = Preprocess(mean=MEAN, scale=SCALE, reverse_channels=True, model_layout="nchw")
    converter.save_model(converter.convert_model(model, preprocess={"image": steps}), tmp_path / "first.xml")
    again = converter.convert_model(tmp_path / "first.xml")
    converter.save_model(again, tmp_path / "second.xml")
    report = converter.verify(model, tmp_path / "second.xml", layers=True)
    assert report.passed, report.verdict
    assert not report.layers_problem
    assert report.weights
    for node in again.nodes():
        node.name = f"{node.name}/renamed"
    report = converter.verify(model, again, layers=True)
    assert report.passed, report.verdict
    assert "hides where its preprocessing ends" in report.layers_problem
    assert any("weights were not compared" in note for note in report.notes)


def test_other_batches_and_sizes(stored: Path, tmp_path: Path) -> None:
    """Other dimensions, here and by OpenVINO's ``set_batch``, which needs the layout."""
    steps = {"image": STEPS}
    converter.save_model(converter.convert_model(stored, preprocess=steps), tmp_path / "m.xml")
    read = openvino.Core().read_model(str(tmp_path / "m.xml"))
    openvino.set_batch(read, 2)
    given = picture(2, 20, 30, 3)
    wanted = openvino.compile_model(read, "CPU", EXACT)([given])["scores"]
    model = ir_runtime.read_model(tmp_path / "m.xml")
    model.reshape({"image": [2, 20, 30, 3]})
    np.testing.assert_allclose(ir_runtime.compile_model(model)([given])["scores"], wanted, rtol=1e-4, atol=1e-4)
    one = converter.convert_model(stored, preprocess=steps, batch=2)
    np.testing.assert_allclose(ir_runtime.compile_model(one)([given])["scores"], wanted, rtol=1e-4, atol=1e-4)


def test_two_inputs_and_an_input_that_is_returned() -> None:
    model = parse("""two (float[1,3,4,5] left, float[1,3,4,5] right) => (float[1,3,4,5] sum, float[1,3,4,5] left_again)
                  { sum = Add (left, right) left_again = Identity (left) }""")  # fmt: skip
    steps = {
        "left": Preprocess(mean=MEAN, reverse_channels=True, model_layout="nchw"),
        "right": Preprocess(**U8, scale=255),
    }
    made = converter.convert_model(model, preprocess=steps, postprocess={"sum": Postprocess(element_type="f16")})
    report = converter.verify(model, made, layers=True)
    assert report.passed, report.verdict
    left, right = picture(1, 3, 4, 5, kind="f32"), picture(1, 4, 5, 3)
    found = ir_runtime.compile_model(made)({"left": left, "right": right})
    wanted = left[:, ::-1] - np.float32(MEAN).reshape(1, 3, 1, 1)
    np.testing.assert_allclose(found["left_again"], wanted, rtol=1e-6)
    np.testing.assert_allclose(found["sum"], wanted + right.transpose(0, 3, 1, 2) / 255, rtol=2e-3, atol=0.2)


@pytest.mark.parametrize("fold", [False, True])
def test_exported_and_converted_again(fold: bool, stored: Path, tmp_path: Path) -> None:
    """The ONNX model does the steps itself, and ``verify`` does not do them a second time."""
    steps = Preprocess(**U8, mean=MEAN, scale=SCALE, fold=fold)
    onnx.save(model_of_pictures(padding=1 - fold), stored)
    behind = {"scores": Postprocess(layout="nhwc", model_layout="nchw")}
    converter.save_model(
        converter.convert_model(stored, preprocess={"image": steps}, postprocess=behind), tmp_path / "m.xml"
    )
    run("export", tmp_path / "m.xml", "-o", tmp_path / "back.onnx", "--verify")
    again = converter.convert_model(tmp_path / "back.onnx")
    assert converter.verify(tmp_path / "back.onnx", again).passed
    assert converter.verify(stored, again).passed
    run("roundtrip", tmp_path / "back.onnx")
    older = converter.convert_model(tmp_path / "m.xml", target="cpu@2024.6")
    converter.save_model(older, tmp_path / "older.xml", compress="int8")
    assert converter.verify(stored, tmp_path / "older.xml").passed


def test_openvino_writes_the_record_again(stored: Path, tmp_path: Path) -> None:
    converter.save_model(converter.convert_model(stored, preprocess={"image": STEPS}), tmp_path / "m.xml")
    openvino.save_model(openvino.Core().read_model(str(tmp_path / "m.xml")), tmp_path / "t.xml", compress_to_fp16=False)
    assert recorded(tmp_path / "t.xml").inputs == recorded(tmp_path / "m.xml").inputs
    assert converter.verify(stored, tmp_path / "t.xml").passed
    assert compiled(tmp_path / "t.xml").input("image").get_element_type() == openvino.Type.u8


PAGE = (Path(__file__).parents[3] / "docs" / "preprocessing.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found is not None
    return found[1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is read from Python 3.11 on")
def test_python_and_the_file_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of_pictures(), "model.onnx")
    names: dict[str, Any] = {}
    exec(block("python"), names)
    Path("steps.toml").write_text(block("toml").replace("logits", "scores"))
    by_file = converter.convert_model("model.onnx", preprocess="steps.toml")
    assert Recorded.of(names["model"]).inputs == Recorded.of(by_file).inputs
    assert Recorded.of(by_file).outputs["scores"].element_type == "f16"
    assert converter.verify("model.onnx", by_file).passed


# --- numbers and layers of OpenVINO's PrePostProcessor ---


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
