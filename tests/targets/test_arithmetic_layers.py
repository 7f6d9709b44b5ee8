"""Operators whose plain layers the CPU plug-in computes wrongly, and that one rule makes each of them right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
import ir_runtime
from converter.conversion import convert
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import Operation
from ir_runtime.operations.activation import Clamp1, ReLU1
from tests.engines import HAS_AVX512, assert_close, check_node, converted, node_model, run_numpy, run_openvino
from tests.ir_runtime.kernel_checks import model_of

from .arithmetic_layers import AXES, ROWS, Plain
from .installed import NEEDED
from .probes.computation import formula

NEEDED_HERE = NEEDED - (set() if HAS_AVX512 else {"comparisons_with_nan"})
"""Without this rule the plug-in is wrong with AVX-512 alone."""


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
    assert {name: count for name, count in found.rules.items() if name != "selected_integers"} == {row.rule: 1}
    assert_close(run_openvino(converted(model), feeds)[0], expected)


def _fails_without_its_rule(row: Plain) -> Any:
    is_needed = pytest.mark.xfail(strict=True, raises=(AssertionError, RuntimeError), reason="the row's rule is needed")
    return pytest.param(row, marks=is_needed if row.rule in NEEDED_HERE else (), id=str(row))


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


LARGE = np.array([(1 << 24) + 1, -(1 << 25) - 1, 7, (1 << 30) + 5, -3, (1 << 24) + 3], np.int64)
NUMBERS = {"f": np.array([1, 60, 2, 70, 3, 80], np.float32), "b": np.array([True, False, True, False, False, True])}
BOUNDS = {"fifty": np.float32(50), "low": -(1 << 25) - 1, "high": (1 << 29) + 1, "whole": 1 << 24}
STEPS = {
    "a comparison of floats": "c = Less f fifty; y = Where c i high",
    "a comparison of integers": "c = Less i high; y = Where c i j",
    "a negation": "c = Not b; y = Where c i j",
    "a conjunction": "d = Equal i j; c = And d b; y = Where c high i",
    "what is added": "t = Add i j; c = Less f fifty; y = Where c t low",
    "a selection of a selection": "c = Not b; t = Where c i j; d = Less f fifty; y = Where d t low",
    "limits": "t = Max i low; y = Min t high",
    "limits that are computed": "t = Max i low; y = Min t j",
    "limits around arithmetic": "t = Max i low; s = Sub t j; r = Min s high; y = Max r low",
    "limits that float32 holds": "t = Max i whole; y = Min t high",
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("is_open", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shapes", [((6,), (6,)), ((2, 3), (3,)), ((3,), (2, 3)), ((1, 2, 3), (3,))], ids=str)
def test_integers_keep_every_bit(
    steps: str, kind: type[np.integer[Any]], is_open: bool, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    """Integers of the first shape, and conditions and other integers of the second one."""
    first, second = (int(np.prod(shape)) for shape in shapes)
    values = {"i": LARGE[:first].reshape(shapes[0]), "j": LARGE[::-1][:second].reshape(shapes[1])}
    feeds = {name: value.astype(kind) for name, value in values.items()}
    feeds |= {name: value[:second].reshape(shapes[1]) for name, value in NUMBERS.items()}
    constants = {name: value if name == "fifty" else kind(value) for name, value in BOUNDS.items()}
    words = steps.replace(";", "").split()
    used = [{name: value for name, value in group.items() if name in words} for group in (feeds, constants)]
    check_node(*formula(steps, *used, is_open)())


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32])
@pytest.mark.parametrize("is_open", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("op", [ReLU1(), Clamp1(min=-3.5, max=(1 << 29) + 1), Clamp1(min=(1 << 25) + 1, max=2.0**40)])
def test_limits_of_other_exporters(op: Operation, is_open: bool, kind: type[np.integer[Any]]) -> None:
    data = np.maximum(LARGE, 0).astype(kind) if kind is np.uint32 else LARGE.astype(kind)
    model = model_of(lambda builder, x: builder.emit(op, x), [data], is_open)
    model.parameters[0].outputs[0].names, model.results[0].inputs[0].names = ["x"], ["y"]
    expected = op.evaluate(data)
    openvino_cpu.run(model)
    assert_close(run_openvino(ir_runtime.model_to_bytes(model), {"x": data})[0], expected)
