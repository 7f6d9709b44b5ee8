"""A random matrix over ReduceMean, ReduceL1 and AveragePool: every case in both engines.

Oracles: exact integers and float64 for the reductions, onnxruntime for pooling. A larger run of the
same matrix is ``benchmarks/matrix.py``.
"""

from __future__ import annotations

import pytest

from tests.converter.matrix import cases
from tests.engines import check_node

CASES = list(cases(360, seed=2026))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case) -> None:
    check_node(case.model, case.feeds, case.expected, engines=case.engines)
