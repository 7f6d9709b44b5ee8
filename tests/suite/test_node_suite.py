"""Every case of ONNX's node suite and of its stored models, in both engines.

What fails stands in ``known_failures.json`` with its reason, and is strict: a case that passes
unexpectedly fails here, too. ``benchmarks/node_suite.py`` prints the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.engines import ENGINES, output_names
from tests.routes import check_routes
from tests.suite.node_suite import (
    BATCHES,
    Case,
    as_array,
    difference,
    input_names,
    known_failures,
    node_cases,
    outcome,
    plain_outcome,
    stored_cases,
)

CASES = [
    *node_cases(),
    *(case for folder in ("pytorch-converted", "pytorch-operator", "simple") for case in stored_cases(folder)),
]


def test_every_known_failure_is_a_case() -> None:
    assert {case for case, _ in known_failures()} <= {case.name for case in CASES}


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    found = outcome(case)
    for engine in ENGINES:
        reason = known_failures().get((case.name, engine))
        if reason is None:
            assert found[engine] == "", f"{engine}: {found[engine]}"
        elif reason.startswith("random numbers"):  # a few of them may be the stored ones
            assert found[engine] == "" or "values differ" in found[engine], f"{engine}: {found[engine]}"
        else:
            assert found[engine] != "", f"{engine} passes, but is listed as failing: {reason}"
    if (case.name, "numpy") not in known_failures():
        plain = plain_outcome(case)
        assert plain == "", f"the plain IR in NumPy: {plain}"
        check_other_routes(case)


def check_other_routes(case: Case) -> None:
    """Take the first data set by the routes whose turn it is, where it consists of tensors."""
    inputs, outputs = ([as_array(value) for value in values] for values in case.data_sets[0])
    names = input_names(case)
    if not all(isinstance(value, np.ndarray) for value in [*inputs, *outputs]) or len(names) != len(inputs):
        return

    def compare(route: str, actual: Sequence[np.ndarray]) -> None:
        for value, expected in zip(actual, outputs, strict=True):
            message = difference(value, expected)
            assert not message, f"{route}: {message}"

    check_routes(case.model, dict(zip(names, inputs)), output_names(case.model)[: len(outputs)], compare)
