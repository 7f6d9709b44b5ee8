"""Folders in and folders out, both ways, and their tokens in openvino-genai and onnxruntime-genai."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime_genai
import openvino
import openvino_genai
import pytest
from transformers import WhisperFeatureExtractor

import converter
from converter import ConversionError
from converter.folders import tokenizers
from converter.targets.paged_attention import obstacles
from tests.commands import said
from tests.converter.language_models.encoder_decoders import Listener, OpenVinoDecoder, greedy, prompt_of

from .decoders import DECODERS, Decoder, write_folder, write_tokenizer
from .encoder_decoders import FILES, POSITIONS, PROPERTIES, VOCABULARY, EncoderDecoder, Onnx, OnnxDecoder, padded

# --- folders in and folders out, both ways: which files, which settings, which messages, and the same tokens ---

PLAIN = DECODERS["grouped"]


def options_of(xml: Path) -> dict[str, str]:
    found = ET.parse(xml).find("rt_info/runtime_options")
    return {} if found is None else {child.tag: child.attrib["value"] for child in found}


def test_what_a_folder_becomes(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    code, text = said("convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "ir")
    assert code == 0, text
    (tmp_path / "onnx/config.json").write_text('{"model_type": "own"}')
    converter.convert_language_model(tmp_path / "onnx", tmp_path / "kept")
    assert json.loads((tmp_path / "kept/config.json").read_text()) == {"model_type": "own"}
    files = {file.name for file in (tmp_path / "ir").iterdir()}
    models = ("openvino_model", "openvino_tokenizer", "openvino_detokenizer")
    assert files == {
        *(f"{name}.{ending}" for name in models for ending in ("xml", "bin")),
        *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"),
    }
    generation = json.loads((tmp_path / "ir/generation_config.json").read_text())
    assert generation["eos_token_id"] == 2
    assert generation["do_sample"] is False
    assert json.loads((tmp_path / "ir/config.json").read_text())["num_key_value_heads"] == 2
    assert options_of(tmp_path / "ir/openvino_model.xml") == {
        "KV_CACHE_PRECISION": "f16",
        "ACTIVATIONS_SCALE_FACTOR": "8.0",
    }


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_compressed_weights_leave_the_cache_to_the_runtime(tmp_path: Path, kind: str) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    made = converter.convert_language_model(tmp_path / "onnx", tmp_path / "ir", compress=kind)
    assert options_of(made.model) == {}
    assert made.model.with_suffix(".bin").stat().st_size < (tmp_path / "onnx/model.onnx").stat().st_size * 0.5


def test_without_openvino_tokenizers_the_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    monkeypatch.setattr(tokenizers, "_NEEDED", ("a_package_that_is_not_there",))
    code, text = said("convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "ir")
    assert code == 0
    assert "pip install 'onnx2ir[genai]'" in text
    assert f"convert_tokenizer {tmp_path / 'onnx'} --with-detokenizer --left-padding -o {tmp_path / 'ir'}" in text
    assert (tmp_path / "ir/openvino_model.xml").exists()


def test_json_of_a_decoder_without_paged_attention(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", DECODERS["grouped, softcap"])
    found = json.loads(said("-q", "convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "ir", "--json")[1])
    assert (found["task"], found["pipeline"]) == ("text-generation", "LLMPipeline")
    assert [one["written"] for one in found["tokenizers"]] == [True]
    assert "softcap" in found["without_paged_attention"][0]


OBSTACLES: list[tuple[str, str, list[str]]] = [
    # the decoder, the target, and parts of the reasons
    *((name, "cpu", []) for name in ("grouped", "grouped, window", "onnx, window", "spelled, own positions")),
    ("grouped, softcap", "cpu", ["attention is no ScaledDotProductAttention", "for more than the mask of attention"]),
    ("grouped, window", "any", ["hides keys in a way that is not known there: the last 8 of 64 are seen"]),
]


@pytest.mark.parametrize(("name", "target", "reasons"), OBSTACLES)
def test_obstacles_of_paged_attention(name: str, target: str, reasons: list[str]) -> None:
    found = obstacles(converter.convert_model(DECODERS[name].build(), stateful=True, target=target))
    assert len(found) == len(reasons)
    assert all(reason in sentence for reason, sentence in zip(reasons, found))


# --- folders with stateful IR become folders that onnxruntime-genai runs, with the same tokens ---

PROMPT = [5, 9, 33, 7, 60, 44, 8]
TOKENS = 12


def ir_folder(folder: Path, decoder: Decoder, **options: Any) -> Path:
    write_folder(folder / "onnx", decoder)
    converter.convert_language_model(folder / "onnx", folder / "ir", **options)
    return folder / "ir"


def tokens_of_ir(folder: Path) -> list[int]:
    found = greedy(OpenVinoDecoder(folder / "openvino_model.xml"), np.array([PROMPT]), TOKENS)
    return [*PROMPT, *found[: found.index(2) + 1 if 2 in found else None]]


def tokens_of_genai(folder: Path, prompt: Sequence[int] = PROMPT, count: int = TOKENS) -> list[int]:
    model = onnxruntime_genai.Model(str(folder))
    options = onnxruntime_genai.GeneratorParams(model)
    length = len(prompt) + count
    options.set_search_options(max_length=length, min_length=length if count > TOKENS else 0, do_sample=False)
    generator = onnxruntime_genai.Generator(model, options)
    generator.append_tokens(np.array([prompt], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)]


@pytest.mark.parametrize("name", ["grouped", "spelled", "onnx", "multihead"])
def test_onnxruntime_genai_gives_the_tokens_of_the_ir(name: str, tmp_path: Path) -> None:
    folder = ir_folder(tmp_path, DECODERS[name])
    found = converter.export_language_model(folder, tmp_path / "back")
    assert found.settings.name == "genai_config.json"
    assert tokens_of_genai(tmp_path / "back") == tokens_of_ir(folder)


@pytest.mark.parametrize("options", [{"compress": "int8"}, {"compress_to_fp16": True}, {"target": "cpu@2024.6"}])
def test_together_with_other_options(options: dict[str, Any], tmp_path: Path) -> None:
    folder = ir_folder(tmp_path, DECODERS["grouped"], **options)
    converter.export_language_model(folder, tmp_path / "back", contrib=True, external_data=True)
    assert len(tokens_of_genai(tmp_path / "back")) == len(tokens_of_ir(folder))
    report = converter.verify_steps(tmp_path / "back/model.onnx", folder / "openvino_model.xml", steps=3)
    assert report.passed


@pytest.mark.parametrize("contrib", [False, True])
@pytest.mark.parametrize("fp16", ["model", "unfold"])
def test_precisions_of_what_is_written(fp16: Any, contrib: bool, tmp_path: Path) -> None:
    folder = ir_folder(tmp_path, DECODERS["grouped"], compress_to_fp16=True)
    converter.export_language_model(folder, tmp_path / "back", fp16=fp16, contrib=contrib)
    graph = onnx.load(tmp_path / "back/model.onnx", load_external_data=False).graph
    operators = {node.op_type for node in graph.node}
    assert {"RotaryEmbedding", "GroupQueryAttention" if contrib else "Attention"} <= operators
    weights = [one.data_type for one in graph.initializer if len(one.dims) == 2]
    assert weights
    assert set(weights) == {onnx.TensorProto.FLOAT16 if fp16 == "model" else onnx.TensorProto.FLOAT}
    assert len(tokens_of_genai(tmp_path / "back")) == len(tokens_of_ir(folder))
    tolerance = {"rtol": 1e-2, "atol": 1e-3} if fp16 == "model" else {}
    report = converter.verify_steps(tmp_path / "back/model.onnx", folder / "openvino_model.xml", steps=3, **tolerance)
    assert report.passed, report


def test_the_settings(tmp_path: Path) -> None:
    folder = ir_folder(tmp_path, DECODERS["grouped"])
    code, text = said("export", folder, "-o", tmp_path / "back", "--json")
    assert code == 0, text
    after, before = (
        json.loads((tmp_path / f"{name}/genai_config.json").read_text())["model"] for name in ("back", "onnx")
    )
    for key in ("head_size", "hidden_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads"):
        assert after["decoder"][key] == before["decoder"][key]
    for key in ("bos_token_id", "eos_token_id", "pad_token_id", "context_length", "type", "vocab_size"):
        assert after[key] == before[key]
    assert after["decoder"]["inputs"].items() >= before["decoder"]["inputs"].items()
    assert (tmp_path / "back/tokenizer.json").read_bytes() == (tmp_path / "onnx/tokenizer.json").read_bytes()


def test_mistakes(tmp_path: Path) -> None:
    folder = ir_folder(tmp_path, DECODERS["grouped"])
    with pytest.raises(ConversionError, match=r"has no openvino_model\.xml"):
        converter.export_language_model(tmp_path, tmp_path / "back")
    with pytest.raises(ConversionError, match="another folder"):
        converter.export_language_model(folder, folder)
    assert said("export", folder)[0] == 2
    (folder / "config.json").write_text("[]")
    with pytest.raises(ConversionError, match="must hold a JSON object"):
        converter.export_language_model(folder, tmp_path / "back")
    (folder / "config.json").unlink()
    with pytest.raises(ConversionError, match=r"has no config\.json"):
        converter.export_language_model(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()


# --- folders in openvino-genai: token by token what onnxruntime and onnxruntime-genai say ---

GREEDY_TOKENS = 64
PROMPTS = (60, 33, 7)
"""Longer and shorter than the window of 8."""
GREEDY = openvino_genai.GenerationConfig(max_new_tokens=GREEDY_TOKENS, do_sample=False, ignore_eos=True)


def pipeline(folder: Path, backend: str) -> openvino_genai.LLMPipeline:
    return openvino_genai.LLMPipeline(folder, "CPU", ATTENTION_BACKEND=backend, **PROPERTIES)


def generated(found: openvino_genai.LLMPipeline, prompts: Sequence[np.ndarray]) -> list[list[int]]:
    tokens, mask = (openvino.Tensor(part) for part in padded(prompts))
    result = found.generate(openvino_genai.TokenizedInputs(tokens, mask), GREEDY)
    return [list(row) for row in result.tokens]


@pytest.mark.parametrize("backend", ["SDPA", "PA"])
@pytest.mark.parametrize("name", [name for name in DECODERS if "float16" not in name])
def test_greedy_tokens(name: str, backend: str, tmp_path: Path) -> None:
    """float16 rounds differently at each layer of onnxruntime: see the logits in test_states."""
    decoder, folder = DECODERS[name], ir_folder(tmp_path, DECODERS[name])
    if backend == "PA" and decoder.softcap:
        with pytest.raises(RuntimeError, match="ScaledDotProductAttention"):
            pipeline(folder, backend)
        return
    prompts = [prompt_of(length, seed) for seed, length in enumerate(PROMPTS)]
    source = decoder.build()
    wanted = [greedy(OnnxDecoder(decoder, source), prompt, GREEDY_TOKENS) for prompt in prompts]
    assert len({token for row in wanted for token in row}) > 10, "few tokens prove little"
    found = pipeline(folder, backend)
    assert [generated(found, [prompt])[0] for prompt in prompts] == wanted
    assert generated(found, prompts) == wanted  # as one batch
    if name == "grouped":
        prompt = prompts[0][0].tolist()
        assert tokens_of_genai(tmp_path / "onnx", prompt, GREEDY_TOKENS) == prompt + wanted[0]


def test_text_chat_and_beams(tmp_path: Path) -> None:
    found = pipeline(ir_folder(tmp_path, DECODERS["grouped"]), "SDPA")
    assert isinstance(found.generate("Once upon a time", max_new_tokens=5), str)
    found.start_chat()
    first, second = (found.generate(text, max_new_tokens=4, do_sample=False) for text in ("one", "two"))
    found.finish_chat()
    assert first
    assert second
    beams = found.generate(["once", "a longer text"], max_new_tokens=6, num_beams=3, num_return_sequences=2)
    assert len(beams.texts) == 4


# --- a folder in openvino-genai's WhisperPipeline: token by token what onnxruntime says ---

RATE, SPOKEN = 16000, 40
START, ENGLISH, GERMAN, TRANSLATE, TRANSCRIBE, NO_STAMPS = range(VOCABULARY - 6, VOCABULARY)


@pytest.fixture(params=FILES.values(), ids=FILES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder that is written from one of Optimum."""
    source = tmp_path / "onnx"
    EncoderDecoder(speech=True).save(source, request.param)
    write_tokenizer(source)
    WhisperFeatureExtractor().save_pretrained(source)
    generation = {
        "decoder_start_token_id": START,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "lang_to_id": {"<|en|>": ENGLISH, "<|de|>": GERMAN},
        "task_to_id": {"translate": TRANSLATE, "transcribe": TRANSCRIBE},
        "no_timestamps_token_id": NO_STAMPS,
        "is_multilingual": True,
        "max_length": POSITIONS,
        "begin_suppress_tokens": [],
        "suppress_tokens": [2],
    }
    configuration = {"model_type": "whisper", "vocab_size": VOCABULARY, "max_source_positions": 1500}
    for name, values in (("generation_config", generation), ("config", configuration)):
        (source / f"{name}.json").write_text(json.dumps(values))
    made = converter.convert_language_model(source, tmp_path / "ir")
    assert made.tokenizers.written, made.tokenizers.why_not
    return tmp_path / "ir"


