"""Images, speech and texts in openvino-genai: what onnxruntime and OpenVINO's frontend compute."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import openvino_genai
import openvino_tokenizers
import pytest
from onnxruntime.transformers.float16 import convert_float_to_float16
from openvino import opset13 as ops
from openvino.preprocess import PrePostProcessor

import converter
import ir_runtime
from converter.errors import UnsupportedModelError
from tests.converter.pipelines.images import DEVIATION, MEAN, SQUARE, STEPS, write_image_folder
from tests.converter.pipelines.texts import POOLINGS, TEXTS, Pooling
from tests.converter.pipelines.vision import FAMILIES, Family
from tests.converter.preprocessing.pictures import RESIZES
from tests.engines import core

from .images import CLASSES, FLOWS, LENGTH, SIZE, SPEAKER, Speech, write_diffusion_folder, write_speech_folder
from .texts import Graph, encode, run, text_encoder, write_json, write_pooling, write_text_folder
from .vision import SIDE, VisionLanguageModel, rename_for_genai

# --- images, speech and texts in openvino-genai: what onnxruntime computes ---

PROMPT = "a cat"
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32"}
EXACT = {**PROPERTIES, "KV_CACHE_PRECISION": "f32"}


def by_openvino(source: Path, ours: Path, target: Path) -> None:
    """Write the folder ``ours`` with the parts as OpenVINO reads them, their inputs of the types of ours."""
    shutil.copytree(ours, target)
    for path in source.glob("*/model.onnx"):
        xml = target / path.parent.name / "openvino_model.xml"
        # Exporters trace the time as a scalar, and the pipeline sets a vector.
        model = openvino.convert_model(path, input=[("timestep", [1])] if path.parent.name == "unet" else None)
        steps = openvino.preprocess.PrePostProcessor(model)
        for port in core().read_model(xml).inputs:
            steps.input(port.any_name).tensor().set_element_type(port.element_type)
        openvino.save_model(steps.build(), xml, compress_to_fp16=False)


@pytest.mark.parametrize("kind", CLASSES)
def test_images(tmp_path: Path, kind: str) -> None:
    source, target = tmp_path / "onnx", tmp_path / "ir"
    write_diffusion_folder(source, kind, prefix="" if kind == "sd" else "ORT")
    written = converter.convert_folder(source, target)
    assert (written.pipeline.task, written.pipeline.runtime) == ("text-to-image", "Text2ImagePipeline")
    assert all(one.written for one in written.tokenizers), written.tokenizers
    index = json.loads((target / "model_index.json").read_text())
    own = {"sd3": "SD3Transformer2DModel", "flux": "FluxTransformer2DModel"}.get(kind, "UNet2DConditionModel")
    part = "transformer" if kind in FLOWS else "unet"
    assert (index["_class_name"], index[part][1], index["text_encoder"][0]) == (CLASSES[kind], own, "transformers")
    for name in ("scheduler/scheduler_config", "vae_decoder/config", f"{part}/config"):
        assert (target / f"{name}.json").read_bytes() == (source / f"{name}.json").read_bytes()
    by_openvino(source, target, tmp_path / "theirs")
    options = {"num_inference_steps": 3, "guidance_scale": 4.0}
    if kind in FLOWS:
        options |= {"height": 2 * SIZE, "width": 2 * SIZE, "max_sequence_length": LENGTH}
    start = np.random.default_rng(0).integers(0, 256, (1, 2 * SIZE, 2 * SIZE, 3)).astype(np.uint8)
    mask = np.zeros((1, 2 * SIZE, 2 * SIZE, 1), np.uint8)
    mask[:, 4:12, 2:10] = 255
    calls: dict[str, tuple[list[np.ndarray], dict[str, float]]] = {"Text2Image": ([], {})}
    if kind not in FLOWS:
        calls |= {"Image2Image": ([start], {"strength": 0.75}), "Inpainting": ([start, mask], {"strength": 1.0})}
    for name, (arrays, more) in calls.items():
        pixels = []
        for folder in (target, tmp_path / "theirs"):
            pipeline = getattr(openvino_genai, f"{name}Pipeline")(folder, "CPU", **PROPERTIES)
            noise = openvino_genai.CppStdGenerator(3)
            found = pipeline.generate(PROMPT, *map(openvino.Tensor, arrays), generator=noise, **options, **more)
            pixels.append(np.array(found.data, np.float64))
        assert pixels[1].std() > 20, "an image of one colour proves little"
        assert np.abs(pixels[0] - pixels[1]).max() < 1.05, "openvino-genai cuts what is behind the point off"


def test_variants_of_all_parts_are_compressed(tmp_path: Path) -> None:
    write_diffusion_folder(tmp_path / "onnx", "sd")
    for model in (tmp_path / "onnx").glob("*/model.onnx"):
        model.rename(model.with_name("model_fp16.onnx"))
    options: list[dict[str, Any]] = [{}, {"compress": "int8"}]
    plain, small = (
        converter.convert_folder(tmp_path / "onnx", tmp_path / f"{len(more)}", variant="fp16", **more)
        for more in options
    )
    assert {part.source.name for part in plain.pipeline.parts} == {"model_fp16.onnx"}
    for whole, part in zip(plain.models, small.models):
        assert part.with_suffix(".bin").stat().st_size < 0.7 * whole.with_suffix(".bin").stat().st_size, part


# --- speech from texts in openvino-genai: the waveform of the exported parts in onnxruntime ---

SPOKEN = {
    "until the end is likely": ("hello, you there", {"threshold": 0.95, "minlenratio": 0.0, "maxlenratio": 20.0}),
    "a number of calls": ("what is it", {"threshold": 1.0, "minlenratio": 3.0, "maxlenratio": 4.0}),
}


def test_waveform(tmp_path: Path) -> None:
    write_speech_folder(tmp_path / "onnx")
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.runtime) == ("text-to-speech", "Text2SpeechPipeline")
    pipeline = openvino_genai.Text2SpeechPipeline(tmp_path / "ir", "CPU", **EXACT)
    reference = Speech(tmp_path / "onnx")
    lengths = set()
    for text, options in SPOKEN.values():
        for seed in range(2):
            speaker = np.random.default_rng(seed).normal(size=(1, SPEAKER)).astype(np.float32)
            speech = pipeline.generate(text, openvino.Tensor(speaker), **options).speeches[0]
            result = np.array(speech.data).reshape(-1)  # the memory is the tensor's
            least, most = options["minlenratio"], options["maxlenratio"]
            expected = reference.speak(text, speaker, threshold=options["threshold"], least=least, most=most)
            assert np.std(expected) > 0.1
            np.testing.assert_allclose(result, expected, rtol=0, atol=2e-5)
            lengths.add(len(expected))
    assert len(lengths) > 1
    assert max(lengths) > 300


def test_files_of_transformers_js(tmp_path: Path) -> None:
    write_speech_folder(tmp_path / "js", place="onnx", ending="_fp16")
    written = converter.convert_folder(tmp_path / "js", tmp_path / "ir", variant="fp16")
    parts = ("encoder_model", "decoder_model", "postnet", "vocoder")
    assert [path.name for path in written.models] == [f"openvino_{part}.xml" for part in parts]
    decoder = ir_runtime.read_model(written.models[1])
    assert {name for node in decoder.parameters for name in node.end_names} == {
        *("inputs_embeds", "speaker_embeddings", "encoder_hidden_states", "encoder_attention_mask", "beam_idx")
    }
    openvino_genai.Text2SpeechPipeline(tmp_path / "ir", "CPU").generate("a", maxlenratio=2.0)


# --- sentence embeddings and rankings in openvino-genai: what onnxruntime computes ---


@pytest.mark.parametrize(("mode", "normalizes", "pool"), POOLINGS.values(), ids=POOLINGS)
def test_embeddings(tmp_path: Path, mode: str, normalizes: bool, pool: Pooling) -> None:
    model = text_encoder("last_hidden_state" if normalizes else "token_embeddings")
    write_text_folder(tmp_path / "onnx", model, {"model_type": "bert", "architectures": ["BertModel"]})
    write_pooling(tmp_path / "onnx", mode, normalizes=normalizes)
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.runtime) == ("feature-extraction", "TextEmbeddingPipeline")
    assert (tmp_path / "ir/1_Pooling/config.json").is_file()
    names = {"openvino_genai": openvino_genai, "FOLDER": tmp_path / "ir"}
    pipeline = eval(written.pipeline.call.removesuffix(")") + ", **PROPERTIES)", {**names, "PROPERTIES": PROPERTIES})
    feeds = encode(tmp_path / "onnx", *TEXTS)
    expected = pool(run(model, **feeds)[0], feeds["attention_mask"])
    if normalizes:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    embeddings = np.array(pipeline.embed_documents(TEXTS))
    assert np.abs(expected[0] - expected[1]).max() > 0.1, "equal embeddings prove little"
    np.testing.assert_allclose(embeddings, expected, atol=1e-5)


RERANKERS = {"one score": (1, True), "two classes": (2, True), "without segments": (1, False)}


@pytest.mark.parametrize(("labels", "segments"), RERANKERS.values(), ids=RERANKERS)
def test_ranking(tmp_path: Path, labels: int, segments: bool) -> None:
    model = text_encoder("logits", labels=labels, segments=segments)
    names = {str(number): f"LABEL_{number}" for number in range(labels)}
    configuration = {"architectures": ["BertForSequenceClassification"], "id2label": names, "model_type": "bert"}
    write_text_folder(tmp_path / "onnx", model, configuration, file="model", segments=segments)
    task = None if labels == 1 else "text-ranking"  # two classes may be anything
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", task=task)
    assert (written.pipeline.task, written.pipeline.runtime) == ("text-ranking", "TextRerankPipeline")
    pipeline = openvino_genai.TextRerankPipeline(tmp_path / "ir", "CPU", top_n=3, **PROPERTIES)
    feeds = encode(tmp_path / "onnx", *["a question"] * 3, second=TEXTS)
    logits = run(model, **feeds)[0].astype(np.float64)
    powers = np.exp(logits - logits.max(1, keepdims=True))
    expected = 1 / (1 + np.exp(-logits[:, 0])) if labels == 1 else (powers / powers.sum(1, keepdims=True))[:, 1]
    scores = dict(pipeline.rerank("a question", TEXTS))
    assert np.ptp(expected) > 0.01, "equal scores prove little"
    np.testing.assert_allclose([scores[row] for row in range(3)], expected, atol=1e-5)


def test_classes_of_texts_in_openvino(tmp_path: Path) -> None:
    model = text_encoder("logits", labels=3)
    write_text_folder(tmp_path / "onnx", model, {"model_type": "bert"})
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.call) == ("text-classification", "")
    core = openvino.Core()
    core.add_extension(openvino_tokenizers._ext_path)
    tokenizer = core.compile_model(tmp_path / "ir/openvino_tokenizer.xml", "CPU")
    classifier = core.compile_model(written.models[0], "CPU", PROPERTIES)
    feeds = {port.any_name: value for port, value in tokenizer(TEXTS).items()}
    logits = classifier({port.any_name: feeds[port.any_name] for port in classifier.inputs})["logits"]
    (expected,) = run(model, **encode(tmp_path / "onnx", *TEXTS))
    np.testing.assert_allclose(logits, expected, atol=1e-5)


# --- models of images and texts in openvino-genai: token by token what the parts say in onnxruntime ---

TOKENS = 32
GREEDY = openvino_genai.GenerationConfig(
    max_new_tokens=TOKENS, do_sample=False, ignore_eos=True, apply_chat_template=False
)


def shown(*shapes: tuple[int, int]) -> list[openvino.Tensor]:
    return [openvino.Tensor(image[None]) for image in pictures(*shapes)]


def pictures(*shapes: tuple[int, int]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.integers(0, 256, (*shape, 3)).astype(np.uint8) for shape in shapes]


def pipeline(folder: Path, backend: str) -> openvino_genai.VLMPipeline:
    return openvino_genai.VLMPipeline(folder, "CPU", ATTENTION_BACKEND=backend, **EXACT)


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
        text: reference.generate(text, pictures(*[family.shape] * count), TOKENS)
        for text, (_, count) in prompts.items()
    }
    assert len({token for row in expected.values() for token in row}) > 10, "few tokens prove little"
    for backend in family.backends:
        model = pipeline(tmp_path / "ir", backend)
        for text, (prompt, count) in prompts.items():
            result = model.generate(prompt, images=shown(*[family.shape] * count), generation_config=GREEDY)
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
    text, parts = f"{FAMILIES['llava'].image}what is it", pictures((SIDE, SIDE))
    reference = VisionLanguageModel(tmp_path / "rounded")
    expected = reference.decode(reference.generate(text, parts, TOKENS))
    for backend in ("SDPA", "PA"):
        model = pipeline(tmp_path / "ir", backend)
        result = model.generate("what is it", images=shown((SIDE, SIDE)), generation_config=GREEDY)
        assert result.texts == [expected], backend


def test_folder_for_onnxruntime_genai(tmp_path: Path) -> None:
    FAMILIES["llava"].write(tmp_path / "onnx")
    text, parts = f"{FAMILIES['llava'].image}what is it", pictures((SIDE, SIDE))
    reference = VisionLanguageModel(tmp_path / "onnx")
    expected = reference.generate(text, parts, TOKENS)
    rename_for_genai(tmp_path / "onnx")
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    names = [part.source.name for part in written.pipeline.parts]
    assert names == ["tiny-vision.onnx", "tiny-embedding.onnx", "tiny-decoder.onnx"]
    settings = json.loads((tmp_path / "ir/generation_config.json").read_text())
    assert (settings["eos_token_id"], settings["max_length"]) == (2, 128)
    model = pipeline(tmp_path / "ir", "PA")
    result = model.generate("what is it", images=shown((SIDE, SIDE)), generation_config=GREEDY)
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
    FAMILIES["llava"].write(tmp_path / "onnx", "_fp16")
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


@pytest.mark.parametrize("name", ["idefics3", "smolvlm"])
def test_types_that_the_runtime_does_not_know(tmp_path: Path, name: str) -> None:
    """The reason of the refusal is true: VLMPipeline refuses the type by itself."""
    FAMILIES["llava"].write(tmp_path / "onnx")
    converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    for folder in ("onnx", "ir"):
        path = tmp_path / folder / "config.json"
        write_json(path, {**json.loads(path.read_text()), "model_type": name})
    with pytest.raises(UnsupportedModelError, match=r"which VLMPipeline of openvino-genai 2026\.4 does not know"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "other")
    with pytest.raises(RuntimeError, match=f"Unsupported '{name}' VLM model type"):
        pipeline(tmp_path / "ir", "SDPA")


# --- preprocessor_config.json in front of a model: the numbers of Pillow's algorithm ---

CLIP = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 17}, "crop_size": SQUARE, "resample": 3}


def resized(image: np.ndarray, sizes: tuple[int, int], *, is_cubic: bool) -> np.ndarray:
    """Pillow's resampling of bytes, as OpenVINO has it."""
    x = ops.parameter([1, *sizes, 3], np.uint8)
    steps = PrePostProcessor(openvino.Model([ops.result(ops.maximum(x, x))], [x]))
    steps.input().tensor().set_shape([1, *image.shape])
    for side in (steps.input().tensor(), steps.input().model()):
        side.set_layout(openvino.Layout("NHWC"))
    steps.input().preprocess().resize(RESIZES["bicubic_pillow" if is_cubic else "bilinear_pillow"], *sizes)
    return core().compile_model(steps.build(), "CPU")([image[None]])[0][0].astype(np.int64)


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
    name = "processor_config.json" if changes else "preprocessor_config.json"
    write_image_folder(tmp_path / "onnx", {"image_processor": settings} if changes else settings, name=name)
    converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", preprocess_images=True)
    path = tmp_path / "ir/openvino_model.xml"
    compiled = openvino.Core().compile_model(path, "CPU", PROPERTIES)
    model = ir_runtime.read_model(path)
    sides = "1..,1.." if settings["do_resize"] else "?,?"
    assert str(model.parameters[0].outputs[0].type) == f"u8[?,{sides},3]"
    own = ir_runtime.compile_model(model)
    step = (settings["rescale_factor"] if settings["do_rescale"] else 1) * 1.5
    step /= min(DEVIATION) if settings["do_normalize"] else 1
    for image in pictures((31, 23), (29, 53), (19, 17)):
        right = 1.5 * expected(image).transpose(2, 0, 1)[None]
        for result in (compiled([image[None]])[0], own([image[None]])["last_hidden_state"]):
            assert result.shape == right.shape
            difference = np.abs(result - right) / step
            assert difference.max() < 1.001, "a step of a byte, where a sum lies halfway"
            assert (difference > 1e-3).mean() < 0.02
    assert not (tmp_path / "ir/preprocessor_config.json").exists()
    report = converter.verify(tmp_path / "onnx/model.onnx", path)
    assert report.passed, report.verdict


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
        results.append(ir_runtime.compile_model(ir)([pictures((20, 30))[0][None]])[0])
    exact, compressed = results
    difference = np.abs(exact - compressed).max()
    assert 0 < difference < tolerance * np.abs(exact).max()
