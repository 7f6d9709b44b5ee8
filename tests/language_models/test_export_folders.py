"""Folders with stateful IR become folders that onnxruntime-genai runs, with the same tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime_genai
import pytest

import converter
from converter import ConversionError
from ir_runtime import compile_model, read_model

from .decoders import DECODERS, Decoder
from .folders import write_folder
from .test_folders import run

PROMPT = [5, 9, 33, 7, 60, 44, 8]
TOKENS = 12


def ir_folder(folder: Path, decoder: Decoder, **options: Any) -> Path:
    write_folder(folder / "onnx", decoder)
    converter.convert_language_model(folder / "onnx", folder / "ir", **options)
    return folder / "ir"


def tokens_of_ir(folder: Path) -> list[int]:
    """Greedy tokens of a session in NumPy."""
    compiled = compile_model(read_model(folder / "openvino_model.xml"))
    known = {name for port in compiled.inputs for name in port.names}
    session, tokens = compiled.session(), list(PROMPT)
    given, seen = np.array([PROMPT]), 0
    while len(tokens) < len(PROMPT) + TOKENS:
        total = seen + given.shape[1]
        feeds: dict[str, Any] = {
            "input_ids": given,
            "attention_mask": np.ones((1, total), np.int64),
            "position_ids": np.arange(seen, total)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        logits = session({name: value for name, value in feeds.items() if name in known})["logits"]
        tokens.append(int(np.asarray(logits)[0, -1].argmax()))
        given, seen = np.array([[tokens[-1]]]), total
        if tokens[-1] == 2:
            break
    return tokens


def tokens_of_genai(folder: Path) -> list[int]:
    model = onnxruntime_genai.Model(str(folder))
    options = onnxruntime_genai.GeneratorParams(model)
    options.set_search_options(max_length=len(PROMPT) + TOKENS, do_sample=False)
    generator = onnxruntime_genai.Generator(model, options)
    generator.append_tokens(np.array([PROMPT], np.int32))
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
    code, text = run("export", folder, "-o", tmp_path / "back", "--json")
    assert code == 0, text
    settings = json.loads((tmp_path / "back/genai_config.json").read_text())
    before = json.loads((tmp_path / "onnx/genai_config.json").read_text())
    for key in ("head_size", "hidden_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads"):
        assert settings["model"]["decoder"][key] == before["model"]["decoder"][key]
    for key in ("bos_token_id", "eos_token_id", "pad_token_id", "context_length", "type", "vocab_size"):
        assert settings["model"][key] == before["model"][key]
    assert settings["model"]["decoder"]["inputs"].items() >= before["model"]["decoder"]["inputs"].items()
    assert (tmp_path / "back/tokenizer.json").read_bytes() == (tmp_path / "onnx/tokenizer.json").read_bytes()


def test_mistakes(tmp_path: Path) -> None:
    folder = ir_folder(tmp_path, DECODERS["grouped"])
    with pytest.raises(ConversionError, match=r"has no openvino_model\.xml"):
        converter.export_language_model(tmp_path, tmp_path / "back")
    with pytest.raises(ConversionError, match="another folder"):
        converter.export_language_model(folder, folder)
    assert run("export", folder)[0] == 2
    (folder / "config.json").write_text("[]")
    with pytest.raises(ConversionError, match="must hold a JSON object"):
        converter.export_language_model(folder, tmp_path / "back")
    (folder / "config.json").unlink()
    with pytest.raises(ConversionError, match=r"has no config\.json"):
        converter.export_language_model(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()
