"""Graphs that a pattern nearly matches, in both engines against onnxruntime."""

from __future__ import annotations

import pytest

from tests.fuzz.near_misses import outcome

SEED = 2


@pytest.mark.parametrize("block", range(20))
def test_what_is_nearly_an_idiom_computes_the_same(block: int) -> None:
    outcomes = {number: outcome(number, SEED) for number in range(block * 20, block * 20 + 20)}
    models = {number: each for number, each in outcomes.items() if each.verdict != "no model"}
    assert len(models) >= 10
    for each in models.values():
        assert each.verdict == "same", each.description
