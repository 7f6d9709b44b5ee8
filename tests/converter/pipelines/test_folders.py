"""What folders are recognised as, which files are taken and written, and errors."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import converter
from converter.command_line import main
from converter.errors import ConversionError, UnsupportedModelError
from converter.language_models.tokenizers import Tokenizers
from converter.pipelines.recognition import recognise
from ir_runtime.errors import FileError
from ir_runtime.files.weights import WeightsLayout
from ir_runtime.files.whole_files import whole_folder
from tests.converter.language_models.decoders import Decoder
from tests.converter.language_models.encoder_decoders import EncoderDecoder
from tests.converter.language_models.folders import write_folder

from .graphs import Graph
from .images import write_diffusion_folder
from .speech import write_speech_folder
from .texts import text_encoder, write_json, write_pooling, write_text_folder

# --- what folders are recognised as, which files are taken, and errors for folders that are nothing known ---


def run(*arguments: object) -> tuple[int, str]:
    """The exit code and all messages of the command."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def image_model(**outputs: Sequence[int | str]) -> onnx.ModelProto:
    """A model of images whose outputs have these shapes."""
    graph = Graph()
    mean = graph("ReduceMean", "pixel_values", [1, 2, 3], keepdims=0)
    return graph.model(
        {"pixel_values": (np.float32, ["b", 3, 8, 8])}, {name: (mean, dims) for name, dims in outputs.items()}
    )


def _texts(folder: Path, **options: object) -> None:
    write_text_folder(folder, text_encoder(**options), {"model_type": "bert"})  # type: ignore[arg-type]


def _speech(folder: Path) -> None:
    EncoderDecoder(speech=True).save(folder)


def _another_speech(folder: Path) -> None:
    _speech(folder)
    write_json(folder / "config.json", {"model_type": "speech_to_text"})


def _reads(name: str) -> Callable[[Path], None]:
    """An encoder that reads something else than ``input_features``."""

    def write(folder: Path) -> None:
        _speech(folder)
        model = onnx.load(folder / "encoder_model.onnx")
        for node in model.graph.node:
            node.input[:] = [name if value == "input_features" else value for value in node.input]
        model.graph.input[0].name = name
        onnx.save(model, folder / "encoder_model.onnx")

    return write


def _images(**outputs: Sequence[int | str]) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        folder.mkdir()
        onnx.save(image_model(**outputs), folder / "model.onnx")

    return write


def _sound(folder: Path) -> None:
    """The inputs and the output of Kokoro."""
    folder.mkdir()
    graph = Graph()
    wave = graph["input_ids"].Cast(to=onnx.TensorProto.FLOAT) * "speed" * graph("ReduceMean", "style", [1], keepdims=1)
    inputs = {"input_ids": (np.int64, [1, "n"]), "style": (np.float32, [1, 256]), "speed": (np.float32, [1])}
    onnx.save(graph.model(inputs, {"waveform": (wave, [1, "n"])}), folder / "model.onnx")


FOLDERS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "decoder": (lambda folder: write_folder(folder, Decoder()), "text-generation", "LLMPipeline"),
    "speech": (_speech, "automatic-speech-recognition", "WhisperPipeline"),
    "speech, another model": (_another_speech, "automatic-speech-recognition", "OpenVINO"),
    "speech of texts": (write_speech_folder, "text-to-speech", "Text2SpeechPipeline"),
    "captions": (_reads("pixel_values"), "image-to-text", "OpenVINO"),
    "translation": (lambda folder: EncoderDecoder().save(folder), "text2text-generation", "OpenVINO"),
    "embeddings": (_texts, "feature-extraction", "TextEmbeddingPipeline"),
    "one score": (lambda folder: _texts(folder, outputs="logits", labels=1), "text-ranking", "TextRerankPipeline"),
    "two classes": (lambda folder: _texts(folder, outputs="logits", labels=2), "text-classification", "OpenVINO"),
    "three classes": (lambda folder: _texts(folder, outputs="logits", labels=3), "text-classification", "OpenVINO"),
    "classes of tokens": (lambda folder: _texts(folder, outputs="logits"), "token-classification", "OpenVINO"),
    "classes of images": (_images(logits=["b", 5]), "image-classification", "OpenVINO"),
    "boxes": (_images(logits=["b", 4, 5], pred_boxes=["b", 4, 4]), "object-detection", "OpenVINO"),
    "sound of phonemes": (_sound, "text-to-audio", "OpenVINO"),
    "masks": (_images(logits=["b", 5, 2, 2]), "image-segmentation", "OpenVINO"),
}


