"""verify chooses shapes that need little memory and work, by an estimate, and says so where none do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.equivalence import cost
from converter.equivalence.cost import Cost, types_for_shapes
from tests.peak_memory import PEAK


def pixels_that_attend_to_each_other(folder: Path, shape: tuple = ("n", 3, "h", "w")) -> Path:
    """Scores of 2 x 16384 x 16384 for images of 128 pixels a side: 2 GB, from a graph of a kilobyte."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["features"], kernel_shape=[1, 1]),
        helper.make_node("Reshape", ["features", "to"], ["keys"]),
        helper.make_node("Transpose", ["keys"], ["queries"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["queries", "keys"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "queries"], ["y"]),
    ]
    weights = {
        "w": np.random.default_rng(0).standard_normal((8, 3, 1, 1)).astype(np.float32),
        "to": np.array([0, 8, -1], np.int64),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_images_are_small_where_larger_ones_need_gigabytes(tmp_path: Path) -> None:
    path = pixels_that_attend_to_each_other(tmp_path)
    code = f"""{PEAK}
import converter
report = converter.verify({str(path)!r}, converter.convert_model({str(path)!r}))
assert report.passed, str(report)
print(peak())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1_500_000, "kilobytes"


def test_declared_shapes_are_taken_though_they_need_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "_MOST_OPERATIONS", 1.0)
    path = pixels_that_attend_to_each_other(tmp_path, (2, 3, 16, 16))
    report = converter.verify(path, converter.convert_model(path))
    assert report.passed
    assert report.inputs == {"x": [2, 3, 16, 16]}


def test_the_cheapest_shapes_come_first_where_all_are_expensive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "_MOST_OPERATIONS", 1.0)
    path = pixels_that_attend_to_each_other(tmp_path)
    assert converter.verify(path, converter.convert_model(path)).inputs == {"x": [1, 3, 1, 1]}


def test_too_little_memory_is_an_error_that_tells_what_to_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "available_memory", lambda: 1000)
    path = pixels_that_attend_to_each_other(tmp_path, (1, 3, 64, 64))
    with pytest.raises(converter.VerificationError, match=r"not enough memory.*x\[1, 3, 64, 64\].*GiB.*--input"):
        converter.verify(path, converter.convert_model(path))


def test_the_estimate_is_that_of_the_arrays(tmp_path: Path) -> None:
    """Scores and shares live at once, beside the queries: 2 x 1024 x 1024 and 2 x 1024 x 8 floats."""
    model = converter.convert_model(pixels_that_attend_to_each_other(tmp_path))
    types = types_for_shapes(model, {0: (2, 3, 32, 32)})
    assert types is not None
    estimate = Cost.of(model, types)
    assert 2 * 2 * 1024**2 * 4 <= estimate.peak <= 2 * 2 * 1024**2 * 4 + 4 * 2 * 1024 * 8 * 4
    products = 2 * 2 * 1024**2 * 8
    assert products <= estimate.operations <= 1.3 * products
    assert types_for_shapes(model, {0: (2, 4, 32, 32)}) is None


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc/meminfo")
def test_available_memory_is_less_than_all_of_it() -> None:
    memory = cost.available_memory()
    assert memory is not None
    total = int(Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[0].split()[1]) * 1024
    assert 0 < memory <= total
