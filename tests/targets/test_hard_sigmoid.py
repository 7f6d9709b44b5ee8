"""HardSigmoid stays one layer where the plug-in fuses it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import converter
import ir_runtime
from tests.engines import check_node, run, run_onnxruntime
from tests.targets.probes.rows import numbers, several


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


def gated(activation: str, between: list[str], shape: list[Any]) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Squeeze-and-excitation as in MobileNet: ``activation``, layers with constants, HardSigmoid, and the product."""
    constants = {"w": numbers(8, 8, 1, 1), "b": numbers(8, 1, 1), "low": np.float32(0), "high": np.float32(6)}
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["v0"]),
        helper.make_node(activation, ["v0", "low", "high"] if activation == "Clip" else ["v0"], ["v1"]),
    ]
    for index, op_type in enumerate(between, 1):
        second = {"Conv": ["w"], "Add": ["b"], "Mul": ["v0"], "Abs": []}[op_type]
        nodes.append(helper.make_node(op_type, [f"v{index}", *second], [f"v{index + 1}"]))
    nodes.append(helper.make_node("HardSigmoid", [f"v{len(between) + 1}"], ["s"], alpha=1 / 6))
    nodes.append(helper.make_node("Mul", ["x", "s"], ["y"]))
    return several(nodes, {"x": numbers(2, 8, 5, 5)}, constants, {"x": shape})


@pytest.mark.parametrize("shape", [[2, 8, 5, 5], ["n", 8, "h", "w"]], ids=str)
@pytest.mark.parametrize(
    ("activation", "between", "stays"),
    [
        ("Relu", ["Conv", "Add"], True),
        ("Clip", ["Conv"], True),
        ("Relu", [], True),
        ("Tanh", ["Conv", "Add"], False),
        ("Relu", ["Conv", "Mul"], False),
        ("Relu", ["Conv", "Abs"], False),
    ],
)
def test_nan_does_not_come_through_relu(activation: str, between: list[str], stays: bool, shape: list[Any]) -> None:
    model, feeds = gated(activation, between, shape)
    layers = [node.op.type for node in converter.convert_model(model).nodes()]
    assert ("Select" not in layers) == stays
    check_node(model, feeds)


@pytest.mark.parametrize("shape", [[2, 8, 5, 5], ["n", 8, "h", "w"]], ids=str)
@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_the_plugin_makes_0_of_nan(activation: str, shape: list[Any]) -> None:
    """The reason for leaving HardSigmoid alone there. Once the plug-in is right, the rule has to look again."""
    model, feeds = gated(activation, ["Conv"], shape)
    feeds["x"][0, 3, 2, 2] = np.nan
    model.graph.output.append(helper.make_empty_tensor_value_info("s"))
    wanted = run_onnxruntime(model, feeds)
    for target, engine, right in (("cpu", "numpy", True), ("cpu", "openvino", False), ("any", "openvino", False)):
        ir = ir_runtime.model_to_bytes(converter.convert_model(model, target=target))
        found = run(engine, ir, feeds)
        assert np.isnan(wanted[1][0]).all()
        assert bool(np.isnan(found[1][0]).all()) == right
