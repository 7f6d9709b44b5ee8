"""``preprocessor_config.json`` in front of a model: the numbers of Pillow's algorithm, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from click.testing import CliRunner

import converter
import ir_runtime
from converter.command_line import main
from converter.errors import ConversionError, UnsupportedModelError
from tests.converter.pipelines.images import DEVIATION, MEAN, SQUARE, STEPS, write_image_folder

from .graphs import Graph
from .texts import text_encoder, write_text_folder

CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 17}, "crop_size": SQUARE, "resample": 3}


def images(*shapes: tuple[int, int]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*shape, 3)).astype(np.uint8) for shape in shapes]


def resized(image: np.ndarray, sizes: tuple[int, int], *, is_cubic: bool) -> np.ndarray:
    """Pillow's resampling of bytes: rows first, with weights and sums in units of 2 ** -22."""
    values = image.astype(np.int64)
    for axis in (1, 0):
        length, count = values.shape[axis], sizes[axis]
        if length == count:
            continue
        rows = []
        stretch = max(length / count, 1.0)
        reach = stretch * (2 if is_cubic else 1)
        for index in range(count):
            middle = (index + 0.5) * length / count
            first, last = max(int(middle - reach + 0.5), 0), min(int(middle + reach + 0.5), length)
            x = np.abs((np.arange(first, last) - middle + 0.5) / stretch)
            weights = np.maximum(1 - x, 0)
            if is_cubic:
                weights = np.where(
                    x < 1, (1.5 * x - 2.5) * x * x + 1, np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0)
                )
            fixed = weights / weights.sum() * 2**22
            fixed = np.where(fixed < 0, np.ceil(fixed - 0.5), np.floor(fixed + 0.5)).astype(np.int64)
            part = np.moveaxis(values, axis, 0)[first:last]
            rows.append(np.clip((np.tensordot(fixed, part, (0, 0)) + 2**21) >> 22, 0, 255))
        values = np.stack(rows, axis)
    return values


def middle(image: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    top, left = ((length - size) // 2 for length, size in zip(image.shape, sizes))
    return image[top : top + sizes[0], left : left + sizes[1]]


def normalized(image: np.ndarray) -> np.ndarray:
    return (image / 255 - MEAN) / DEVIATION


def shorter(image: np.ndarray, side: int, *, is_cubic: bool) -> np.ndarray:
    """Resize so that the shorter side is ``side``."""
    height, width = (int(side * length / min(image.shape[:2])) for length in image.shape[:2])
    return resized(image, (height, width), is_cubic=is_cubic)


ROWS: dict[str, tuple[dict[str, Any], Any]] = {
    "both sides": ({}, lambda image: normalized(resized(image, (13, 11), is_cubic=False))),
    "bicubic, the shorter side, the middle": (
        CLIP, lambda image: normalized(middle(shorter(image, 17, is_cubic=True), (13, 11))),
    ),
    "the shorter side alone": (
        {**CLIP, "do_center_crop": False}, lambda image: normalized(shorter(image, 17, is_cubic=True)),
    ),
    "the middle of both sides": (
        {"image_processor_type": "DeiTImageProcessor", "size": {"height": 19, "width": 14}, "crop_size": SQUARE},
        lambda image: normalized(middle(resized(image, (19, 14), is_cubic=False), (13, 11))),
    ),
    "the share of ConvNext": (
        {"image_processor_type": "ConvNextFeatureExtractor", "size": 14, "crop_pct": 0.8},
        lambda image: normalized(middle(shorter(image, 17, is_cubic=False), (14, 14))),
    ),
    "blue first, not normalized": (
        {
            "image_processor_type": "MobileViTImageProcessor",
            "size": {"shortest_edge": 17}, "crop_size": SQUARE, "do_normalize": None,
        },
        lambda image: middle(shorter(image, 17, is_cubic=False), (13, 11))[..., ::-1] / 255,
    ),
    "not rescaled": (
        {"image_processor_type": "SegformerImageProcessorFast", "do_rescale": False, "size": 13},
        lambda image: (resized(image, (13, 13), is_cubic=False) - MEAN) / DEVIATION,
    ),
    "not resized": ({"do_resize": False}, normalized),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), ROWS.values(), ids=ROWS)
def test_numbers(tmp_path: Path, changes: dict[str, Any], expected: Any) -> None:
    settings = {**STEPS, **changes}
    write_image_folder(tmp_path / "onnx", settings)
    converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images=True)
    path = tmp_path / "ir/openvino_model.xml"
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    own = ir_runtime.compile_model(ir_runtime.read_model(path))
    step = (settings["rescale_factor"] if settings["do_rescale"] else 1) * 1.5
    step /= min(DEVIATION) if settings["do_normalize"] else 1
    for image in images((31, 23), (29, 53), (19, 17)):
        right = 1.5 * expected(image).transpose(2, 0, 1)[None]
        for result in (compiled([image[None]])[0], own([image[None]])["last_hidden_state"]):
            assert result.shape == right.shape
            difference = np.abs(result - right) / step
            assert difference.max() < 1.001, "a step of a byte, where a sum lies halfway"
            assert (difference > 1e-3).mean() < 0.02
    assert not (tmp_path / "ir/preprocessor_config.json").exists()
    report = converter.verify(tmp_path / "onnx/model.onnx", path)
    assert report.passed, report.verdict


