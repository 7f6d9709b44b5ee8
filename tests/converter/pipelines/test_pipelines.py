"""Images, speech and texts in openvino-genai: what onnxruntime computes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import openvino
import openvino_genai
import openvino_tokenizers
import pytest

import converter
import ir_runtime
from tests.converter.pipelines.texts import POOLINGS, TEXTS, Pooling
from tests.engines import core

from .images import CLASSES, FLOWS, LENGTH, SIZE, SPEAKER, Speech, write_diffusion_folder, write_speech_folder
from .texts import encode, run, text_encoder, write_pooling, write_text_folder

# --- images in openvino-genai: those of the same folder with the models that OpenVINO's frontend reads ---

PROMPT = "a cat"
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32"}


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
    part, own = {
        "sd3": ("transformer", "SD3Transformer2DModel"),
        "flux": ("transformer", "FluxTransformer2DModel"),
    }.get(kind, ("unet", "UNet2DConditionModel"))
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


# --- speech from texts in openvino-genai: the waveform of the exported parts in onnxruntime ---

SPOKEN = {
    "until the end is likely": ("hello, you there", {"threshold": 0.95, "minlenratio": 0.0, "maxlenratio": 20.0}),
    "a number of calls": ("what is it", {"threshold": 1.0, "minlenratio": 3.0, "maxlenratio": 4.0}),
}


def test_waveform(tmp_path: Path) -> None:
    write_speech_folder(tmp_path / "onnx")
    written = converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert (written.pipeline.task, written.pipeline.runtime) == ("text-to-speech", "Text2SpeechPipeline")
    exact = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    pipeline = openvino_genai.Text2SpeechPipeline(tmp_path / "ir", "CPU", **exact)
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
    assert [path.name for path in written.models] == [
        *("openvino_encoder_model.xml", "openvino_decoder_model.xml", "openvino_postnet.xml", "openvino_vocoder.xml")
    ]
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
    write_text_folder(tmp_path / "onnx", model, configuration, file="model.onnx", segments=segments)
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
