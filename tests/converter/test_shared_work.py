"""Large weights are compressed and written by several threads: the same files, errors and progress as from one."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from converter.stages import watched
from ir_runtime import ModelError, threads
from ir_runtime.files import whole_files
from ir_runtime.graph import Tensor
from tests.random_data import generator


@pytest.fixture
def many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything counts as large, and there are processors."""
    monkeypatch.setattr(threads, "LARGE", 0)
    monkeypatch.setattr(threads, "processors", lambda: 3)


def products(path: Path, count: int = 7) -> Path:
    """Write products whose weights are transposed when they are written, one of them twice, and a table."""
    r = generator(5)
    weights = {f"w{i}": r.standard_normal((96, 96)).astype(np.float32) for i in range(count)}
    weights["same"] = weights["w0"]
    table = r.standard_normal((50, 96)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "places"], ["x0"]),
        *(helper.make_node("MatMul", [f"x{i}", name], [f"x{i + 1}"]) for i, name in enumerate(weights)),
    ]
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("places", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info(f"x{len(weights)}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in {**weights, "table": table}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path, save_as_external_data=True, location="data", size_threshold=0)
    return path


def _files(folder: Path, **saving: Any) -> list[bytes]:
    converter.save_model(converter.convert_model(folder / "m.onnx"), folder / "m.xml", **saving)
    return [(folder / name).read_bytes() for name in ("m.xml", "m.bin")]


@pytest.mark.parametrize(
    "saving", [{}, {"compress_to_fp16": True}, {"compress": "int8"}, {"compress": "int4", "group_size": 32}]
)
def test_threads_write_the_files_of_one(
    saving: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many_threads: None
) -> None:
    products(tmp_path / "m.onnx")
    writers, original = set(), Tensor.write_to

    def write_to(self: Tensor, *arguments: Any) -> None:
        writers.add(threading.current_thread())
        time.sleep(0.01)  # so that no thread takes all weights before another begins
        original(self, *arguments)

    monkeypatch.setattr(Tensor, "write_to", write_to)
    by_several = _files(tmp_path, **saving)
    assert len(writers) > 1
    writers.clear()
    monkeypatch.setattr(threads, "LARGE", 1 << 40)
    assert _files(tmp_path, **saving) == by_several
    assert len(writers) == 1


def test_an_error_of_a_thread_names_the_file_and_leaves_the_old_pair(tmp_path: Path, many_threads: None) -> None:
    products(tmp_path / "m.onnx")
    before = _files(tmp_path)
    model = converter.convert_model(tmp_path / "m.onnx")
    (tmp_path / "data").write_bytes((tmp_path / "data").read_bytes()[:5000])
    with pytest.raises(ModelError, match=r"data' has (changed|lost)"):
        converter.save_model(model, tmp_path / "m.xml")
    assert [(tmp_path / name).read_bytes() for name in ("m.xml", "m.bin")] == before
    assert {path.name for path in tmp_path.iterdir()} == {"m.onnx", "data", "m.xml", "m.bin"}


def test_results_come_in_order_and_errors_in_their_place(many_threads: None) -> None:
    both = threading.Barrier(2, timeout=10)
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        if number < 2:
            both.wait()  # passes if two threads work at a time
        if number == 3:
            raise ValueError("three")
        time.sleep(0.05 / (number + 1))
        return number

    results = threads.map_in_order(work, range(100), byte_count=1)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert len(begun) < 100, "what no thread has begun is left out"


@pytest.mark.parametrize("large", [False, True])
def test_progress_rises_to_the_whole(large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(threads, "LARGE", 0)
    products(tmp_path / "m.onnx")
    shown: list[tuple[str, float]] = []
    with watched(lambda task, share: shown.append((task, share))):
        _files(tmp_path, compress="int8")
    for task in ("Compressing weights", "Writing m.xml"):
        shares = [share for name, share in shown if name == task]
        assert shares == sorted(shares)
        assert len(shares) > 8
        assert shares[-1] == 1


@pytest.mark.parametrize("large", [False, True])
def test_an_interruption_stops_the_threads_and_leaves_nothing(
    large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(threads, "LARGE", 0)
    products(tmp_path / "m.onnx")
    model = converter.convert_model(tmp_path / "m.onnx")
    written, original = [], Tensor.write_to

    def write_to(self: Tensor, *arguments: Any) -> None:
        time.sleep(0.05)
        original(self, *arguments)
        written.append(self)

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tensor, "write_to", write_to)
    monkeypatch.setattr(whole_files, "_sync_data", interrupt)
    with pytest.raises(KeyboardInterrupt):
        converter.save_model(model, tmp_path / "m.xml")
    assert len(written) < 3
    assert {path.name for path in tmp_path.iterdir()} == {"m.onnx", "data"}


def test_external_data_is_written_by_threads_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    products(tmp_path / "m.onnx")
    converter.save_model(converter.convert_model(tmp_path / "m.onnx"), tmp_path / "m.xml")
    files = []
    for large in (1 << 40, 1):
        monkeypatch.setattr(threads, "LARGE", large)
        monkeypatch.setattr(threads, "processors", lambda: 3)
        converter.save_onnx(tmp_path / "m.xml", tmp_path / f"{large}.onnx", external_data=True)
        files.append((tmp_path / f"{large}.onnx.data").read_bytes())
    assert files[0] == files[1]
    assert len(files[0]) > 7 * 96 * 96 * 4, "equal weights are one"
