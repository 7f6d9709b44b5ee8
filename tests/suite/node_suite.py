"""ONNX's backend node suite: its cases, and the comparison of the figures in the documentation.

That is: exact types and shapes, values within rtol 1e-3 and atol 1e-5. ``tests/rows/suite/node.py`` has the rows.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.models.sources import CACHE


@dataclass(frozen=True)
class Case:
    """A model with inputs and the outputs that ONNX's suite has for it."""

    name: str
    model: onnx.ModelProto
    data_sets: list[tuple[list[Any], list[Any]]]


@cache
def node_cases() -> tuple[Case, ...]:
    """All cases of the installed onnx, in its order; computed once for each release, as that takes seconds."""
    target = CACHE / f"node-suite-{onnx.__version__}-{np.__version__}.pickle"
    if target.exists():
        cases = [(name, model, _with_own_types(data)) for name, model, data in pickle.loads(target.read_bytes())]
    else:
        from onnx.backend.test.case.node import collect_testcases

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cases = [(case.name, case.model, case.data_sets) for case in collect_testcases(None)]
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.part")
        partial.write_bytes(pickle.dumps(cases))
        partial.replace(target)
    return tuple(Case(*case) for case in cases)


def _with_own_types(value: Any) -> Any:
    """Return arrays with NumPy's own types, of which pickle makes copies that are not known as such."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_with_own_types, value))
    if isinstance(value, np.ndarray) and value.dtype.isbuiltin == 0 and value.dtype.char in np.typecodes["All"]:
        return value.view(np.dtype(value.dtype.char)) if value.dtype.kind in "biufc" else value.astype(value.dtype.char)
    return value


def stored_cases(folder: str) -> Iterator[Case]:
    """Cases that lie as files in the installed onnx: ``pytorch-converted``, ``pytorch-operator``, ``simple``."""
    root = Path(onnx.__file__).parent / "backend" / "test" / "data" / folder
    for path in sorted(root.iterdir()):
        model = onnx.load(path / "model.onnx")
        sets = []
        for data in sorted(path.glob("test_data_set_*")):
            inputs = [_load(file) for file in sorted(data.glob("input_*.pb"), key=_number)]
            outputs = [_load(file) for file in sorted(data.glob("output_*.pb"), key=_number)]
            sets.append((inputs, outputs))
        yield Case(path.name, model, sets)


def _number(file: Path) -> int:
    return int(file.stem.rsplit("_", 1)[1])


def _load(file: Path) -> Any:
    data = file.read_bytes()
    try:
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))
    except (ValueError, TypeError):
        return data  # a sequence or an optional, which no engine takes


def as_array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def difference(actual: Any, expected: Any) -> str:
    """How the two differ; empty where they do not."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return f"shape {list(actual.shape)}, expected {list(expected.shape)}"
    if expected.dtype.kind in "OU":
        return "" if (actual.astype(str) == expected.astype(str)).all() else "texts differ"
    if actual.dtype != expected.dtype:
        return f"type {actual.dtype}, expected {expected.dtype}"
    if expected.dtype.kind in "c":
        return "complex values"
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return (
            "" if np.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True) else f"values differ by {np.abs(a - b).max()}"
        )


def all_cases() -> tuple[Case, ...]:
    """The node suite, then the models that are stored beside it."""
    folders = ("pytorch-converted", "pytorch-operator", "simple")
    return (*node_cases(), *(case for folder in folders for case in stored_cases(folder)))


def input_names(model: onnx.ModelProto) -> list[str]:
    """The names of the inputs that a caller gives values for."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in initializers]
