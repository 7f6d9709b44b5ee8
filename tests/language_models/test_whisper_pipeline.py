"""A folder in openvino-genai's WhisperPipeline: token by token what onnxruntime says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openvino_genai
import pytest
from transformers import WhisperFeatureExtractor

import converter

from .encoder_decoders import POSITIONS, VOCABULARY, EncoderDecoder
from .folders import write_tokenizer
from .test_encoder_decoders import FILES, Onnx

RATE, TOKENS = 16000, 40
START, ENGLISH, GERMAN, TRANSLATE, TRANSCRIBE, NO_STAMPS = range(VOCABULARY - 6, VOCABULARY)
PROPERTIES = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


class Listener(openvino_genai.StreamerBase):
    """The tokens as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[int] = []

    def write(self, token: int | list[int]) -> openvino_genai.StreamingStatus:
        self.tokens += token if isinstance(token, list) else [token]
        return openvino_genai.StreamingStatus.RUNNING

    def end(self) -> None:
        """Nothing is left to write."""


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
        while len(wanted) < TOKENS:
            logits = oracle.step(step)[:, -1:]
            logits[..., 2] = -np.inf
            step = logits.argmax(-1)
            wanted.append(int(step[0, 0]))
        listener = Listener()
        options = {"max_new_tokens": TOKENS, "language": "<|en|>", "task": "transcribe"}
        pipeline.generate(speech.tolist(), streamer=listener, **options)
        assert listener.tokens == wanted
        found |= set(wanted)
    assert len(found) > 10, "few tokens prove little"


def test_language_beams_and_times(folder: Path) -> None:
    speech = np.random.default_rng(0).normal(scale=0.1, size=RATE).tolist()
    pipeline = openvino_genai.WhisperPipeline(folder, "CPU", **PROPERTIES)
    assert pipeline.generate(speech, max_new_tokens=4).language in ("en", "de")
    assert pipeline.generate(speech, max_new_tokens=8, num_beams=3).texts
