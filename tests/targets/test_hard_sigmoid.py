"""HardSigmoid stays one layer where the plug-in fuses it."""

from __future__ import annotations

import numpy as np
from onnx import helper

import converter
from tests.engines import check_node
from tests.targets.probes.rows import several


def test_what_is_multiplied_with_its_input_stays_one_layer() -> None:
    nodes = [
        helper.make_node("HardSigmoid", ["x"], ["s"], alpha=1 / 6),
        helper.make_node("Mul", ["x", "s"], ["y"]),
    ]
    x = np.array([np.nan, 1, -5, 5, 0.3], np.float32)
    model, feeds = several(nodes, {"x": x}, {}, {"x": ["n"]})
    layers = [node.op.type for node in converter.convert_model(model).nodes()]
    assert "Select" not in layers
    check_node(model, feeds)
