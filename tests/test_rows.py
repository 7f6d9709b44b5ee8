"""Every row and every layer of ``tests/rows`` in every runtime."""

from __future__ import annotations

import pytest

from tests.rows.layer import Layer
from tests.rows.row import Row
from tests.rows.table import layer_table, table
from tests.runtimes.check import BATCHES, check, check_layer


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_row(row: Row) -> None:
    check(row)


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("row", layer_table(), ids=lambda row: row.name)
def test_layer(row: Layer) -> None:
    check_layer(row)
