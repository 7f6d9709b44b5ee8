"""Models of images and texts in openvino-genai: token by token what the parts say in onnxruntime."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import openvino
import openvino_genai
import pytest
from onnxruntime.transformers.float16 import convert_float_to_float16

import converter
import ir_runtime
from converter.errors import ConversionError, UnsupportedModelError
from tests.converter.language_models.decoders import Decoder
from tests.converter.pipelines.vision import FAMILIES, Family

from .texts import write_json
from .vision import (
    SIDE,
    VisionLanguageModel,
    patch_encoder,
    rename_for_genai,
    vision_encoder,
    write_vision_folder,
)

TOKENS = 32
GREEDY = openvino_genai.GenerationConfig(
    max_new_tokens=TOKENS, do_sample=False, ignore_eos=True, apply_chat_template=False
)


def images(count: int, shape: tuple[int, int]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*shape, 3)).astype(np.uint8) for _ in range(count)]


def pipeline(folder: Path, backend: str) -> openvino_genai.VLMPipeline:
    return openvino_genai.VLMPipeline(
        folder, "CPU", ATTENTION_BACKEND=backend, INFERENCE_PRECISION_HINT="f32", KV_CACHE_PRECISION="f32"
    )


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_tokens(tmp_path: Path, family: Family) -> None:
    family.write(tmp_path / "onnx")
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.runtime) == ("image-text-to-text", "VLMPipeline")
    assert not written.without_paged_attention
    reference = VisionLanguageModel(tmp_path / "onnx")
    image, mark = family.image, family.mark
    prompts = {
        "what is it": ("what is it", 0),
        f"{image}what is it": ("what is it", 1),
        f"{image}and {image}what differs": (f"{mark}and {mark}what differs", 2),
    }
    expected = {
        text: reference.generate(text, images(count, family.shape), TOKENS) for text, (_, count) in prompts.items()
    }
    assert len({token for row in expected.values() for token in row}) > 10, "few tokens prove little"
    for backend in family.backends:
        model = pipeline(tmp_path / "ir", backend)
        for text, (prompt, count) in prompts.items():
            parts = [openvino.Tensor(image[None]) for image in images(count, family.shape)]
            result = model.generate(prompt, images=parts, generation_config=GREEDY)
            assert result.texts == [reference.decode(expected[text])], (backend, text)


def test_halved_files(tmp_path: Path) -> None:
    """Halved with inputs and outputs as they are, but for the embeddings: computed in float32, with rounded weights."""
    FAMILIES["llava"].write(tmp_path / "onnx")
    shutil.copytree(tmp_path / "onnx", tmp_path / "rounded")
    for path in (tmp_path / "onnx/onnx").glob("*.onnx"):
        has_float_ends = path.stem != "embed_tokens"
        onnx.save(convert_float_to_float16(onnx.load(path), keep_io_types=has_float_ends), path)
        rounded = onnx.load(tmp_path / "rounded/onnx" / path.name)
        for tensor in rounded.graph.initializer:
            value = onnx.numpy_helper.to_array(tensor)
            if value.dtype == np.float32:
                value = value.clip(-65504, 65504).astype(np.float16).astype(np.float32)
                tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
        onnx.save(rounded, tmp_path / "rounded/onnx" / path.name)
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not written.without_paged_attention
    text, parts = f"{FAMILIES['llava'].image}what is it", images(1, (SIDE, SIDE))
    reference = VisionLanguageModel(tmp_path / "rounded")
    expected = reference.decode(reference.generate(text, parts, TOKENS))
    for backend in ("SDPA", "PA"):
        shown = [openvino.Tensor(image[None]) for image in parts]
        result = pipeline(tmp_path / "ir", backend).generate("what is it", images=shown, generation_config=GREEDY)
        assert result.texts == [expected], backend


def test_folder_for_onnxruntime_genai(tmp_path: Path) -> None:
    FAMILIES["llava"].write(tmp_path / "onnx")
    text, parts = f"{FAMILIES['llava'].image}what is it", images(1, (SIDE, SIDE))
    reference = VisionLanguageModel(tmp_path / "onnx")
    expected = reference.generate(text, parts, TOKENS)
    rename_for_genai(tmp_path / "onnx")
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert [part.source.name for part in written.pipeline.parts] == [
        *("tiny-vision.onnx", "tiny-embedding.onnx", "tiny-decoder.onnx")
    ]
    settings = json.loads((tmp_path / "ir/generation_config.json").read_text())
    assert (settings["eos_token_id"], settings["max_length"]) == (2, 128)
    result = pipeline(tmp_path / "ir", "PA").generate(
        "what is it", images=[openvino.Tensor(image[None]) for image in parts], generation_config=GREEDY
    )
    assert result.texts == [reference.decode(expected)]


def test_settings_of_images_among_others(tmp_path: Path) -> None:
    FAMILIES["internvl"].write(tmp_path / "onnx")
    alone = tmp_path / "onnx/preprocessor_config.json"
    settings = json.loads(alone.read_text())
    write_json(tmp_path / "onnx/processor_config.json", {"image_processor": settings, "processor_class": "Any"})
    alone.unlink()
    converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    written = json.loads((tmp_path / "ir/preprocessor_config.json").read_text())
    assert written == {**settings, "size": {**settings["size"], "shortest_edge": SIDE}}


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


def _decoder_alone(folder: Path) -> None:
    for name in ("vision_encoder", "embed_tokens"):
        (folder / f"onnx/{name}.onnx").unlink()


def _internvl_without_size(folder: Path) -> None:
    _type("internvl")(folder)
    write_json(folder / "preprocessor_config.json", {"image_mean": [0, 0, 0]})


def _reads_sizes(folder: Path) -> None:
    onnx.save(vision_encoder(inputs=("pixel_values", "image_sizes")), folder / "onnx/vision_encoder.onnx")


WRONG: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "no embeddings": (_without("onnx/embed_tokens.onnx"), ConversionError,
                      "has vision_encoder.onnx and decoder_model_merged.onnx, but no embed_tokens.onnx"),
    "no decoder": (_without("onnx/decoder_model_merged.onnx"), ConversionError, "but no decoder_model_merged.onnx"),
    "a decoder alone": (_decoder_alone, ConversionError, "reads 'inputs_embeds', but .* has no model of embeddings beside it"),
    "no preprocessor": (_without("preprocessor_config.json"), ConversionError, "has no preprocessor_config.json, and no processor_config.json with an 'image_processor'"),
    "no size": (_internvl_without_size, ConversionError, "must have a 'size' with 'height', the side of the images' tiles"),
    "no encoder": (_without("onnx/vision_encoder.onnx"), ConversionError, "but no vision_encoder.onnx"),
    "no type": (_type(None), ConversionError, "config.json must name the 'model_type'"),
    "another type": (_type("phi3_v"), UnsupportedModelError,
                     "of the type 'phi3_v', whose tiles .*; of those of VLMPipeline gemma3, .*, qwen3_vl can be"),
    "a type that is not listed": (_type("paligemma"), UnsupportedModelError, "is of the type 'paligemma'; of those of"),
    "another encoder": (_reads_sizes, UnsupportedModelError,
                        "reads 'image_sizes', too: VLMPipeline gives this model pixel_values"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["idefics3", "smolvlm"])
def test_types_that_the_runtime_does_not_know(tmp_path: Path, name: str) -> None:
    """The reason of the refusal is true: VLMPipeline refuses the type by itself."""
    write_vision_folder(tmp_path / "onnx", Decoder())
    converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    for folder in ("onnx", "ir"):
        _type(name)(tmp_path / folder)
    with pytest.raises(UnsupportedModelError, match=r"which VLMPipeline of openvino-genai 2026\.4 does not know"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "other")
    with pytest.raises(RuntimeError, match=f"Unsupported '{name}' VLM model type"):
        pipeline(tmp_path / "ir", "SDPA")


@pytest.mark.parametrize(("spoil", "error", "message"), WRONG.values(), ids=WRONG)
def test_errors(tmp_path: Path, spoil: Callable[[Path], None], error: type[Exception], message: str) -> None:
    write_vision_folder(tmp_path / "onnx", Decoder())
    spoil(tmp_path / "onnx")
    with pytest.raises(error, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()


def test_patches_in_another_order(tmp_path: Path) -> None:
    FAMILIES["qwen2_vl"].write(tmp_path / "onnx")
    path = tmp_path / "onnx/preprocessor_config.json"
    write_json(path, {**json.loads(path.read_text()), "merge_size": 1})
    with pytest.raises(UnsupportedModelError, match="positions of patches differ from what openvino-genai computes"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()


WINDOWS = {
    "other windows": ("qwen2_5_vl", 96, "the order of the tokens differs from what openvino-genai computes"),
    "no windows": ("qwen2_5_vl", 8, "'window_size' .* must be at least the side of a token, 2 patches, but is 8"),
    "windows of another type": ("qwen2_vl", 32, "the positions of patches differ|is read by .* for more than"),
}


@pytest.mark.parametrize(("model_type", "size", "message"), WINDOWS.values(), ids=WINDOWS)
def test_other_windows(tmp_path: Path, model_type: str, size: int, message: str) -> None:
    FAMILIES["qwen2_5_vl"].write(tmp_path / "onnx")
    path = tmp_path / "onnx/config.json"
    settings = json.loads(path.read_text())
    vision = {**settings["vision_config"], "window_size": size}
    write_json(path, {**settings, "model_type": model_type, "vision_config": vision})
    with pytest.raises(ConversionError, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()


def _vision(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        settings = json.loads((folder / "config.json").read_text())
        vision = {**settings["vision_config"], **changes}
        write_json(folder / "config.json", {**settings, "vision_config": vision})

    return change


def _encoder(**options: object) -> Callable[[Path], None]:
    return lambda folder: onnx.save(patch_encoder(**options), folder / "onnx/vision_encoder.onnx")  # type: ignore[arg-type]


TABLES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no number of positions": (_vision(num_position_embeddings=None), "must have 'num_position_embeddings', by which"),
    "no layers": (_vision(deepstack_visual_indexes=None), "must have 'deepstack_visual_indexes'"),
    "other layers": (_vision(deepstack_visual_indexes=[0, 1]), "'deepstack_embeds' has states for 1 layers, but .* 2"),
    "no square": (_vision(num_position_embeddings=35), "a square of positions .* but has 1 such sums and 35 positions"),
    "another square": (_vision(num_position_embeddings=64), "interpolated in another way than openvino-genai does"),
    "another interpolation": (_encoder(has_table=True, interpolation="half_pixel"), "interpolated in another way"),
    "no table": (_encoder(), "vision_encoder.onnx must return 'deepstack_features', which decoder layers add"),
}


@pytest.mark.parametrize(("spoil", "message"), TABLES.values(), ids=TABLES)
def test_other_tables(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    FAMILIES["qwen3_vl"].write(tmp_path / "onnx")
    spoil(tmp_path / "onnx")
    with pytest.raises(ConversionError, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()


def _equal_to_less(graph: onnx.GraphProto) -> None:
    next(node for node in graph.node if node.op_type == "Equal").op_type = "Less"


def _swap_shown_and_hidden(graph: onnx.GraphProto) -> None:
    node = next(node for node in graph.node if node.op_type == "Where")
    node.input[1], node.input[2] = node.input[2], node.input[1]


def _add_to_scores(graph: onnx.GraphProto) -> None:
    name = next(node for node in graph.node if node.op_type == "Where").input[1]
    value = next(tensor for tensor in graph.initializer if tensor.name == name)
    value.CopyFrom(onnx.numpy_helper.from_array(np.float32(1), name))


MASKS = {
    "triangles": (_equal_to_less, "the mask of attention hides patches of the same image, in another way"),
    "what is outside": (_swap_shown_and_hidden, "the mask of attention hides patches of the same image"),
    "numbers": (_add_to_scores, "the mask of attention adds other values than 0 to patches that it does not hide"),
}


@pytest.mark.parametrize(("spoil", "message"), MASKS.values(), ids=MASKS)
def test_other_masks(tmp_path: Path, spoil: Callable[[onnx.GraphProto], None], message: str) -> None:
    FAMILIES["qwen2_5_vl"].write(tmp_path / "onnx")
    path = tmp_path / "onnx/onnx/vision_encoder.onnx"
    model = onnx.load(path)
    spoil(model.graph)
    onnx.save(model, path)
    with pytest.raises(UnsupportedModelError, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")


SETTINGS = {
    "no embeddings": ({"vision": {}, "decoder": {}}, "but no 'embedding' in genai_config.json"),
    "no file": ({"embedding": {"filename": "other.onnx"}}, "names 'other.onnx', but there is no such file"),
}


@pytest.mark.parametrize(("parts", "message"), SETTINGS.values(), ids=SETTINGS)
def test_wrong_settings_of_onnxruntime_genai(tmp_path: Path, parts: dict[str, object], message: str) -> None:
    FAMILIES["llava"].write(tmp_path / "onnx")
    rename_for_genai(tmp_path / "onnx")
    path = tmp_path / "onnx/genai_config.json"
    model = json.loads(path.read_text())["model"]
    merged = {**model, **{name: {**model[name], **part} for name, part in parts.items()}}  # type: ignore[dict-item]
    if "embedding" not in parts:
        del merged["embedding"]
    write_json(path, {"model": merged})
    with pytest.raises(ConversionError, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
