"""Graphs that a pattern nearly matches, in both engines against onnxruntime."""

from __future__ import annotations

import pytest

from tests.fuzz.near_misses import outcome

SEED = 2


@pytest.mark.parametrize("block", range(20))
def test_what_is_nearly_an_idiom_computes_the_same(block: int) -> None:
    outcomes = [outcome(number, SEED) for number in range(block * 20, block * 20 + 20)]
    assert not [each.description for each in outcomes if each.verdict == "fault"]
    assert len([each for each in outcomes if each.verdict == "same"]) >= 4
