"""Images in openvino-genai: those that onnxruntime computes with the same steps and the same noise."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import openvino
import openvino_genai
import pytest

import converter
from converter.errors import ConversionError, UnsupportedModelError

from .diffusion_oracle import Flow, Images
from .images import CLASSES, FLOWS, LENGTH, SIZE, encode_padded, text_encoder, write_diffusion_folder
from .texts import write_json

PROMPT = "a cat"
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32"}
OPTIONS = {"sd": (4, 5.0), "lcm": (4, 5.0), "xl": (3, 3.0)}
"""Steps and guidance."""


def assert_same(image: np.ndarray, expected: np.ndarray) -> None:
    """openvino-genai cuts what is behind the point off."""
    assert expected.std() > 20, "an image of one colour proves little"
    assert np.abs(image - expected).max() < 1.05


@pytest.mark.parametrize("kind", FLOWS)
def test_images_by_transformers(tmp_path: Path, kind: str) -> None:
    source, target = tmp_path / "onnx", tmp_path / "ir"
    write_diffusion_folder(source, kind, prefix="ORT")
    converter.convert_folder(source, target)
    expected = Flow(source, partial(encode_padded, source)).generate(PROMPT, steps=3, guidance=4.0, seed=3)
    pipeline = openvino_genai.Text2ImagePipeline(target, "CPU", **PROPERTIES)
    size = {"height": 2 * SIZE, "width": 2 * SIZE, "max_sequence_length": LENGTH}
    options = {"num_inference_steps": 3, "guidance_scale": 4.0, **size}
    image = pipeline.generate(PROMPT, generator=openvino_genai.CppStdGenerator(3), **options).data
    assert_same(image, expected)


@pytest.mark.parametrize("kind", OPTIONS)
def test_images(tmp_path: Path, kind: str) -> None:
    source, target = tmp_path / "onnx", tmp_path / "ir"
    write_diffusion_folder(source, kind, prefix="" if kind == "sd" else "ORT")
    written = converter.convert_folder(source, target)
    assert (written.pipeline.task, written.pipeline.runtime) == ("text-to-image", "Text2ImagePipeline")
    assert all(one.written for one in written.tokenizers), written.tokenizers
    index = json.loads((target / "model_index.json").read_text())
    assert (index["_class_name"], index["unet"][1]) == (CLASSES[kind], "UNet2DConditionModel")
    oracle = Images(source, partial(encode_padded, source))
    steps, guidance = OPTIONS[kind]
    options = {"num_inference_steps": steps, "guidance_scale": guidance}

    pipeline = openvino_genai.Text2ImagePipeline(target, "CPU", **PROPERTIES)
    image = pipeline.generate(PROMPT, generator=openvino_genai.CppStdGenerator(3), **options).data
    assert_same(image, oracle.generate(PROMPT, steps=steps, guidance=guidance, seed=3))

    random = np.random.default_rng(0)
    start = random.integers(0, 256, (1, 2 * SIZE, 2 * SIZE, 3)).astype(np.uint8)
    other = openvino_genai.Image2ImagePipeline(target, "CPU", **PROPERTIES)
    image = other.generate(
        PROMPT, openvino.Tensor(start), strength=0.75, generator=openvino_genai.CppStdGenerator(4), **options
    ).data
    assert_same(image, oracle.generate(PROMPT, steps=steps, guidance=guidance, seed=4, image=start, strength=0.75))

    mask = np.zeros((1, 2 * SIZE, 2 * SIZE, 1), np.uint8)
    mask[:, 4:12, 2:10] = 255
    painting = openvino_genai.InpaintingPipeline(target, "CPU", **PROPERTIES)
    image = painting.generate(
        *(PROMPT, openvino.Tensor(start), openvino.Tensor(mask)),
        strength=1.0,
        generator=openvino_genai.CppStdGenerator(5),
        **options,
    ).data
    assert_same(image, oracle.generate(PROMPT, steps=steps, guidance=guidance, seed=5, image=start, mask=mask))


def test_every_part_is_compressed(tmp_path: Path) -> None:
    write_diffusion_folder(tmp_path / "onnx", "sd")
    plain, small = (
        converter.convert_folder(tmp_path / "onnx", tmp_path / str(name), compress=name) for name in (None, "int8")
    )
    for whole, part in zip(plain.models, small.models):
        assert part.with_suffix(".bin").stat().st_size < 0.7 * whole.with_suffix(".bin").stat().st_size, part


def test_variants_of_all_parts(tmp_path: Path) -> None:
    write_diffusion_folder(tmp_path / "onnx", "sd")
    for model in (tmp_path / "onnx").glob("*/model.onnx"):
        model.rename(model.with_name("model_fp16.onnx"))
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", variant="fp16")
    assert {part.source.name for part in written.pipeline.parts} == {"model_fp16.onnx"}


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _index(**values: object) -> Callable[[Path], None]:
    return lambda folder: write_json(folder / "model_index.json", values)


def _other_denoiser(folder: Path) -> None:
    onnx.save(text_encoder(), folder / "unet/model.onnx")


WRONG: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "no denoiser": (_without("unet/model.onnx"), ConversionError, r"needs unet/model.onnx, but .* has no ONNX file"),
    "no settings": (_without("vae_decoder/config.json"), ConversionError, "has no config.json, which openvino-genai reads"),
    "another pipeline": (_index(_class_name="PixArtPipeline"), UnsupportedModelError,
                         "names the pipeline 'PixArtPipeline', but those of openvino-genai are StableDiffusionPipeline"),
    "another denoiser": (_other_denoiser, UnsupportedModelError,
                         "reads 'input_ids', too: openvino-genai gives the denoiser sample, timestep"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "error", "message"), WRONG.values(), ids=WRONG)
def test_errors(tmp_path: Path, spoil: Callable[[Path], None], error: type[Exception], message: str) -> None:
    write_diffusion_folder(tmp_path / "onnx", "sd")
    spoil(tmp_path / "onnx")
    with pytest.raises(error, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()
