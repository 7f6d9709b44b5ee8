"""Platforms without threads, and of 32 bits, as Pyodide is: simulated by what NumPy and Python refuse there."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ir_runtime import Model, compile_model, read_model, threads, write_model
from ir_runtime.graph import indices
from tests.ir_runtime.execution.kernel_checks import Layers, model_of, normal

ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads.are_available.cache_clear()
    yield
    threads.are_available.cache_clear()


def product() -> tuple[Model, list[np.ndarray]]:
    """A product that two threads share where there are two."""
    weights = normal(512, 512)
    inputs = [normal(512, 512)]
    return model_of(lambda b, x: b.MatMul(x, weights), inputs), inputs


@pytest.mark.usefixtures("no_threads")
def test_models_are_written_and_run_without_threads(tmp_path: Path) -> None:
    model, inputs = product()
    write_model(model, tmp_path / "m.xml")
    results = compile_model(read_model(tmp_path / "m.xml"), threads=2)(inputs)
    weights = next(node.op.data.array() for node in model.nodes() if node.op.data is not None)
    np.testing.assert_allclose(results[0], inputs[0].astype(np.float64) @ weights, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("no_threads")
def test_an_error_while_writing_is_raised_without_threads(tmp_path: Path) -> None:
    model, _ = product()
    (tmp_path / "m.bin").mkdir()
    with pytest.raises(OSError, match=r"m\.bin"):
        write_model(model, tmp_path / "m.xml")
    assert not (tmp_path / "m.xml").exists()


@pytest.fixture
def platform_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy there converts no int64 to indices, as it may lose values."""
    take, bincount = np.take, np.bincount

    def strict(function: Any, position: int) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if np.asarray(args[position]).dtype != np.int32:
                raise TypeError("Cannot cast array data from dtype('int64') to dtype('int32') according to 'safe'")
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(indices, "INDEX_TYPE", np.dtype(np.int32))
    monkeypatch.setattr(np, "take", strict(take, 1))
    monkeypatch.setattr(np, "bincount", strict(bincount, 0))


@pytest.mark.usefixtures("platform_of_32_bits")
@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
def test_gather_with_indices_of_64_bits(is_constant: bool, optimize: bool) -> None:
    table, rows = normal(7, 5), np.array([[3, -1], [0, 6]])

    def make(b: Layers, x: Any, *computed: Any) -> Any:
        chosen = b.constant(rows, "i64") if is_constant else computed[0]
        return b.Gather(x, chosen, 0, opset=8)

    inputs = [table] if is_constant else [table, rows]
    compiled = compile_model(model_of(make, inputs), optimize=optimize)
    for _ in range(3):  # the later calls have a plan for their shapes
        np.testing.assert_array_equal(compiled(inputs)[0], table[rows])


def test_only_one_module_gives_indices_to_numpy() -> None:
    """Elsewhere ``numpy.take`` and ``bincount`` would refuse int64 on platforms of 32 bits."""
    calls = re.compile(r"\bnp\.(take|bincount)\b")
    sources = [path for room in ("ir_runtime", "converter") for path in (ROOT / room).rglob("*.py")]
    assert [path.name for path in sources if calls.search(path.read_text(encoding="utf-8"))] == ["indices.py"]
