"""Output folders get all files of a pipeline, or stay as they were."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import converter
from converter.language_models.tokenizers import Tokenizers
from ir_runtime.errors import FileError
from ir_runtime.files.weights import WeightsLayout
from ir_runtime.files.whole_files import whole_folder

from .images import write_diffusion_folder

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