@pytest.mark.parametrize(("write", "task", "runtime"), FOLDERS.values(), ids=FOLDERS)
def test_what_folders_are(tmp_path: Path, write: Callable[[Path], None], task: str, runtime: str) -> None:
    write(tmp_path / "onnx")
    pipeline = recognise(tmp_path / "onnx")
    assert (pipeline.task, pipeline.runtime) == (task, runtime)
    code, text = run("inspect", tmp_path / "onnx")
    assert code == 0, text
    assert f"{task}, run by {runtime}" in text
    for part in pipeline.parts:
        assert part.source.name in text
        assert part.target in text


def test_other_tasks_that_fit(tmp_path: Path) -> None:
    _texts(tmp_path / "onnx", outputs="logits", labels=2)
    assert "--task may also be text-ranking" in run("inspect", tmp_path / "onnx")[1]
    code, text = run("convert", tmp_path / "onnx", "-o", tmp_path / "ir")
    assert code == 0, text
    assert "Recognised as text-classification, for OpenVINO; --task may also be text-ranking" in text


def test_inspect_as_json(tmp_path: Path) -> None:
    _texts(tmp_path)
    write_pooling(tmp_path, "mean_tokens", normalizes=True)
    code, text = run("inspect", tmp_path, "--json")
    assert code == 0, text
    result = json.loads(text)
    assert result["models"] == [{"part": "model", "onnx": "onnx/model.onnx", "xml": "openvino_model.xml"}]
    assert result["call"].endswith(
        "pooling_type=openvino_genai.TextEmbeddingPipeline.PoolingType.MEAN, normalize=True)"
    )


def _variants(folder: Path, *names: str) -> None:
    _texts(folder)
    (folder / "onnx/model.onnx").rename(folder / f"onnx/{names[0]}.onnx")
    for name in names[1:]:
        (folder / f"onnx/{name}.onnx").write_bytes((folder / f"onnx/{names[0]}.onnx").read_bytes())


TAKEN = {
    "the one without an ending": (["model", "model_q4"], None, "model.onnx"),
    "the requested one": (["model", "model_q4", "model_fp16"], "fp16", "model_fp16.onnx"),
    "the one without an ending, requested": (["model", "model_q4"], "fp32", "model.onnx"),
    "that of a file": (["model", "model_q4"], "model=q4", "model_q4.onnx"),
    "that of sentence-transformers": (["model", "model_qint8_avx512"], "qint8_avx512", "model_qint8_avx512.onnx"),
    "the only one": (["model_quantized"], None, "model_quantized.onnx"),
}


@pytest.mark.parametrize(("names", "variant", "taken"), TAKEN.values(), ids=TAKEN)
def test_variants(tmp_path: Path, names: Sequence[str], variant: str | None, taken: str) -> None:
    _variants(tmp_path, *names)
    assert [part.source.name for part in recognise(tmp_path, variant=variant).parts] == [taken]


NOT_TAKEN = {
    "one that is not there": ("int8", r"has no variant 'int8' of model.onnx, but fp16, q4"),
    "several and none requested": (None, r"several variants of it: choose with --variant, one of fp16, q4"),
    "a file that is not there": (
        "encoder=q4",
        r"variant names 'encoder', but .* has onnx/model_fp16.onnx, onnx/model_q4",
    ),
    "no value": ("model=", "variant must be as in 'q4'"),
    "twice": ("q4,fp16", "one for each file, but is 'q4,fp16'"),
}


@pytest.mark.parametrize(("variant", "message"), NOT_TAKEN.values(), ids=NOT_TAKEN)
def test_variants_that_are_not_there(tmp_path: Path, variant: str | None, message: str) -> None:
    _variants(tmp_path, "model_q4", "model_fp16")
    with pytest.raises(ConversionError, match=message):
        converter.convert_folder(tmp_path, tmp_path / "ir", variant=variant)
    assert not (tmp_path / "ir").exists()


