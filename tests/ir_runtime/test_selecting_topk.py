"""TopK of few elements of many, which selects instead of sorting: against Python's sort."""

from __future__ import annotations

import numpy as np
import pytest

from ir_runtime.operations import sorting
from ir_runtime.operations.sorting import TopK11

RNG = np.random.default_rng(3)
LENGTH = 4096
# name -> rows of keys
ROWS: dict[str, np.ndarray] = {
    "normal": RNG.normal(size=(3, LENGTH)).astype(np.float32),
    "many ties": RNG.integers(-2, 3, (2, LENGTH)).astype(np.float32),
    "all equal": np.zeros((2, LENGTH), np.float16),
    "infinities": np.where(RNG.random((2, LENGTH)) < 0.5, np.inf, -np.inf),
    "some NaN": np.where(RNG.random((2, LENGTH)) < 0.5, np.nan, RNG.normal(size=(2, LENGTH))).astype(np.float32),
    "nearly all NaN": np.where(np.arange(2 * LENGTH).reshape(2, LENGTH) % LENGTH < 2, 1, np.nan),
    "signed zeros": np.where(RNG.random((2, LENGTH)) < 0.5, 0.0, -0.0),
    "bytes": RNG.integers(0, 256, (2, LENGTH)).astype(np.uint8),
    "extreme integers": np.where(RNG.random((2, LENGTH)) < 0.5, np.iinfo(np.int64).min, np.iinfo(np.int64).max),
    "no row": np.zeros((0, LENGTH), np.float32),
}


def best(row: np.ndarray, count: int, mode: str) -> list[int]:
    """The indices of the best elements: NaN last, of equal elements the first one first."""
    sign = -1 if mode == "max" else 1
    keys = [(value != value, 0 if value != value else sign * value) for value in row.tolist()]
    return sorted(range(len(row)), key=lambda at: (*keys[at], at))[:count]


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("name", ROWS)
def test_few_of_many(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = ROWS[name]
    selected = []
    least = sorting._least
    monkeypatch.setattr(sorting, "_least", lambda keys, count: selected.append(count) or least(keys, count))
    for axis, count in ((1, 5), (0, 5), (1, LENGTH // 8)):
        data = np.moveaxis(rows, 1, axis)
        values, indices = TopK11(axis=axis, mode=mode, sort="value").evaluate(data, np.array(count))
        expected = np.array([best(row, count, mode) for row in rows], np.int64).reshape(len(rows), count)
        np.testing.assert_array_equal(np.moveaxis(indices, axis, 1), expected)
        np.testing.assert_array_equal(np.moveaxis(values, axis, 1), np.take_along_axis(rows, expected, 1))
    assert len(selected) == 3 * len(rows)
