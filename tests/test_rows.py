"""Every row of ``tests/rows`` in every runtime."""

from __future__ import annotations

import pytest

from tests.rows.row import Row
from tests.rows.table import table
from tests.runtimes.check import BATCHES, check


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_row(row: Row) -> None:
    check(row)
