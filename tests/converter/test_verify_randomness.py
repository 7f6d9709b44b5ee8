"""verify of models that draw random numbers, and of nodes that onnxruntime computes otherwise than ONNX defines them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from ir_runtime.graph.tensor import Tensor
from ir_runtime.operations.inputs_outputs import Const1
from tests.engines import ENGINES

NOISE = [
    helper.make_node("Tanh", ["x"], ["mean"]),
    helper.make_node("RandomNormalLike", ["mean"], ["noise"]),
    helper.make_node("Mul", ["noise", "spread"], ["change"]),
    helper.make_node("Add", ["mean", "change"], ["y"]),
]


def saved(folder: Path, nodes: list[onnx.NodeProto], shape: list[Any], **weights: Any) -> tuple[Path, Path]:
    """The ONNX file and the IR."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()],
    )
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), path)
    converter.save_model(converter.convert_model(path), folder / "m.xml")
    return path, folder / "m.xml"


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_behind_random_numbers_are_compared(engine: str, tmp_path: Path) -> None:
    found = converter.verify(*saved(tmp_path, NOISE, ["n", 5], spread=[0.5] * 5), engine=engine)
    assert found.verdict == "derived"
    assert found.random == ("y",)
    assert {layer.comparison.name for layer in found.layers} >= {"mean", "change", "y"}
    assert "noise" not in {layer.comparison.name for layer in found.layers}


def test_a_wrong_layer_behind_random_numbers_is_named(tmp_path: Path) -> None:
    path, _ = saved(tmp_path, NOISE, ["n", 5], spread=[0.5] * 5)
    model = converter.convert_model(path)
    (spread,) = (node for node in model.nodes() if node.op.data is not None and node.op.data.size == 5)
    spread.op = Const1(value=Tensor.from_array(np.full(5, 0.51, np.float32)))
    converter.save_model(model, tmp_path / "edited.xml")
    found = converter.verify(path, tmp_path / "edited.xml")
    assert found.verdict == "different"
    assert found.first_fault is not None
    assert found.first_fault.layer == "change"


def test_numbers_that_are_random_alone_are_unproven(tmp_path: Path) -> None:
    found = converter.verify(*saved(tmp_path, [helper.make_node("RandomUniformLike", ["x"], ["y"])], [3, 4]))
    assert found.verdict == "unproven"
    assert found.reason == "nothing disagrees, but 'y' are random numbers, which differ from run to run"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_onnx_defines_decides_where_onnxruntime_differs(engine: str, tmp_path: Path) -> None:
    """onnxruntime (1.32) writes the new variance over the scale where one tensor is both."""
    inputs = ["x", "ones", "zeros", "zeros", "ones"]
    node = helper.make_node("BatchNormalization", inputs, ["y", "means", "variances"], "norm", training_mode=1)
    path, xml = saved(tmp_path, [node], [20, 6], ones=np.ones(6), zeros=np.zeros(6))
    found = converter.verify(path, xml, engine=engine)
    assert found.verdict == "derived"
    text = xml.read_text()
    assert text.count('eps="') == 1
    (tmp_path / "edited.xml").write_text(re.sub('eps="[^"]*"', 'eps="0.1"', text))
    (tmp_path / "edited.bin").write_bytes(xml.with_suffix(".bin").read_bytes())
    assert converter.verify(path, tmp_path / "edited.xml", engine=engine).verdict == "different"


def test_the_definition_decides_for_each_of_the_inputs(tmp_path: Path) -> None:
    """Zeros, between inputs that show onnxruntime's fault, do not: their distance from the mean has no scale."""
    inputs = ["x", "ones", "bias", "zeros", "ones"]
    node = helper.make_node("BatchNormalization", inputs, ["y", "means", "variances"], "norm", training_mode=1)
    path, xml = saved(tmp_path, [node], [20, 6], ones=np.ones(6), bias=np.arange(6), zeros=np.zeros(6))
    report = converter.verify(path, xml, engine="openvino", stress=True)
    assert report.passed, report
