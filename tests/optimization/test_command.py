"""``onnx2ir optimize``: what it writes, prints and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.commands import onnx2ir
from tests.optimization.models import operators, opset_of
from tests.optimization.test_what_is_kept import layer_norm


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(layer_norm(), tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_beside_the_model(folder: Path) -> None:
    code, out, errors = onnx2ir("optimize", "m.onnx")
    assert code == 0, errors
    assert "10 nodes became 2, of opset 17" in out + errors
    assert operators(onnx.load(folder / "m.optimized.onnx").graph) == ["MatMul", "LayerNormalization"]


def test_json_with_a_verification(folder: Path) -> None:
    code, out, _ = onnx2ir("optimize", "m.onnx", "-o", "small.onnx", "--verify", "--json", "--opset", "13")
    result = json.loads(out)
    assert code == 0
    assert (result["onnx"], result["opset"], result["nodes_before"]) == ("small.onnx", 13, 10)
    assert result["verification"]["verdict"] == "equal"
    assert result["files"] == {"small.onnx": (folder / "small.onnx").stat().st_size}
    assert opset_of(onnx.load(folder / "small.onnx")) == 13


def test_verify_with_inputs(folder: Path) -> None:
    np.savez(folder / "inputs.npz", x=np.ones((3, 3), np.float32))
    code, out, errors = onnx2ir("optimize", "m.onnx", "--verify", "--inputs", "inputs.npz", "--input", "x[3,3]")
    assert code == 0, errors
    assert "equal" in out
    code, _, errors = onnx2ir("optimize", "m.onnx", "--inputs", "inputs.npz")
    assert code == 2
    assert "needs --verify" in errors


def test_weights_beside_the_model(folder: Path) -> None:
    assert onnx2ir("optimize", "m.onnx", "-o", "small.onnx", "--external-data")[0] == 0
    assert (folder / "small.onnx.data").exists() or not onnx.load("small.onnx").graph.initializer[0].external_data


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("m.onnx -o m.onnx", 1, "is the model that is read"),
        ("m.onnx -o small.xml", 1, ".onnx"),
        ("m.onnx -o missing/small.onnx", 1, "no folder"),
        ("m.onnx --opset 5", 1, "from 7 to 28"),
        ("m.onnx --opset 99", 1, "from 7 to 28"),
        ("m.onnx --target cpu", 2, "plain"),
        ("missing.onnx", 2, "missing.onnx"),
        ("m.onnx --input nothing[1]", 1, "nothing"),
    ],
)
def test_refusals_write_nothing(words: str, code: int, reason: str, folder: Path) -> None:
    result = onnx2ir("optimize", *words.split())
    assert result[0] == code, result
    assert reason in result[2]
    assert [path.name for path in folder.iterdir()] == ["m.onnx"]
    assert onnx.load(folder / "m.onnx") == layer_norm()
