"""Operators whose plain layers the CPU plug-in computes wrongly, and that one rule makes each of them right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from converter.conversion import convert
from tests.engines import assert_close, converted, node_model, run_numpy, run_openvino

from .arithmetic_layers import AXES, ROWS, Plain
from .installed import NEEDED

DEPENDS_ON_PROCESSOR = {"comparisons_with_nan"}
"""Rules without which the plug-in is wrong on processors with AVX-512, and right on others."""


def types(model: ir_runtime.Model) -> list[str]:
    return [node.op.type for node in model.nodes() if node.op.type not in ("Parameter", "Const", "Result")]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_any_runtime_gets_the_plain_layers(row: Plain) -> None:
    model, feeds, expected = row.model()
    assert " ".join(types(converter.convert_model(model, target="any"))) == row.layers
    assert_close(run_numpy(converted(model, "any"), feeds)[0], expected)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_rule_makes_the_plug_in_right(row: Plain) -> None:
    model, feeds, expected = row.model()
    found = convert(model)
    assert found.rules == {row.rule: 1}
    assert_close(run_openvino(converted(model), feeds)[0], expected)


def _fails_without_its_rule(row: Plain) -> Any:
    is_needed = pytest.mark.xfail(
        strict=row.rule not in DEPENDS_ON_PROCESSOR,
        raises=(AssertionError, RuntimeError),
        reason="the row's rule is needed",
    )
    return pytest.param(row, marks=is_needed, id=str(row))


@pytest.mark.parametrize("row", [_fails_without_its_rule(row) for row in ROWS if row.rule in NEEDED])
def test_the_plug_in_computes_the_plain_layers(row: Plain) -> None:
    model, feeds, expected = row.model()
    assert_close(run_openvino(converted(model, "any"), feeds)[0], expected)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_integers_that_float32_holds_stay_in_one_layer(op_type: str) -> None:
    values = np.array([[100, -3, 7], [-100, 50, 2]], np.int8)
    model = node_model("Cast", {"x": values}, opset=18, attributes={"to": 6})
    reduced = node_model(op_type, {"y0": values.astype(np.int32)}, opset=18, constants=AXES).graph
    reduced.node[0].output[0] = "y"
    model.graph.node.append(reduced.node[0])
    model.graph.initializer.extend(reduced.initializer)
    model.graph.output[0].name = "y"
    assert types(converter.convert_model(model)) == ["Convert", op_type]
    numbers = values.astype(np.int64)
    total = numbers.sum(1, keepdims=True)
    expected = {
        "ReduceSum": total,
        "ReduceMean": np.sign(total) * (np.abs(total) // 3),
        "ReduceMax": numbers.max(1, keepdims=True),
    }
    for run in (run_numpy, run_openvino):
        assert_close(run(converted(model), {"x": values})[0], expected[op_type].astype(np.int32))
