"""``onnx2ir inspect`` of ONNX files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.commands import onnx2ir


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A convolution (8 of 3x3x3 over 3x16x16), a product (2048 by 10) and a branch."""
    weights = [
        numpy_helper.from_array(np.zeros((8, 3, 3, 3), np.float32), "k"),
        numpy_helper.from_array(np.zeros((8 * 14 * 14, 10), np.float16), "m"),
    ]
    inner = [
        helper.make_graph([node], "b", [], [helper.make_tensor_value_info("o", TensorProto.FLOAT16, None)])
        for node in (helper.make_node("Identity", ["p"], ["o"]), helper.make_node("Neg", ["p"], ["o"]))
    ]
    nodes = [
        helper.make_node("Conv", ["image", "k"], ["c"]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Cast", ["f"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "m"], ["p"]),
        helper.make_node("If", ["choice"], ["q"], then_branch=inner[0], else_branch=inner[1]),
        helper.make_node("Thing", ["q"], ["y"], domain="own"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 16, 16]),
            helper.make_tensor_value_info("choice", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, ["batch", None])],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("own", "Thing", ["a"], ["b"], body, opsets[:1])
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=9, functions=[function], producer_name="hand", producer_version="2"
    )
    helper.set_model_props(model, {"names": "{0: 'cat [x]'}"})
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_everything_as_json(path: Path) -> None:
    code, text, messages = onnx2ir("inspect", str(path), "--json")
    assert code == 0, messages
    found = json.loads(text)
    for name in ("warnings", "seconds", "versions"):
        del found[name]
    assert found == {
        "format": "ONNX",
        "ir_version": 9,
        "opsets": {"ai.onnx": 17, "own": 1},
        "producer": "hand 2",
        "graph": "net",
        "inputs": [
            {"name": "image", "type": "f32", "shape": [1, 3, 16, 16]},
            {"name": "choice", "type": "boolean", "shape": []},
        ],
        "outputs": [{"name": "y", "type": "f16", "shape": ["batch", None]}],
        "operators": {
            "Cast": 1, "Conv": 1, "Flatten": 1, "Identity": 1, "If": 1, "MatMul": 1, "Neg": 1, "Relu": 1,
        },
        "functions": ["own.Thing"],
        "parameters": 8 * 27 + 1568 * 10,
        "weight_bytes": 8 * 27 * 4 + 1568 * 10 * 2,
        "macs": 8 * 14 * 14 * 27 + 1568 * 10,
        "macs_unknown": 0,
        "metadata": {"names": "{0: 'cat [x]'}"},
    }  # fmt: skip


def test_the_table(path: Path) -> None:
    code, text, _ = onnx2ir("inspect", str(path))
    assert code == 0
    for line in (
        "ONNX, IR version 9, opset ai.onnx 17, own 1",
        "made by hand 2",
        "parameters: 15,896 (31.5 KiB)",
        "multiplications: 58,016",
        "functions: own.Thing",
        "metadata: names = {0: 'cat [x]'}",
    ):
        assert line in text.splitlines()
    assert "[batch,?]" in text


def test_functions_count_at_each_call(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 17, "own": 1]> agraph (float[2, 4] x) => (float[2, 4] z) {
            y = own.Dense (x)
            z = own.Dense (y)
        }
        <domain: "own", opset_import: ["": 17, "own": 3]> Dense (x) => (y) {
            w = own.Weights ()
            y = MatMul (x, w)
        }
        <domain: "own", opset_import: ["": 17]> Weights () => (w) {
            w = Constant <value = float[4, 4] {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}> ()
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    summary = json.loads(onnx2ir("inspect", str(tmp_path / "m.onnx"), "--json")[1])
    assert summary["operators"] == {"Constant": 2, "MatMul": 2}
    assert (summary["parameters"], summary["macs"]) == (16, 2 * 2 * 16)
    model.functions[1].node.add(op_type="Dense", domain="own", output=["v"])
    onnx.save(model, tmp_path / "m.onnx")
    summary = json.loads(onnx2ir("inspect", str(tmp_path / "m.onnx"), "--json")[1])
    assert summary["operators"] == {"own.Dense": 2}


def test_dynamic_dimensions_are_not_counted(tmp_path: Path) -> None:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", value[:1], value[1:])
    graph.initializer.append(numpy_helper.from_array(np.zeros((4, 4), np.float32), "w"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    assert (
        "multiplications: 0, besides 1 nodes with dynamic dimensions" in onnx2ir("inspect", str(tmp_path / "m.onnx"))[1]
    )
