"""Fixtures for tests that convert folders: tokenizers that several folders have are converted once.

A ``conftest.py`` or a module that imports both fixtures uses them in all of its tests.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

import converter.pipelines.convert
from converter.language_models import tokenizers
from converter.language_models.tokenizers import Tokenizers, write_tokenizers

_NEEDED = tokenizers._NEEDED


@pytest.fixture(scope="session")
def converted_tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokenizers")


@pytest.fixture(autouse=True)
def tokenizers_once(converted_tokenizers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converting one takes a second, most of it for imports of a process of its own."""

    def write(source: Path, target: Path, *, pads_left: bool = True) -> Tokenizers:
        files = sorted(source.glob("tokenizer*.json")) + sorted(source.glob("chat_template*"))
        contents = b"".join(file.read_bytes() for file in files) + bytes([pads_left])
        folder = converted_tokenizers / hashlib.sha256(contents).hexdigest()
        if tokenizers._NEEDED != _NEEDED:  # a test of what happens without the packages
            return write_tokenizers(source, target, pads_left=pads_left)
        if not folder.is_dir():
            written = write_tokenizers(source, target, pads_left=pads_left)
            if not written.written:
                return written
            folder.mkdir()
            for file in target.glob("openvino_*tokenizer.*"):
                shutil.copyfile(file, folder / file.name)
        target.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            shutil.copyfile(file, target / file.name)
        return Tokenizers(True)

    monkeypatch.setattr(converter.pipelines.convert, "write_tokenizers", write)
