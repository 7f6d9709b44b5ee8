"""Folders in openvino-genai: token by token what onnxruntime and onnxruntime-genai say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime_genai
import openvino
import openvino_genai
import pytest
from transformers import WhisperFeatureExtractor

import converter
from tests.converter.language_models.running import Listener

from .decoders import DECODERS, Decoder
from .encoder_decoders import POSITIONS, VOCABULARY, EncoderDecoder
from .folders import write_folder, write_tokenizer
from .running import FILES, Onnx, OnnxDecoder, padded, prompt_of

# --- folders in openvino-genai: token by token what onnxruntime and onnxruntime-genai say ---

TOKENS = 64
PROMPTS = (60, 33, 7)
"""Longer and shorter than the window of 8."""
GREEDY = openvino_genai.GenerationConfig(max_new_tokens=TOKENS, do_sample=False, ignore_eos=True)


def greedy(decoder: Decoder, prompt: np.ndarray) -> list[int]:
    session, step, found = OnnxDecoder(decoder, decoder.build()), prompt, list[int]()
    while len(found) < TOKENS:
        step = session(step)[:, -1:].argmax(-1)
        found.append(int(step[0, 0]))
    return found


def pipeline(folder: Path, backend: str) -> openvino_genai.LLMPipeline:
    return openvino_genai.LLMPipeline(
        folder, "CPU", ATTENTION_BACKEND=backend, INFERENCE_PRECISION_HINT="f32", KV_CACHE_PRECISION="f32"
    )


def generated(found: openvino_genai.LLMPipeline, prompts: Sequence[np.ndarray]) -> list[list[int]]:
    tokens, mask = (openvino.Tensor(part) for part in padded(prompts))
    result = found.generate(openvino_genai.TokenizedInputs(tokens, mask), GREEDY)
    return [list(row) for row in result.tokens]


@pytest.fixture(params=DECODERS.values(), ids=DECODERS)
def decoder(request: pytest.FixtureRequest) -> Decoder:
    found: Decoder = request.param
    if found.kind == np.float16:
        pytest.skip("float16 rounds differently at each layer of onnxruntime: see the logits in test_states")
    return found


@pytest.fixture
def folders(decoder: Decoder, tmp_path: Path) -> tuple[Path, Path]:
    write_folder(tmp_path / "onnx", decoder)
    converter.convert_language_model(tmp_path / "onnx", tmp_path / "ir")
    return tmp_path / "onnx", tmp_path / "ir"


@pytest.mark.parametrize("backend", ["SDPA", "PA"])
def test_greedy_tokens(decoder: Decoder, folders: tuple[Path, Path], backend: str) -> None:
    target = folders[1]
    if backend == "PA" and decoder.softcap:
        with pytest.raises(RuntimeError, match="ScaledDotProductAttention"):
            pipeline(target, backend)
        return
    prompts = [prompt_of(length, seed) for seed, length in enumerate(PROMPTS)]
    wanted = [greedy(decoder, prompt) for prompt in prompts]
    assert len({token for row in wanted for token in row}) > 10, "few tokens prove little"
    found = pipeline(target, backend)
    assert [generated(found, [prompt])[0] for prompt in prompts] == wanted
    assert generated(found, prompts) == wanted  # as one batch


def test_onnxruntime_genai_agrees(tmp_path: Path) -> None:
    decoder = DECODERS["grouped"]
    write_folder(tmp_path, decoder)
    prompt = prompt_of(PROMPTS[0], 0)
    model = onnxruntime_genai.Model(str(tmp_path))
    options = onnxruntime_genai.GeneratorParams(model)
    options.set_search_options(max_length=PROMPTS[0] + TOKENS, min_length=PROMPTS[0] + TOKENS, do_sample=False)
    generator = onnxruntime_genai.Generator(model, options)
    generator.append_tokens(prompt.astype(np.int32))
    found = []
    while len(found) < TOKENS:
        generator.generate_next_token()
        found.append(int(generator.get_next_tokens()[0]))
    assert found == greedy(decoder, prompt)


def test_text_chat_and_beams(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", DECODERS["grouped"])
    made = converter.convert_language_model(tmp_path / "onnx", tmp_path / "ir")
    assert made.tokenizers.written, made.tokenizers.why_not
    found = pipeline(tmp_path / "ir", "SDPA")
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
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


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
