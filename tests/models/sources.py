"""Real models from installed packages and from wheels that carry one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx

CACHE = Path(tempfile.gettempdir()) / "onnx2ir-test-models"
"""What takes long to get or to compute, for all checkouts of a user."""

WHEELS = {
    "rapidocr-onnxruntime": "1.4.4",
    "magika": "1.0.3",
    "silero-vad": "6.2.3",
    "onnx-asr": "0.12.0",
    "swift-f0": "0.3.0",
    "basic-pitch": "0.4.0",
    "nudenet": "3.4.2",
}


def light(name: str) -> Path:
    """One of the models in the installed onnx package, whose weights are made from constants."""
    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


@cache
def from_wheel(package: str, member: str) -> Path:
    """A file out of a package's wheel, downloaded once and kept in the temporary folder."""
    version = WHEELS[package]
    target = CACHE / f"{package}-{version}" / Path(member).name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            command = [
                sys.executable,
                *["-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d"],
                folder,
            ]
            subprocess.run([*command, f"{package}=={version}"], check=True)
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                partial = target.with_suffix(".part")
                partial.write_bytes(archive.read(member))
                partial.replace(target)
    return target


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


INNER = {"squeezenet": "r65"}
"""Scores of 1e9 before a Softmax that picks one of a thousand equal classes by their rounding."""


LIGHT = [
    "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet", "squeezenet", "vgg19",
    "zfnet512",
]  # fmt: skip


def file_bytes(name: str) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 257, (2, 2048)).astype(np.int32)


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
