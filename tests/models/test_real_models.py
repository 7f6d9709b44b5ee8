"""Real models, as their authors ship them: convert, load in OpenVINO, and give onnxruntime's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import converter
import ir_runtime
from ir_runtime.operations.interpolate import Interpolate11
from tests.engines import ENGINES, run
from tests.models.sources import from_wheel, light

LIGHT = [
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512",
]  # fmt: skip

OCR = "rapidocr_onnxruntime/models/"


def images(*shape: int) -> Callable[[str], np.ndarray]:
    """Pixels from 0 to 1.

    The light models' weights are all alike, so that their classes only differ by rounding and a
    Softmax over values around 10^10 picks one of them; inputs of mean 0 would test just that.
    """
    return lambda name: np.random.default_rng(0).random(shape, np.float32)


def pages(count: int, height: int, width: int) -> Callable[[str], np.ndarray]:
    """White pages with lines of black, letter-like blocks, from -1 to 1: noise alone is no text, and a
    detector's answer to it is a number around 10^-7 that means nothing."""

    def make(name: str) -> np.ndarray:
        generator = np.random.default_rng(0)
        paper = np.ones((count, 3, height, width), np.float32)
        for page in paper:
            for row in range(16, height - 24, 32):
                for column in range(8, width - 16, 10):
                    glyph = np.kron(generator.random((7, 4)) < 0.55, np.ones((2, 2)))
                    page[:, row : row + 14, column : column + 8] = 1 - 2 * glyph
        return paper

    return make


def file_bytes(name: str) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 257, (2, 2048)).astype(np.int32)


