"""Every type that ONNX's schemas allow and the IR has, for every operator: see ``tests/suite/type_matrix.py``.

Rows of random numbers are compared by type and shape.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx

from tests.rows.row import Row, Tolerance
from tests.suite import type_matrix, type_oracle

SUMS = Tolerance(of_greatest=1e-6)
"""Sums that cancel keep the error of their summands."""


class TypeRow(Row):
    """A row whose model is made when it is asked for; it fails everywhere if there is none, or no expectation."""

    @functools.cached_property
    def sample(self) -> type_matrix.Sample:
        found = type_matrix.sample(self.arguments["row"])
        assert found is not None, "no seed makes a valid model"
        return found

    @property
    def feeds(self) -> dict[str, Any]:  # type: ignore[override]
        return self.sample.feeds

    @property
    def model(self) -> onnx.ModelProto:  # type: ignore[override]
        return self.sample.model

    @functools.cached_property
    def expected(self) -> list[Any]:  # type: ignore[override]
        wanted = type_oracle.expected(self.sample)
        assert wanted is not None, "nobody knows the outputs"
        return wanted.outputs if wanted.values else [np.ma.array(value, mask=True) for value in wanted.outputs]


ROWS = [
    TypeRow(str(row), row.operator, row.version, {"row": row}, tolerance=SUMS, group="types")
    for row in type_matrix.rows()
]
