"""What docs/preprocessing.md shows in Python and TOML does the same."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

import converter
from converter.preprocessing.recorded import Recorded
from tests.converter.preprocessing.pictures import model_of_pictures

PAGE = (Path(__file__).parents[3] / "docs" / "preprocessing.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found is not None
    return found[1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is read from Python 3.11 on")
def test_python_and_the_file_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of_pictures(), "model.onnx")
    names: dict[str, Any] = {}
    exec(block("python"), names)
    Path("steps.toml").write_text(block("toml").replace("logits", "scores"))
    by_file = converter.convert_model("model.onnx", preprocess="steps.toml")
    assert Recorded.of(names["model"]).inputs == Recorded.of(by_file).inputs
    assert Recorded.of(by_file).outputs["scores"].element_type == "f16"
    assert converter.verify("model.onnx", by_file).passed
