"""Models on disk that tests of several rooms take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.converter.equivalence import models


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    return models.saved(models.deep(), tmp_path)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return models.saved(models.image(), tmp_path)
