"""A page of a comparison in which a layer is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import converter
from tests.converter.equivalence.verdicts import transposed_product


@pytest.fixture
def faulty(deep: Path, tmp_path: Path) -> Path:
    model = converter.convert_model(deep)
    transposed_product(model)
    converter.verify(deep, model, report=tmp_path / "page.html")
    return tmp_path / "page.html"
