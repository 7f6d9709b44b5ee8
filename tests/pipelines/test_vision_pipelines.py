"""Models of images and texts in openvino-genai: token by token what the parts say in onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import openvino
import openvino_genai
import pytest

import converter
import ir_runtime
from converter.errors import ConversionError, UnsupportedModelError
from tests.language_models.decoders import Decoder

from .texts import write_json
from .vision import IMAGE, PATCH, SIDE, VisionLanguageModel, vision_encoder, write_vision_folder

TOKENS = 32
GREEDY = openvino_genai.GenerationConfig(
    max_new_tokens=TOKENS, do_sample=False, ignore_eos=True, apply_chat_template=False
)
STATES = IMAGE * (SIDE // PATCH) ** 2


def images(count: int) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8) for _ in range(count)]


def pipeline(folder: Path, backend: str) -> openvino_genai.VLMPipeline:
    return openvino_genai.VLMPipeline(
        folder, "CPU", ATTENTION_BACKEND=backend, INFERENCE_PRECISION_HINT="f32", KV_CACHE_PRECISION="f32"
    )


FOLDERS = {
    "grouped": (Decoder(), 3),
    "without positions": (Decoder("onnx", positions=False), 2),
}
"""Decoders, and the rank of the images' states."""


@pytest.mark.parametrize(("decoder", "rank"), FOLDERS.values(), ids=FOLDERS)
def test_llava(tmp_path: Path, decoder: Decoder, rank: int) -> None:
    write_vision_folder(tmp_path / "onnx", decoder, rank=rank)
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.runtime) == ("image-text-to-text", "VLMPipeline")
    assert not written.without_paged_attention
    reference = VisionLanguageModel(tmp_path / "onnx")
    asked = {
        "what is it": ("what is it", 0),
        f"{STATES}\nwhat is it": ("what is it", 1),
        f"{STATES}\nand {STATES}\nwhat differs": (f"{IMAGE}and {IMAGE}what differs", 2),
    }
    expected = {text: reference.generate(text, images(count), TOKENS) for text, (_, count) in asked.items()}
    assert len({token for row in expected.values() for token in row}) > 10, "few tokens prove little"
    for backend in ("SDPA", "PA"):
        model = pipeline(tmp_path / "ir", backend)
        for text, (prompt, count) in asked.items():
            parts = [openvino.Tensor(image[None]) for image in images(count)]
            result = model.generate(prompt, images=parts, generation_config=GREEDY)
            assert result.texts == [reference.decode(expected[text])], (backend, text)


def test_each_part_is_compressed_in_its_way(tmp_path: Path) -> None:
    write_vision_folder(tmp_path / "onnx", Decoder(), ending="_fp16")
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", compress="int4")
    types = {
        path.name.removeprefix("openvino_").removesuffix("_model.xml"): {
            node.op.data.element_type.name
            for node in ir_runtime.read_model(path).nodes()
            if node.op.data is not None and node.op.data.size >= 1024
        }
        for path in written.models
    }
    assert types["vision_embeddings"] == {"f16"}
    assert types["text_embeddings"] == {"u8"}
    assert "u4" in types["language"] or "i4" in types["language"]
    pipeline(tmp_path / "ir", "SDPA").generate("what is it", generation_config=GREEDY)


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _type(name: str | None) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / "config.json").read_text())
        write_json(folder / "config.json", {**settings, "model_type": name})

    return change


def _reads_sizes(folder: Path) -> None:
    onnx.save(vision_encoder(inputs=("pixel_values", "image_sizes")), folder / "onnx/vision_encoder.onnx")


WRONG: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "no embeddings": (_without("onnx/embed_tokens.onnx"), ConversionError,
                      "has vision_encoder.onnx, but no embed_tokens.onnx: it has onnx/decoder_model_merged.onnx"),
    "no decoder": (_without("onnx/decoder_model_merged.onnx"), ConversionError, "but no decoder_model_merged.onnx"),
    "no preprocessor": (_without("preprocessor_config.json"), ConversionError, "has no preprocessor_config.json, by which"),
    "no type": (_type(None), ConversionError, "config.json must name the 'model_type'"),
    "another type": (_type("idefics3"), UnsupportedModelError,
                     "is of the type 'idefics3', but of those of VLMPipeline only llava"),
    "another encoder": (_reads_sizes, UnsupportedModelError,
                        "reads 'image_sizes', too: VLMPipeline gives this model pixel_values"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "error", "message"), WRONG.values(), ids=WRONG)
def test_errors(tmp_path: Path, spoil: Callable[[Path], None], error: type[Exception], message: str) -> None:
    write_vision_folder(tmp_path / "onnx", Decoder())
    spoil(tmp_path / "onnx")
    with pytest.raises(error, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()