def test_command_and_settings_among_others(tmp_path: Path) -> None:
    write_image_folder(tmp_path / "onnx", {"image_processor": STEPS}, name="processor_config.json")
    arguments = ["convert", tmp_path / "onnx", "-o", tmp_path / "ir", "--preprocess-images"]
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    model = ir_runtime.read_model(tmp_path / "ir/openvino_model.xml")
    assert str(model.parameters[0].outputs[0].type) == "u8[?,1..,1..,3]"


def test_a_file_of_one_size(tmp_path: Path) -> None:
    """The height and the width of the file have to be those of the settings."""
    write_image_folder(tmp_path / "onnx", STEPS)
    model = onnx.load(tmp_path / "onnx/model.onnx")
    for index, length in ((2, 13), (3, 12)):
        model.graph.input[0].type.tensor_type.shape.dim[index].dim_value = length
    onnx.save(model, tmp_path / "onnx/model.onnx")
    with pytest.raises(ConversionError, match="has the height and width 13, 12, but size is"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images=True)
    assert not (tmp_path / "ir").exists()


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "another class": ({"image_processor_type": "YolosImageProcessor"}, UnsupportedModelError,
                      "is for YolosImageProcessor, but steps can be taken from the settings of Beit, Bit"),
    "no class": ({"image_processor_type": None}, ConversionError, "must name its class as 'image_processor_type'"),
    "another filter": ({"resample": 1}, UnsupportedModelError, "the filter 'resample': 1"),
    "padding": ({"do_pad": True}, UnsupportedModelError, "requires do_pad"),
    "a multiple": ({"ensure_multiple_of": 14}, UnsupportedModelError, "ensure_multiple_of 14"),
    "the ratio": ({"keep_aspect_ratio": True}, UnsupportedModelError, "requires keep_aspect_ratio"),
    "the longer side": ({"size": {"shortest_edge": 8, "longest_edge": 20}}, UnsupportedModelError, "rounded to integers"),
    "a wider middle": ({**CLIP, "crop_size": 18}, UnsupportedModelError, r"a crop to \(18, 18\) of images of the size 17, which pads"),
    "the middle alone": ({"do_resize": False, "do_center_crop": True}, UnsupportedModelError, "do_center_crop without do_resize"),
    "no size": ({"size": None}, ConversionError, "'size' in preprocessor_config.json must have 'height' and 'width', or"),
    "a wrong size": ({"size": {"height": 3.5, "width": 2}}, ConversionError, "must have 'height' and 'width'"),
    "a wrong switch": ({"do_resize": "yes"}, ConversionError, "'do_resize' .* must be true or false, but is 'yes'"),
    "no mean": ({"image_mean": [1, 2]}, ConversionError, "'image_mean' .* must be 3 numbers"),
    "a wrong factor": ({"rescale_factor": 0}, ConversionError, "'rescale_factor' .* must be a positive number, but is 0"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    write_image_folder(tmp_path / "onnx", {**STEPS, **changes})
    with pytest.raises(error, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images=True)
    assert not (tmp_path / "ir").exists()


def test_folders_without_images(tmp_path: Path) -> None:
    write_text_folder(tmp_path / "texts", text_encoder(), {"model_type": "bert"})
    with pytest.raises(ConversionError, match=r"a single model of 'pixel_values', but .* is for feature-extraction"):
        converter.convert_folder(tmp_path / "texts", tmp_path / "ir", preprocess_images=True)
    write_image_folder(tmp_path / "onnx", STEPS)
    (tmp_path / "onnx/preprocessor_config.json").unlink()
    with pytest.raises(ConversionError, match=r"has no preprocessor_config\.json, from which preprocess_images takes"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images=True)
    with pytest.raises(ConversionError, match="preprocess_images must be True or False"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images="yes")
    write_image_folder(tmp_path / "onnx", STEPS)
    steps = {"pixel_values": converter.Preprocess(scale=255)}
    with pytest.raises(ConversionError, match=r"takes the steps from preprocessor_config\.json: give no other steps"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images=True, preprocess=steps)
    assert json.loads((tmp_path / "onnx/preprocessor_config.json").read_text())["resample"] == 2


@pytest.mark.parametrize(("saving", "tolerance"), [({"compress": "int8"}, 0.01), ({"compress_to_fp16": True}, 1e-3)])
def test_weights_behind_the_steps_are_compressed(tmp_path: Path, saving: dict[str, Any], tolerance: float) -> None:
    """Their own numbers stay as they are: the tolerance is that of the weights."""
    write_image_folder(tmp_path / "onnx", STEPS)
    graph = Graph()
    outputs = {"last_hidden_state": (graph.convolution("pixel_values", 3, 64), ["b", 64, 13, 11])}
    model = graph.model({"pixel_values": (np.float32, ["b", 3, 13, 11])}, outputs)
    onnx.save(model, tmp_path / "onnx/model.onnx")
    results = []
    for options in ({}, saving):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images=True, **options)
        ir = ir_runtime.read_model(tmp_path / "ir/openvino_model.xml")
        results.append(ir_runtime.compile_model(ir)([images((20, 30))[0][None]])[0])
    exact, compressed = results
    difference = np.abs(exact - compressed).max()
    assert 0 < difference < tolerance * np.abs(exact).max()
