"""Static models of ONNX's node suite, converted as they are and then given other dimensions, in both engines.

A reshape is right. It may be refused only where the specification does not know it: onnxruntime alone runs labels of
another batch than the scores. What is wrong or refused all the same stands in ``known_reshapes.toml`` with its
reason, strict both ways: by case for each engine.
``benchmarks/reshape.py`` counts what is right, wrong and refused beside OpenVINO's importer.
"""

from __future__ import annotations

import pytest

from tests.engines import ENGINES
from tests.suite.known import known_failures, known_reshape_failures
from tests.suite.node_suite import Case, node_cases
from tests.suite.reshape import confirmed, outcomes


@pytest.mark.parametrize("case", node_cases(), ids=lambda case: case.name)
def test_case(case: Case) -> None:
    found: dict[str, list[str]] = {engine: [] for engine in ENGINES}
    for one, verdicts in outcomes(case):
        for engine in ENGINES:
            is_wrong = verdicts[engine].startswith("wrong")
            if is_wrong or (verdicts[engine] != "right" and confirmed(case.model, one)):
                found[engine].append(f"{one.label}: {verdicts[engine]}")
    for engine in ENGINES:
        if (case.name, engine) in known_failures():
            continue  # not right as it stands, either
        reason = known_reshape_failures().get((case.name, engine))
        if reason is None:
            assert not found[engine], f"{engine}: {found[engine]}"
        else:
            assert found[engine], f"{engine} is right, but is listed as failing: {reason}"
