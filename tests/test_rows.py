"""Every row and every layer of ``tests/rows`` in every runtime."""

from __future__ import annotations

import fnmatch

import pytest

from tests.rows.layer import Layer
from tests.rows.row import Row
from tests.rows.table import layer_table, table
from tests.runtimes.check import BATCHES, check, check_layer, known


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_row(row: Row) -> None:
    check(row)


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("row", layer_table(), ids=lambda row: row.name)
def test_layer(row: Layer) -> None:
    check_layer(row)


def test_what_is_known_is_known_of_rows() -> None:
    names = [row.name for row in (*table(), *layer_table())]
    patterns = {pattern for of_runtime in known().values() for pattern in of_runtime}
    gone = {pattern for pattern in patterns if not fnmatch.filter(names, pattern)}
    assert not gone, f"known.toml has patterns that are of no row: {gone}"
