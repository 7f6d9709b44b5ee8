"""Speech from texts in openvino-genai: the waveform of the exported parts in onnxruntime."""

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
from converter.errors import UnsupportedModelError

from .speech import SPEAKER, Speech, write_speech_folder
from .texts import write_json

TEXTS = {
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
    for text, options in TEXTS.values():
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


def _settings(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        write_json(folder / "config.json", {**json.loads((folder / "config.json").read_text()), **changes})

    return change


def _rename(file: str, name: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / f"{file}.onnx"
        model = onnx.load(path)
        for node in model.graph.node:
            node.input[:] = ["other" if value == name else value for value in node.input]
        for value in model.graph.input:
            value.name = "other" if value.name == name else value.name
        onnx.save(model, path)

    return change


WRONG = {
    "another model": (_settings(architectures=["VitsModel"]), "names the architecture 'VitsModel', but of those with"),
    "no model": (_settings(architectures=None), "names the architecture 'none'"),
    "other rows": (_settings(reduction_factor=3), "'reduction_factor' in .*config.json must be 2, .* but is 3"),
    "no speaker": (
        _rename("decoder_with_past_model", "speaker_embeddings"),
        "decoder_with_past_model.onnx has no 'speaker_embeddings', which Text2SpeechPipeline sets or reads",
    ),
    "another vocoder": (
        _rename("decoder_postnet_and_vocoder", "spectrogram"),
        "must read 'spectrogram' alone and return",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), WRONG.values(), ids=WRONG)
def test_errors(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    write_speech_folder(tmp_path / "onnx")
    spoil(tmp_path / "onnx")
    with pytest.raises(UnsupportedModelError, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()
