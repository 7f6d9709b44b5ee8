"""``onnx2ir run --steps``: the steps of a model with variables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ir_runtime
from tests.converter.test_cli import onnx2ir
from tests.ir_runtime.test_sessions import growing


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    """The sum of all that it has been given, [2,1,3], and all of it."""
    path = tmp_path / "sum.xml"
    ir_runtime.write_model(growing(1, returned=True), path)
    return path


def saved(path: Path, *shape: int, first: float = 1) -> Path:
    np.savez(path, x=np.arange(first, first + np.prod(shape), dtype=np.float32).reshape(shape))
    return path


def test_each_step_gets_the_same_inputs(xml: Path, tmp_path: Path) -> None:
    given, result = saved(tmp_path / "x.npz", 2, 1, 3), tmp_path / "y.npz"
    done = onnx2ir("run", xml, "--inputs", given, "--steps", 3, "-o", result, "--json")
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert [[row["shape"] for row in step["outputs"]] for step in steps] == [[[2, 1, 3], [2, n, 3]] for n in (1, 2, 3)]
    assert [step["outputs"][0]["max"] for step in steps] == [6, 12, 18]
    found = np.load(result)
    assert sorted(found.files) == [f"y{output}/{step}" for output in (0, 1) for step in (1, 2, 3)]
    np.testing.assert_array_equal(found["y0/3"], 3 * np.arange(1, 7).reshape(2, 1, 3))
    shown = onnx2ir("run", xml, "--inputs", given, "--steps", 2)
    assert shown.returncode == 0, shown.stderr
    assert "step" in shown.stdout
    # Without steps each call starts anew.
    plain = json.loads(onnx2ir("run", xml, "--inputs", given, "--json").stdout)
    assert plain["outputs"][0]["max"] == 6


def test_files_are_the_inputs_of_the_first_steps(xml: Path, tmp_path: Path) -> None:
    prompt, token = saved(tmp_path / "a.npz", 2, 4, 3), saved(tmp_path / "b.npz", 2, 1, 3, first=100)
    for more, lengths in ([[], [4, 5]], [["--steps", 4], [4, 5, 6, 7]]):
        done = onnx2ir("run", xml, "--inputs", prompt, "--inputs", token, *more, "--json")
        assert done.returncode == 0, done.stderr
        assert [step["outputs"][1]["shape"][1] for step in json.loads(done.stdout)["steps"]] == lengths


def test_an_array_with_a_part_for_each_step(xml: Path, tmp_path: Path) -> None:
    given = saved(tmp_path / "x.npz", 3, 2, 1, 3)
    done = onnx2ir("run", xml, "--inputs", given, "--steps", 3, "--json")
    assert done.returncode == 0, done.stderr
    assert [step["outputs"][0]["max"] for step in json.loads(done.stdout)["steps"]] == [6, 6 + 12, 6 + 12 + 18]
    for count in (2, 4):
        done = onnx2ir("run", xml, "--inputs", given, "--steps", count)
        assert done.returncode == 1
        assert f"the values of input 'x' are those of 3 steps, but there are {count}" in " ".join(done.stderr.split())


def test_random_inputs_and_profile(xml: Path) -> None:
    done = onnx2ir("run", xml, "--steps", 3, "--profile", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (len(shown["steps"]), shown["calls"]) == (3, 3)
    assert {"Concat", "ReduceSum"} <= {row["type"] for row in shown["types"]}


def test_mistakes(xml: Path, tmp_path: Path) -> None:
    good, bad = saved(tmp_path / "x.npz", 2, 1, 3), saved(tmp_path / "bad.npz", 2, 1, 4)
    for arguments, code, wanted in [
        (["--steps", 0], 2, "0 is not in the range"),
        (["--steps", 2, "--repeat", 3], 2, "cannot be combined with --steps"),
        (["--steps", 1, "--inputs", good, "--inputs", good], 2, "2 files of inputs, but only 1 steps"),
        (["--inputs", good, "--inputs", bad], 1, "error: step 2: input 'x' must have the shape [2,?,3]"),
    ]:
        done = onnx2ir("run", xml, *arguments)
        assert done.returncode == code
        assert wanted in " ".join(done.stderr.replace("\u2502", " ").split())
