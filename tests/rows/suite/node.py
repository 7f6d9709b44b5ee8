"""ONNX's node suite and the models that are stored beside it: a row for each set of data.

The comparison is that of the figures in the documentation: exact types and shapes, values within rtol 1e-3 and
atol 1e-5.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.rows.row import Row, Tolerance
from tests.suite.node_suite import Case, all_cases, as_array, input_names

EXACT = Tolerance(1e-3, 1e-5, is_coarse=False)
RANDOM = (
    *("test_bernoulli*", "test_training_dropout", "test_training_dropout_mask"),
    *("test_training_dropout_default", "test_training_dropout_default_mask"),
)
"""Cases whose random numbers come from another generator: their types and shapes count."""


def is_random(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in RANDOM)


def rows_of(case: Case, *, is_foretold: bool = False) -> Iterator[Row]:
    """Yield a row for each set of data; ``is_foretold`` compares random numbers, too."""
    for index, (inputs, outputs) in enumerate(case.data_sets):
        feeds: Mapping[str, Any] = dict(
            zip(input_names(case.model), map(_as_engines_give, (value for value in inputs if value is not None)))
        )
        expected = list(map(_as_engines_give, outputs))
        if is_random(case.name) and not is_foretold:
            expected = [np.ma.array(value, mask=True) for value in expected]
        yield Row(
            f"{case.name}{f'-{index}' if index else ''}", "", 0, feeds, make=lambda: case.model, expect=expected,
            tolerance=EXACT, group="cases",
        )  # fmt: skip


def _as_engines_give(value: Any) -> Any:
    """Return an array, of objects where it is of texts."""
    value = as_array(value)
    value = np.asarray(value) if isinstance(value, np.generic) else value
    return value.astype(object) if isinstance(value, np.ndarray) and value.dtype.kind == "U" else value


ROWS = [row for case in all_cases() for row in rows_of(case)]
