"""Models on disk that tests of several rooms take."""

from __future__ import annotations

from pathlib import Path

import pytest

import converter
from tests.converter.equivalence import models
from tests.converter.equivalence.edits import attributes
from tests.converter.language_models.decoders import converted_tokenizers, tokenizers_once  # noqa: F401


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    return models.saved(models.deep(), tmp_path)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return models.saved(models.image(), tmp_path)


@pytest.fixture
def faulty(deep: Path, tmp_path: Path) -> Path:
    """A page of a comparison in which a layer is wrong."""
    model = converter.convert_model(deep)
    attributes("product5", transpose_b=lambda before: not before)(model)
    converter.verify(deep, model, report=tmp_path / "page.html")
    return tmp_path / "page.html"
