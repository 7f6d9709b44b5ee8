"""Passes of cleanup and fusion that a conversion leaves out by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter import ConversionOptions
from converter.conversion import convert
from converter.passes.registry import passes
from tests.commands import onnx2ir
from tests.engines import run_onnxruntime


def gelu_model() -> onnx.ModelProto:
    """Return GELU as PyTorch writes it out, and a clamp in two layers."""
    nodes = [
        helper.make_node("Div", ["x", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["m"]),
        helper.make_node("Mul", ["m", "half"], ["g"]),
        helper.make_node("Max", ["g", "zero"], ["at_least_0"]),
        helper.make_node("Min", ["at_least_0", "six"], ["y"]),
    ]
    values = {"root": np.sqrt(2), "one": 1, "half": 0.5, "zero": 0, "six": 6}
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in values.items()]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_skipped_passes_leave_the_layers_and_the_values() -> None:
    x = np.linspace(-3, 9, 6, dtype=np.float32).reshape(2, 3)
    complete, without = convert(gelu_model()), convert(gelu_model(), ConversionOptions(skip_passes="gelus"))
    assert {"gelus", "clamps"} <= complete.passes.keys()
    assert "gelus" not in without.passes
    assert without.passes.keys() >= complete.passes.keys() - {"gelus"}
    assert "Gelu" in {node.op.type for node in complete.model.nodes()}
    assert {node.op.type for node in without.model.nodes()} >= {"Erf", "Clamp"}
    expected = run_onnxruntime(gelu_model(), {"x": x})[0]
    for conversion in (complete, without):
        result = ir_runtime.compile_model(conversion.model)({"x": x})["y"]
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_any_pass_of_cleanup_and_fusion_can_be_skipped() -> None:
    for name in passes.optional:
        assert name not in convert(gelu_model(), ConversionOptions(skip_passes=[name])).passes


@pytest.mark.parametrize("value", ["gelu", ["gelus", "shared_weights"], [3]])
def test_only_passes_of_cleanup_and_fusion_can_be_skipped(value: Any) -> None:
    with pytest.raises(converter.ConversionError, match="is no pass of cleanup or fusion; near are"):
        ConversionOptions(skip_passes=value)


def test_passes_are_skipped_on_the_command_line(tmp_path: Path) -> None:
    onnx.save(gelu_model(), tmp_path / "m.onnx")
    words = ["convert", str(tmp_path / "m.onnx"), "--json", "--skip-pass", "gelus,clamps", "--skip-pass", "prelus"]
    code, output, _ = onnx2ir(*words)
    assert code == 0
    assert not {"gelus", "clamps", "prelus"} & json.loads(output)["passes"].keys()
