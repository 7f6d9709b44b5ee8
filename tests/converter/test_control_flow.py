"""Branches that cannot be taken, and what loops carry round."""

from __future__ import annotations

import numpy as np
import pytest

import converter
from tests.engines import ENGINES, converted, run
from tests.rows.onnx.loop_states import UNCHANGED
from tests.rows.row import Row
from tests.rows.table import table


@pytest.mark.parametrize("row", [row for row in table() if "/contradictory" in row.group], ids=lambda row: row.name)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_branch_at_odds_with_the_shapes_fails_when_it_is_taken(engine: str, row: Row) -> None:
    with pytest.raises(Exception, match="contradicts the shapes around it"):
        run(engine, converted(row.model), {**row.feeds, "c": np.logical_not(row.feeds["c"])})


def test_unchanged_states_are_no_loop_states() -> None:
    (loop,) = [layer for layer in converter.convert_model(UNCHANGED[0].model).nodes() if layer.op.type == "Loop"]
    subgraph = loop.op.bodies[0]
    assert len(subgraph.back_edges) == 2  # the condition and s
    assert len(subgraph.body.parameters) == 4  # the iteration, the condition, s and w; the weights are a constant
