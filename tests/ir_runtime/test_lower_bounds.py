"""Lower bounds of values, against what the layers compute."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ir_runtime import compile_model
from ir_runtime.analysis.value_ranges import value_range
from ir_runtime.graph.model import Output
from tests.to_onnx.graphs import constant, layer, model, op, parameter

LOWEST = float(np.finfo(np.float32).min)


def chosen(otherwise: float, kind: str = "f32") -> Output:
    seen = parameter("seen", 2, 3, kind="boolean")
    return layer(op("Select", 1), seen, constant(0, kind), constant(otherwise, kind), name="chosen")


def converted(source: Output, kind: str) -> Output:
    return layer(op("Convert", 1, destination_type=kind), source, name="converted")


ROWS: list[tuple[Output, float]] = [
    (constant([3.0, -2.0, math.nan]), -2),
    (chosen(-1e4), -1e4),
    (chosen(LOWEST), LOWEST),
    (chosen(-math.inf), -math.inf),
    (layer(op("Maximum", 1), chosen(-math.inf), constant(-5.0), name="limited"), -5),
    (layer(op("Minimum", 1), chosen(-3.0), constant(-5.0), name="limited"), -5),
    (layer(op("Concat", 1, axis=0), chosen(-3.0), constant([[1.0, 2, 3]]), name="joined"), -3),
    (layer(op("Unsqueeze", 1), chosen(-7.0), constant([0], "i64"), name="lifted"), -7),
    (converted(chosen(-1e4), "f16"), -1e4),
    (converted(chosen(LOWEST), "f16"), -math.inf),
    (converted(chosen(-1e4, "f16"), "f32"), -1e4),
    (converted(parameter("seen", 2, 3, kind="boolean"), "f32"), 0),
    (converted(parameter("seen", 2, 3, kind="i8"), "f16"), -128),
    (converted(parameter("seen", 2, 3, kind="i64"), "f16"), -math.inf),
    (parameter("seen", 2, 3), -math.inf),
    (layer(op("Negative", 1), chosen(-1.0), name="negated"), 0),
]


@pytest.mark.parametrize(("output", "expected"), ROWS)
def test_no_element_is_below_the_bound(output: Output, expected: float) -> None:
    assert value_range(output).low == expected
    sources: list[Any] = [output]
    while sources[-1].node.inputs:
        sources.append(sources[-1].node.inputs[0])
    if sources[-1].node.op.role != "parameter":
        return
    values = np.array([[1, 0, -5], [0, 1, 0]]).astype(sources[-1].element_type.dtype)
    computed = compile_model(model([sources[-1]], {"y": output}))({"seen": values})["y"].astype(np.float64)
    assert not (computed < expected).any()
