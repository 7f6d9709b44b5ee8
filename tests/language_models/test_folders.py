"""Folders in and folders out: which files, which settings, which messages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import converter
from converter.command_line import main
from converter.language_models import tokenizers
from converter.language_models.source import SourceFolder
from converter.targets.paged_attention import obstacles

from .decoders import DECODERS, Decoder
from .folders import write_folder

PLAIN = DECODERS["grouped"]


def options_of(xml: Path) -> dict[str, str]:
    """The runtime options that an IR asks for."""
    found = ET.parse(xml).find("rt_info/runtime_options")
    return {} if found is None else {child.tag: child.attrib["value"] for child in found}


def run(*arguments: object) -> tuple[int, str]:
    """The exit code and all messages of the command."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_what_a_folder_becomes(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    code, text = run("convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "ir")
    assert code == 0, text
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


def test_settings_that_are_there_stay(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    (tmp_path / "onnx/config.json").write_text('{"model_type": "own"}')
    converter.convert_language_model(tmp_path / "onnx", tmp_path / "ir")
    assert json.loads((tmp_path / "ir/config.json").read_text()) == {"model_type": "own"}


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_compressed_weights_leave_the_cache_to_the_runtime(tmp_path: Path, kind: str) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    made = converter.convert_language_model(tmp_path / "onnx", tmp_path / "ir", compress=kind)
    assert options_of(made.model) == {}
    assert made.model.with_suffix(".bin").stat().st_size < (tmp_path / "onnx/model.onnx").stat().st_size * 0.5


def test_without_openvino_tokenizers_the_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    monkeypatch.setattr(tokenizers, "_NEEDED", ("a_package_that_is_not_there",))
    code, text = run("convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "ir")
    assert code == 0
    assert "pip install 'onnx2ir[genai]'" in text
    assert f"convert_tokenizer {tmp_path / 'onnx'} --with-detokenizer --left-padding -o {tmp_path / 'ir'}" in text
    assert (tmp_path / "ir/openvino_model.xml").exists()


def test_a_model_by_itself(tmp_path: Path) -> None:
    onnx.save(PLAIN.build(), tmp_path / "model.onnx")
    code, text = run("convert", tmp_path / "model.onnx", "--stateful", "-o", tmp_path / "out.xml")
    assert code == 0, text
    assert "ReadValue" in (tmp_path / "out.xml").read_text()


def test_json(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", DECODERS["grouped, softcap"])
    result = CliRunner().invoke(
        main, ["--quiet", "convert", str(tmp_path / "onnx"), "--stateful", "-o", str(tmp_path / "ir"), "--json"]
    )
    found = json.loads(result.stdout)
    assert (found["task"], found["pipeline"]) == ("text-generation", "LLMPipeline")
    assert [one["written"] for one in found["tokenizers"]] == [True]
    assert "softcap" in found["without_paged_attention"][0]


OBSTACLES = {
    "grouped": [],
    "grouped, window": [],
    "onnx, window": [],
    "spelled, own positions": [],
    "grouped, softcap": ["its attention is no ScaledDotProductAttention", "used for more than the mask of attention"],
}


@pytest.mark.parametrize(("name", "reasons"), OBSTACLES.items(), ids=OBSTACLES)
def test_obstacles_of_paged_attention(name: str, reasons: list[str]) -> None:
    found = obstacles(converter.convert_model(DECODERS[name].build(), stateful=True))
    assert len(found) == len(reasons)
    assert all(reason in sentence for reason, sentence in zip(reasons, found))


def test_a_window_in_another_form_is_an_obstacle() -> None:
    model = converter.convert_model(Decoder(window=8).build(), stateful=True, target="any")
    assert obstacles(model) == [
        "the mask of attention hides keys in a way that is not known there: the last 8 of 64 are seen"
    ]


def _without(name: str, folder: Path) -> None:
    (folder / name).unlink()


def _with_branches(folder: Path) -> None:
    """The input of decoders that older exporters merged of two."""
    model = onnx.load(folder / "model.onnx")
    model.graph.input.append(onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1]))
    onnx.save(model, folder / "model.onnx")


ERRORS = {
    "no model": (lambda folder: _without("model.onnx", folder), "names the model 'model.onnx', but there is no such"),
    "no settings": (
        lambda folder: (_without("genai_config.json", folder), (folder / "model.onnx").rename(folder / "a.onnx"),
                        (folder / "b.onnx").write_bytes(b"")),
        "must hold one model, model.onnx or the like, but its ONNX files are: a.onnx, b.onnx",
    ),
    "settings that are no JSON": (
        lambda folder: (folder / "genai_config.json").write_text("{"), "genai_config.json is not JSON"
    ),
    "settings that are a list": (
        lambda folder: (folder / "config.json").write_text("[]"), "must hold a JSON object, but holds list"
    ),
    "two branches": (_with_branches, "has one branch for the first call and one for the others"),
    "several parts": (
        lambda folder: (folder / "genai_config.json").write_text('{"model": {"decoder": {}, "vision": {}}}'),
        "a model of several parts, vision, decoder",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_of_folders(spoil: object, message: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    spoil(tmp_path / "onnx")  # type: ignore[operator]
    code, text = run("convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "ir")
    assert code == 1
    assert message in text
    assert not (tmp_path / "ir").exists()


WRONG = {
    "without -o": (["--stateful"], "the folder to write is required: -o FOLDER"),
    "with other options": (["--stateful", "-o", "x", "--batch", 2], "--batch cannot be used with a folder"),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_wrong_usage(arguments: list[object], message: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    code, text = run("convert", tmp_path / "onnx", *arguments)
    assert code == 2
    assert message in text


def test_a_decoder_is_stateful_without_the_option(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    code, text = run("convert", tmp_path / "onnx", "-o", tmp_path / "ir")
    assert code == 0, text
    assert "Recognised as text-generation, for LLMPipeline" in text
    assert "ReadValue" in (tmp_path / "ir/openvino_model.xml").read_text()


def test_the_output_is_another_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", PLAIN)
    code, text = run("convert", tmp_path / "onnx", "--stateful", "-o", tmp_path / "onnx")
    assert code == 1
    assert "must be another folder" in text
    assert SourceFolder.open(tmp_path / "onnx").model.exists()
