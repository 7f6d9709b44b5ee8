"""Every example runs as a user would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.converter.language_models.decoders import Decoder
from tests.converter.language_models.folders import write_folder
from tests.converter.language_models.running import OnnxDecoder

ROOT = Path(__file__).parent.parent
TEXT = "generate_text.py"
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name != TEXT]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example), str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_quickstart_writes_a_verified_pair(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart.py"), str(tmp_path)],
        capture_output=True, text=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert "layers: Parameter, AvgPool" in done.stdout
    assert "PASSED" in done.stdout
    assert (tmp_path / "quickstart.xml").exists()
    assert (tmp_path / "quickstart.bin").exists()


def test_text_is_that_of_onnxruntime(tmp_path: Path) -> None:
    write_folder(tmp_path, Decoder())
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / TEXT), str(tmp_path), "Once upon a time", "12"],
        capture_output=True, cwd=ROOT, check=True, env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    session, found = OnnxDecoder(Decoder(), Decoder().build()), list[int]()
    step = np.array([tokenizer.encode("Once upon a time").ids])
    while len(found) < 12:
        step = session(step)[:, -1:].argmax(-1)
        found.append(int(step[0, 0]))
    assert done.stdout.decode("utf-8") == tokenizer.decode(found) + os.linesep


def test_without_a_folder_the_example_tells_what_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / TEXT)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1
    assert "FOLDER" in done.stderr
