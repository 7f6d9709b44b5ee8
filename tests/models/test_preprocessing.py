"""Real models with photographs' preprocessing: the numbers and the executed layers of OpenVINO's PrePostProcessor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import converter
from converter import Preprocess
from tests.converter.preprocessing.pictures import MEAN, SCALE, both, compiled, executed
from tests.models.sources import from_wheel, light

OCR = "rapidocr_onnxruntime/models/"

# name -> (file, input, shape of the model's pictures); the weights of the light ones are made from constants
MODELS = {
    "detector of skin": (("nudenet", "nudenet/320n.onnx"), "images", [1, 3, 320, 320]),
    "text direction": (("rapidocr-onnxruntime", f"{OCR}ch_ppocr_mobile_v2.0_cls_infer.onnx"), "x", [1, 3, 48, 192]),
    "text detector": (("rapidocr-onnxruntime", f"{OCR}ch_PP-OCRv4_det_infer.onnx"), "x", [1, 3, 160, 192]),
    "text recogniser": (("rapidocr-onnxruntime", f"{OCR}ch_PP-OCRv4_rec_infer.onnx"), "x", [1, 3, 48, 320]),
    "resnet50": (("resnet50",), "gpu_0/data_0", [1, 3, 224, 224]),
    "squeezenet": (("squeezenet",), "data_0", [1, 3, 224, 224]),
}


def photograph(height: int, width: int) -> np.ndarray:
    """Blocks of colours, u8 NHWC: noise alone is no picture."""
    blocks = np.random.default_rng(1).integers(0, 256, (1, height // 5 + 1, width // 5 + 1, 3))
    return np.kron(blocks, np.ones((1, 5, 5, 1)))[:, :height, :width].astype(np.uint8)


@pytest.mark.parametrize("resize", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("name", MODELS)
def test_photographs_of_any_size(name: str, resize: str, tmp_path: Path) -> None:
    place, taken, shape = MODELS[name]
    path = light(*place) if len(place) == 1 else from_wheel(*place)
    steps = Preprocess(
        element_type="u8",
        layout="nhwc",
        model_layout="nchw",
        mean=MEAN,
        scale=SCALE,
        reverse_channels=True,
        resize=resize,
    )
    ours, theirs = (compiled(file) for file in both(path, tmp_path, steps, name=taken, input={taken: shape}))
    for size in ((97, 131), (480, 640), (20, 30)):
        for found, wanted in zip(ours([photograph(*size)]).values(), theirs([photograph(*size)]).values()):
            np.testing.assert_array_equal(found, wanted)
    assert executed(ours) <= executed(theirs)


def test_verify_with_photographs(tmp_path: Path) -> None:
    place, taken, shape = MODELS["text direction"]
    steps = Preprocess(
        element_type="u8", layout="nhwc", mean=127.5, scale=127.5, resize="linear", reverse_channels=True
    )
    model = converter.convert_model(from_wheel(*place), input={taken: shape}, preprocess={taken: steps})
    converter.save_model(model, tmp_path / "m.xml")
    given = {taken: photograph(97, 131)}
    report = converter.verify(from_wheel(*place), tmp_path / "m.xml", inputs=given, engine="openvino", layers=True)
    assert report.passed, report.verdict
    assert not report.unproven
