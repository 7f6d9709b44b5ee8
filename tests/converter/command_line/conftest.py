"""A folder with the files that transcripts name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.command_line.files import copy_to


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path
