"""Every type that ONNX's schemas allow and the IR has, for every operator, in both engines.

What fails stands in ``known_type_failures.json`` with its reason, and is strict: a row that passes
unexpectedly fails here, too. Rows of random numbers are compared by type and shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from onnx import defs

from tests.engines import assert_close, converted, output_names, run
from tests.routes import check_routes
from tests.suite.type_matrix import Row, Sample, rows, sample
from tests.suite.type_oracle import Expected, expected

ROWS = rows()
NAMES = {str(row) for row in ROWS}
NO_MODEL, NO_EXPECTATION = "model", "expectation"
"""Beside the engines, what may be missing: a valid model of the row, somebody who knows its outputs."""


@cache
def known_failures() -> Mapping[tuple[str, str], str]:
    """(row, engine) -> the reason for which it fails."""
    found: dict[tuple[str, str], str] = {}
    for entry in json.loads((Path(__file__).parent / "known_type_failures.json").read_text()):
        for engine in entry["engines"]:
            for row in entry["rows"]:
                assert (row, engine) not in found, f"{row} is listed twice for {engine}"
                found[row, engine] = entry["reason"]
    return found


def outcome(row: Row) -> dict[str, str]:
    """What is wrong, by engine; empty where the row passes."""
    case = sample(row)
    if case is None:
        return {NO_MODEL: "no seed makes a valid model"}
    wanted = expected(case)
    if wanted is None:
        return {NO_EXPECTATION: "nobody knows the outputs"}
    try:
        ir = converted(case.model)
    except Exception as error:
        refused = dict.fromkeys(row.engines, f"not converted: {error}")
        if "numpy" in row.engines and "the target 'any' writes these layers" in str(error):
            refused["numpy"] = _difference("numpy", converted(case.model, "any"), case, wanted)
        return refused
    return {engine: _difference(engine, ir, case, wanted) for engine in row.engines}


def _difference(engine: str, ir: tuple[bytes, bytes], case: Sample, wanted: Expected) -> str:
    try:
        actual = run(engine, ir, case.feeds, output_names(case.model))
        assert len(actual) == len(wanted.outputs), f"{len(actual)} outputs, expected {len(wanted.outputs)}"
        for value, want in zip(actual, wanted.outputs):
            _compare(value, want, wanted.values)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _compare(value: np.ndarray, want: np.ndarray, values: bool) -> None:
    if not values:
        assert value.dtype == want.dtype, f"dtype {value.dtype}, expected {want.dtype}"
        assert value.shape == want.shape, f"shape {value.shape}, expected {want.shape}"
        return
    # Sums that cancel keep the error of their summands.
    greatest = float(np.abs(np.nan_to_num(want, posinf=0, neginf=0)).max(initial=0)) if want.dtype.kind == "f" else 0
    assert_close(value, want, atol=max(1e-5, 1e-6 * greatest))


def test_every_operator_has_rows() -> None:
    operators = {s.name for s in defs.get_all_schemas_with_history() if s.domain == "" and not s.deprecated}
    assert {row.operator for row in ROWS} == operators


def test_every_known_failure_is_a_row() -> None:
    assert {row for row, _ in known_failures()} <= NAMES


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row: Row) -> None:
    found = outcome(row)
    for engine in (NO_MODEL, NO_EXPECTATION, *row.engines):
        reason = known_failures().get((str(row), engine))
        if reason is None:
            assert found.get(engine, "") == "", f"{engine}: {found[engine]}"
        else:
            assert found.get(engine, "") != "", f"{engine} passes, but is listed as failing: {reason}"
    if not found.keys() & {NO_MODEL, NO_EXPECTATION, "numpy"}:
        _check_routes(row)


def _check_routes(row: Row) -> None:
    case = sample(row)
    wanted = None if case is None else expected(case)
    assert case is not None
    assert wanted is not None

    def compare(route: str, actual: Sequence[np.ndarray]) -> None:
        for value, want in zip(actual, wanted.outputs, strict=True):
            _compare(value, want, wanted.values)

    check_routes(case.model, case.feeds, output_names(case.model), compare)