def test_tokens(folder: Path) -> None:
    pipeline = openvino_genai.WhisperPipeline(folder, "CPU", **PROPERTIES)
    oracle, found = Onnx(EncoderDecoder(speech=True)), set[int]()
    for seed in range(2):
        speech = np.random.default_rng(seed).normal(scale=0.1, size=2 * RATE).astype(np.float32)
        features = WhisperFeatureExtractor()(speech, sampling_rate=RATE, return_tensors="np")["input_features"]
        oracle.encode({"input_features": features.astype(np.float32)})
        step, wanted = np.array([[START, ENGLISH, TRANSCRIBE, NO_STAMPS]]), list[int]()
        while len(wanted) < SPOKEN:
            logits = oracle.step(step)[:, -1:]
            logits[..., 2] = -np.inf
            step = logits.argmax(-1)
            wanted.append(int(step[0, 0]))
        listener = Listener()
        options = {"max_new_tokens": SPOKEN, "language": "<|en|>", "task": "transcribe"}
        pipeline.generate(speech.tolist(), streamer=listener, **options)
        assert listener.tokens == wanted
        found |= set(wanted)
    assert len(found) > 10, "few tokens prove little"


def test_language_beams_and_times(folder: Path) -> None:
    speech = np.random.default_rng(0).normal(scale=0.1, size=RATE).tolist()
    pipeline = openvino_genai.WhisperPipeline(folder, "CPU", **PROPERTIES)
    assert pipeline.generate(speech, max_new_tokens=4).language in ("en", "de")
    assert pipeline.generate(speech, max_new_tokens=8, num_beams=3).texts