def test_whisper_for_transformers_js(tmp_path: Path) -> None:
    """decoder_model_merged is no variant of decoder_model."""
    _speech(tmp_path / "all")
    (tmp_path / "js/onnx").mkdir(parents=True)
    for name in ("encoder_model", "decoder_model_merged"):
        (tmp_path / "all" / f"{name}.onnx").rename(tmp_path / "js/onnx" / f"{name}_q4.onnx")
    assert [part.source.name for part in recognise(tmp_path / "js", variant="q4").parts] == [
        *("encoder_model_q4.onnx", "decoder_model_merged_q4.onnx")
    ]


def _module(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        _texts(folder)
        write_pooling(folder, "mean_tokens", normalizes=False, extra=name)

    return write


def _pooled(mode: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        _texts(folder)
        write_pooling(folder, mode, normalizes=False)

    return write


def _modules_of_another_form(folder: Path) -> None:
    _texts(folder)
    write_json(folder / "modules.json", {"0": "Transformer"})


WRONG: dict[str, tuple[Callable[[Path], None], type[Exception], str]] = {
    "nothing": (lambda folder: folder.mkdir(), ConversionError, "not recognised: it has no files, but none of model_index"),
    "no model": (lambda folder: (folder.mkdir(), write_json(folder / "config.json", {})), ConversionError,
                 "it has config.json, but none of"),
    "an unknown model": (_images(scores=["b", 2]), ConversionError, "it has model.onnx, but none of"),
    "a layer behind the pooling": (_module("Dense"), UnsupportedModelError, "has the module Dense"),
    "another pooling": (_pooled("max_tokens"), UnsupportedModelError, "pools by 'max_tokens', but TextEmbeddingPipeline pools"),
    "modules of another form": (_modules_of_another_form, ConversionError, "must hold a JSON list of objects, but holds dict"),
    "an encoder of embeddings": (_reads("inputs_embeds"), UnsupportedModelError, "encoder_model.onnx reads 'inputs_embeds', but"),
    "another input": (lambda folder: _texts(folder, extra=("position_ids",)), UnsupportedModelError,
                      "reads 'position_ids', too: TextEmbeddingPipeline gives input_ids, attention_mask, token_type_ids"),
}  # fmt: skip


@pytest.mark.parametrize(("write", "error", "message"), WRONG.values(), ids=WRONG)
def test_errors(tmp_path: Path, write: Callable[[Path], None], error: type[Exception], message: str) -> None:
    write(tmp_path / "onnx")
    with pytest.raises(error, match=message):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir")
    assert not (tmp_path / "ir").exists()


OTHER_TASKS = {
    "of another kind": ("text-ranking", "model.onnx is no model for text-ranking: its inputs are 'input_ids', 'att"),
    "of other files": ("text-generation", "must hold|has no caches"),
    "of other files, encoder": (
        "automatic-speech-recognition",
        "not recognised as automatic-speech-recognition, but feat",
    ),
    "unknown": ("reading", "there is no task 'reading'"),
}


@pytest.mark.parametrize(("task", "message"), OTHER_TASKS.values(), ids=OTHER_TASKS)
def test_other_tasks(tmp_path: Path, task: str, message: str) -> None:
    _texts(tmp_path / "onnx")
    code, text = run("convert", tmp_path / "onnx", "-o", tmp_path / "ir", "--task", task)
    assert code == 1
    assert any(part in " ".join(text.split()) for part in message.split("|")), text


def test_stateful_is_for_language_models(tmp_path: Path) -> None:
    _texts(tmp_path / "onnx")
    with pytest.raises(ConversionError, match=r"stateful is for language models, but .* is for feature-extraction"):
        converter.convert_folder(tmp_path / "onnx", tmp_path / "ir", stateful=True)


def test_folder_options_need_a_folder(tmp_path: Path) -> None:
    onnx.save(Decoder().build(), tmp_path / "model.onnx")
    code, text = run("convert", tmp_path / "model.onnx", "--task", "text-generation", "--variant", "q4")
    assert code == 2
    assert "--task, --variant need a folder" in text


def test_other_models_than_decoders_are_not_verified_in_steps(tmp_path: Path) -> None:
    _texts(tmp_path / "onnx")
    code, text = run("convert", tmp_path / "onnx", "-o", tmp_path / "ir", "--verify")
    assert code == 2
    assert "which is for feature-extraction: steps are of decoders alone" in " ".join(text.split())
    assert not (tmp_path / "ir").exists()


def test_the_requested_variant_is_verified(tmp_path: Path) -> None:
    write_folder(tmp_path / "onnx", Decoder())
    (tmp_path / "onnx/genai_config.json").unlink(missing_ok=True)
    (tmp_path / "onnx/model.onnx").rename(tmp_path / "onnx/model_fp16.onnx")
    (tmp_path / "onnx/model_q4.onnx").write_bytes(b"")
    code, text = run("convert", tmp_path / "onnx", "-o", tmp_path / "ir", "--verify", "--variant", "fp16")
    assert code == 0, text


# --- output folders get all files of a pipeline, or stay as they were ---

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
LAST = "vae_encoder"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diffusion") / "onnx"
    write_diffusion_folder(folder, "sd")
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def write_old_files(folder: Path) -> None:
    (folder / "unet").mkdir(parents=True)
    for name in ("unet/openvino_model.xml", "unet/openvino_model.bin", "model_index.json", "notes.txt"):
        (folder / name).write_text(f"old {name}")


def failing(function: Callable[..., Any], error: BaseException, count: int) -> Callable[..., Any]:
    """The function, which raises ``error`` in its call ``count``."""
    calls = []

    def call(*arguments: Any, **keywords: Any) -> Any:
        calls.append(1)
        if len(calls) == count:
            raise error
        return function(*arguments, **keywords)

    return call


def fail_in_weights(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    monkeypatch.setattr(WeightsLayout, "write", failing(WeightsLayout.write, error, 4))


def fail_in_copies(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    monkeypatch.setattr("shutil.copyfile", failing(lambda *_: None, error, 2))


def fail_in_renames(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Eight renames write the parts, three move old files aside, and those after these move new ones."""
    monkeypatch.setattr(os, "replace", failing(os.replace, error, 14))


@pytest.mark.parametrize("has_old", [False, True], ids=["new folder", "folder with files"])
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["disk full", "interrupted"])
@pytest.mark.parametrize("fail", [fail_in_weights, fail_in_copies, fail_in_renames])
def test_a_failure_leaves_the_folder_as_it_was(
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[[pytest.MonkeyPatch, BaseException], None],
    error: BaseException,
    has_old: bool,
) -> None:
    if has_old:
        write_old_files(tmp_path / "out")
    before = contents(tmp_path)
    fail(monkeypatch, error)
    with pytest.raises(FileError if error is FULL else KeyboardInterrupt) as caught:
        converter.convert_folder(source, tmp_path / "out/")
    assert contents(tmp_path) == before
    if error is FULL:
        assert ".part" not in str(caught.value)
        assert caught.value.errno == errno.ENOSPC
        assert str(tmp_path / "out") in str(caught.value)
    if error is FULL and fail is fail_in_weights:
        assert str(tmp_path / "out" / LAST / "openvino_model.bin") in str(caught.value)


def test_files_are_replaced(source: Path, tmp_path: Path) -> None:
    write_old_files(tmp_path / "out")
    written = converter.convert_folder(source, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names >= {"unet", "model_index.json", "notes.txt"}
    assert not any(name.startswith(".") for name in names)
    for path in (*written.models, *written.files):
        assert not path.read_bytes().startswith(b"old"), path
    assert (tmp_path / "out/notes.txt").read_text() == "old notes.txt"


def test_a_folder_in_the_place_of_a_file(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out/model_index.json").mkdir(parents=True)
    before = contents(tmp_path)
    with pytest.raises(FileError, match=r"model_index\.json' exists and is not a regular file"):
        converter.convert_folder(source, tmp_path / "out")
    assert contents(tmp_path) == before


def test_the_command_for_tokenizers_names_the_output(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(source: Path, target: Path, *, pads_left: bool) -> Tokenizers:
        return Tokenizers(False, "not installed", f"convert_tokenizer {source} -o {target}")

    monkeypatch.setattr("converter.pipelines.convert.write_tokenizers", write)
    (tokenizers,) = converter.convert_folder(source, tmp_path / "out").tokenizers
    assert tokenizers.command.endswith(f" -o {tmp_path / 'out/tokenizer'}")


def test_old_files_that_cannot_be_moved_back_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("old")
    replace = os.replace

    def refuse(*_: Any) -> None:
        raise FULL

    def move_once(*names: Any) -> None:
        monkeypatch.setattr(os, "replace", refuse)
        replace(*names)

    monkeypatch.setattr(os, "replace", move_once)
    with pytest.raises(FileError), whole_folder(tmp_path) as folder:
        (folder / "file").write_text("new")
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["old"]
