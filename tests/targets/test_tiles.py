"""Tile after arithmetic: the layers that replace it have no more dimensions than the plug-in computes correctly."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.engines import check_node
from tests.targets.probes.rows import ints, numbers, several

ROWS = [
    ((7, 3, 1, 5, 4), (2, 1, 2, 1, 2)),
    ((2, 3, 1, 5, 4), (2, 3, 2, 1, 2)),
    ((7, 3, 2, 5), (2, 2, 2, 2)),
    ((7, 3, 1, 5), (2, 1, 2, 0)),
    ((7, 3, 4), (2, 1, 3)),
    ((2, 1, 3, 2, 1, 4), (2, 2, 1, 1, 3, 1)),
]


@pytest.mark.parametrize(("shape", "repeats"), ROWS, ids=str)
@pytest.mark.parametrize("at", ["constant", "execution"])
def test_tile_of_quotients_by_a_number(shape: tuple[int, ...], repeats: tuple[int, ...], at: str) -> None:
    nodes = [helper.make_node("Div", ["x", "n"], ["q"]), helper.make_node("Tile", ["q", "r"], ["y"])]
    inputs = {"x": numbers(*shape), "n": np.float32(4)}
    constants = {"r": ints(*repeats)}
    if at == "execution":
        inputs, constants = {**inputs, **constants}, {}
    shapes = {"x": [None] * len(shape), "n": [], "r": [len(repeats)]}
    model, feeds = several(nodes, inputs, constants, shapes)
    check_node(model, feeds)
