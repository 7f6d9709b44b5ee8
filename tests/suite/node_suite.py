"""ONNX's backend node suite through both engines: every case against its stored outputs.

The comparison is that of the figures in the documentation: exact types and shapes, values within
rtol 1e-3 and atol 1e-5. No case is passed by its name.
"""

from __future__ import annotations

import json
import os
import pickle
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.engines import ENGINES, HAS_AVX512, converted, output_names, run
from tests.models.sources import CACHE
from tests.runtimes.batches import Batches, Run

KNOWN = Path(__file__).parent / "known_failures.json"


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


def plain_outcome(case: Case) -> str:
    """What is wrong with the plain IR, without any rule of a target, in NumPy."""
    try:
        ir = converted(case.model, "any")
    except Exception as error:
        return f"not converted: {error}"
    return _run("numpy", ir, input_names(case), case)


def outcome(case: Case) -> dict[str, str]:
    """For each engine what is wrong; empty where the case passes."""
    together = BATCHES.take(case.name)
    try:
        ir = _irs.pop(case.name, None) or converted(case.model)
    except Exception as error:
        # What the target cannot run is refused; the plain layers may be right nevertheless.
        return {"numpy": plain_outcome(case), "openvino": f"not converted: {error}"}
    if "openvino" in together and not _differences(together["openvino"], case.data_sets[0][1]):
        return {"numpy": _run("numpy", ir, input_names(case), case), "openvino": ""}
    return {engine: _run(engine, ir, input_names(case), case) for engine in ENGINES}


def _prepare(case: Case) -> dict[str, Run]:
    """Return the run of a case of one data set in OpenVINO; those that are known to fail are run alone."""
    if len(case.data_sets) != 1 or (case.name, "openvino") in known_failures():
        return {}
    inputs, outputs = case.data_sets[0]
    feeds = dict(zip(input_names(case), (as_array(value) for value in inputs if value is not None)))
    ir = _irs[case.name] = converted(case.model)
    return {"openvino": Run(ir, feeds, output_names(case.model)[: len(outputs)])}


_irs: dict[str, tuple[bytes, bytes]] = {}
"""The IRs of the batch that ran last, until they are taken."""
BATCHES = Batches(_prepare)


def input_names(case: Case) -> list[str]:
    """The names of the inputs that a case has values for."""
    initializers = {tensor.name for tensor in case.model.graph.initializer}
    return [value.name for value in case.model.graph.input if value.name not in initializers]


def _run(engine: str, ir: tuple[bytes, bytes], names: list[str], case: Case) -> str:
    for inputs, outputs in case.data_sets:
        try:
            given = [as_array(value) for value in inputs if value is not None]
            actual = run(engine, ir, dict(zip(names, given)), output_names(case.model)[: len(outputs)])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        found = _differences(actual, outputs)
        if found:
            return found
    return ""


def _differences(actual: Sequence[Any], outputs: Sequence[Any]) -> str:
    if len(actual) != len(outputs):
        return f"{len(actual)} outputs, expected {len(outputs)}"
    found = [difference(value, as_array(expected)) for value, expected in zip(actual, outputs)]
    return next((f"output {index}: {text}" for index, text in enumerate(found) if text), "")


WITHOUT_AVX512 = (
    "test_cast_FLOAT_to_BFLOAT16",
    "test_castlike_FLOAT_to_BFLOAT16",
    "test_castlike_FLOAT_to_BFLOAT16_expanded",
    "test_celu_bfloat16",
    "test_celu_bfloat16_expanded",
)
"""Cases that fail in OpenVINO on processors without AVX-512."""


@cache
def known_failures() -> dict[tuple[str, str], str]:
    """(case, engine) -> the reason for which it fails."""
    cut = "without AVX-512 the plug-in cuts bits off in conversions to bfloat16: 0.4703 becomes 0.46875"
    found = {} if HAS_AVX512 else {(case, "openvino"): cut for case in WITHOUT_AVX512}
    for entry in json.loads(KNOWN.read_text()):
        for engine in entry["engines"]:
            for case in entry["cases"]:
                assert (case, engine) not in found, f"{case} is listed twice for {engine}"
                found[case, engine] = entry["reason"]
    return found
