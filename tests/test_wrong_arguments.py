"""Wrong arguments of the Python API: one sentence each that says what is wanted, never a raw TypeError or KeyError."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from ir_runtime.errors import ModelError

X = np.ones((2, 41), np.float32)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ir_runtime.Model:
    ends = {"x": ["a", 41], "w": ["a", "b"], "y": None}
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items()}
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [infos["x"], infos["w"]], [infos["y"]])
    monkeypatch.chdir(tmp_path)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "m.onnx")
    converter.save_model(converter.convert_model("m.onnx"), "m.xml")
    return ir_runtime.read_model("m.xml")


def verify(**arguments: Any) -> Callable[[ir_runtime.Model], Any]:
    return lambda model: converter.verify("m.onnx", "m.xml", **arguments)


def result(model: ir_runtime.Model) -> ir_runtime.InferenceResult:
    return ir_runtime.compile_model(model)({"x": X, "w": X})


ROWS: dict[str, tuple[Callable[[ir_runtime.Model], Any], str]] = {
    "inputs=array": (verify(inputs=X), r"inputs must map .* but is a ndarray: inputs=\{'x': array, 'w': array\}"),
    "inputs=3": (verify(inputs=3), "inputs must map .* but is a int"),
    "rtol": (verify(rtol="1e-3"), "rtol must be a number from 0 on, but is '1e-3'"),
    "atol": (verify(atol=-1), "atol must be a number from 0 on, but is -1"),
    "seed": (verify(seed="a"), "seed must be a whole number from 0 on, but is 'a'"),
    "samples": (verify(samples=1.5), "samples must be a whole number from 0 on, but is 1.5"),
    "device": (lambda model: ir_runtime.compile_model(model, "CPU"), "on no device: .* without 'CPU'"),
    "output": (lambda model: result(model)["z"], r"there is no output 'z'; the outputs are \['y'\]"),
    "place": (lambda model: result(model)[1], "there is no output 1; there are 1 outputs"),
    "contradiction": (lambda model: model.reshape({"x": [2, 41], "w": [2, 40]}), r"\[2,41\] and \[2,40\] cannot"),
    "no such input": (lambda model: model.reshape({"q": [2]}), r"no input 'q'; its inputs are \['x', 'w'\]"),
    "missing": (lambda model: ir_runtime.compile_model(model)({"x": X}), r"no value was given for the inputs \['w'\]"),
    "saving": (lambda model: converter.save_model("m", "m.xml"), "save_model needs a model.*but got 'm'"),
    "opset": (lambda model: converter.export_model(model, opset="17"), "from 7 to .* but is '17'"),
    "fp16": (lambda model: converter.export_model(model, fp16="no"), "one of keep, model, unfold, but is 'no'"),
    "target": (lambda model: converter.convert_model("m.onnx", target="gpu"), "there is no target"),
}


@pytest.mark.parametrize("name", ROWS)
def test_one_sentence(name: str, model: ir_runtime.Model) -> None:
    call, message = ROWS[name]
    with pytest.raises((converter.ConversionError, ModelError), match=message) as raised:
        call(model)
    text = str(raised.value)
    assert "\n" not in text
    assert "TypeError" not in text
    assert "KeyError" not in text


def test_an_unknown_output_is_a_key_error_too(model: ir_runtime.Model) -> None:
    found = result(model)
    assert "z" not in found
    assert found.get("z") is None
    with pytest.raises(KeyError):
        found["z"]


def test_results_and_reports_show_what_they_hold(model: ir_runtime.Model) -> None:
    assert repr(result(model)) == "<InferenceResult 'y': float32[2, 41]>"
    report = converter.verify("m.onnx", "m.xml")
    text = report.to_text()
    assert str(report) == text
    assert "PASSED against onnxruntime" in text
    assert "\x1b" not in text
    assert any(line.startswith("y ") and line.endswith("equal") for line in text.splitlines()), text
    html = report._repr_html_()
    assert "PASSED" in html
    assert html.count("<tr>") == 2


def test_a_report_that_fails_in_a_notebook(model: ir_runtime.Model) -> None:
    for node in model.nodes():
        if node.op.type == "Add":
            node.op = ir_runtime.graph.operation.find_operation("Multiply", 1)()
    html = converter.verify("m.onnx", model)._repr_html_()
    assert "FAILED" in html
    assert "width:100px;height:9px;background:#cf222e" in html