def sounds(*shape: int) -> Callable[[str], np.ndarray]:
    """A chirp with noise, at 16 kHz; how long each signal is, and the limits of a pitch in Hz."""

    def make(name: str) -> np.ndarray:
        if name in ("fmin", "fmax"):
            return np.array({"fmin": 50, "fmax": 1500}[name], np.float32)
        if name.endswith("lens"):
            return np.array([shape[-1], shape[-1] * 3 // 4][: shape[0]])
        time = np.arange(np.prod(shape[1:])) / 16000
        noise = np.random.default_rng(0).standard_normal((shape[0], time.size)) * 0.05
        chirp = 0.5 * np.sin(2 * np.pi * (220 + 300 * time) * time)
        return (chirp + noise).reshape(shape).astype(np.float32)

    return make


def features_of_speech(name: str) -> Path:
    """One of the networks that make features of signals: windows, STFT, mel scales, normalisation by length."""
    return from_wheel("onnx-asr", f"onnx_asr/preprocessors/data/{name}.onnx")


SPEECH = ["kaldi", "nemo80", "nemo128_conv", "gigaam_v3", "wespeaker", "resample_44_16", "resample_8_16"]

MODELS: dict[str, tuple[Callable[[], Path], Callable[[str], np.ndarray]]] = {
    **{name: ((lambda name=name: light(name)), images(1, 3, 224, 224)) for name in LIGHT},
    "pp-ocrv4-det": (lambda: from_wheel("rapidocr-onnxruntime", OCR + "ch_PP-OCRv4_det_infer.onnx"), pages(2, 96, 128)),
    "pp-ocrv4-rec": (lambda: from_wheel("rapidocr-onnxruntime", OCR + "ch_PP-OCRv4_rec_infer.onnx"), images(2, 3, 48, 160)),
    "pp-ocr-cls": (lambda: from_wheel("rapidocr-onnxruntime", OCR + "ch_ppocr_mobile_v2.0_cls_infer.onnx"), images(2, 3, 48, 192)),
    **{name: ((lambda name=name: features_of_speech(name)), sounds(2, 16000)) for name in SPEECH},
    "swift-f0": (lambda: from_wheel("swift-f0", "swift_f0/model.onnx"), sounds(1, 16000)),
    "basic-pitch": (lambda: from_wheel("basic-pitch", "basic_pitch/saved_models/icassp_2022/nmp.onnx"), sounds(1, 43844, 1)),
    "nudenet": (lambda: from_wheel("nudenet", "nudenet/320n.onnx"), images(1, 3, 320, 320)),
    "magika": (lambda: from_wheel("magika", "magika/models/standard_v3_3/model.onnx"), file_bytes),
}  # fmt: skip


INNER = {"squeezenet": "r65"}
"""Scores of 1e9 before a Softmax that picks one of a thousand equal classes by their rounding."""


def check(name: str, path: Path, ir: tuple[bytes, bytes], engines: Sequence[str] = ENGINES) -> None:
    """The IR in the engines against onnxruntime."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {port.name: MODELS[name][1](port.name) for port in session.get_inputs()}
    expected = session.run(None, feeds)
    for engine in engines:
        actual = run(engine, ir, feeds, [port.name for port in session.get_outputs()])
        for value, want in zip(actual, expected, strict=True):
            want = np.asarray(want)
            assert value.shape == want.shape
            assert value.dtype == want.dtype
            error = np.abs(value.astype(np.float64) - want).max() / np.abs(want).max()
            assert error < 1e-3, f"{engine}: relative error {error:.2g}"


@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    path = MODELS[name][0]()
    xml = tmp_path / "m.xml"
    converter.save_model(converter.convert_model(path), xml)
    written = (xml.read_bytes(), xml.with_suffix(".bin").read_bytes())
    assert ir_runtime.model_to_bytes(ir_runtime.read_model(xml)) == written
    if name in INNER:
        proto = onnx.load(path)
        del proto.graph.output[:]
        proto.graph.output.append(onnx.ValueInfoProto(name=INNER[name]))
        path = tmp_path / "inner.onnx"
        onnx.save(proto, path)
        written = ir_runtime.model_to_bytes(converter.convert_model(path))
    check(name, path, written)


REFUSED_PLAIN = {"wespeaker": "Signal size greater than input size"}
"""The plug-in's error for plain layers that a rule of the target replaces."""


@pytest.mark.parametrize("name", [name for name in MODELS if name not in LIGHT])
def test_the_plain_layers_of_a_model(name: str) -> None:
    path = MODELS[name][0]()
    plain = ir_runtime.model_to_bytes(converter.convert_model(path, target="any"))
    if name in REFUSED_PLAIN:
        check(name, path, plain, ["numpy"])
        with pytest.raises(RuntimeError, match=REFUSED_PLAIN[name]):
            check(name, path, plain, ["openvino"])
    else:
        check(name, path, plain)


def test_a_model_whose_dimensions_vary_runs_at_several_sizes() -> None:
    path = MODELS["pp-ocrv4-det"][0]()
    compiled = ir_runtime.compile_model(converter.convert_model(path))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for shape in [(1, 64, 96), (3, 96, 64)]:
        x = pages(*shape)("x")
        np.testing.assert_allclose(compiled({"x": x})[0], session.run(None, {"x": x})[0], atol=1e-3)


@pytest.mark.full
@pytest.mark.parametrize("layers", [None, True])
def test_a_wrong_resize_of_a_detector_is_found(layers: bool | None) -> None:
    """Random images leave its output at 1e-7; the first Resize makes four pixels of one at 32 x 32."""
    path = MODELS["pp-ocrv4-det"][0]()
    model = converter.convert_model(path)
    good = converter.verify(path, model, layers=layers)
    assert (good.verdict, good.unproven) == ("derived", ())
    node = next(node for node in model.nodes() if isinstance(node.op, Interpolate11))
    node.op = node.op.with_attributes(coordinate_transformation_mode="half_pixel", nearest_mode="ceil")
    report = converter.verify(path, model, layers=layers)
    assert not report.passed
    assert report.first_fault is not None
    assert report.first_fault.layer == node.name
    assert [layer.layer for layer in report.layers if not layer.local.passed] == [node.name]


def test_weights_made_from_constants_stay_small(tmp_path: Path) -> None:
    """VGG-19 holds 144 million weights, all of them made by ConstantOfShape."""
    converter.save_model(converter.convert_model(light("vgg19")), tmp_path / "m.xml")
    assert (tmp_path / "m.bin").stat().st_size < 10_000_000
