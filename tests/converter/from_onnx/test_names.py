"""What users look things up by: tensor names, layer names, metadata; here and in the real OpenVINO."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from tests.engines import converted, core, run_numpy, run_openvino
from tests.rows.onnx import functions


def model(nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "the graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_metadata_goes_to_runtime_info() -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], ["x"], ["y"])
    proto.producer_name, proto.producer_version, proto.model_version = "maker", "1.2", 7
    proto.metadata_props.add(key="author name", value='<"me" & you>')
    xml, weights = converted(proto)
    theirs = core().read_model(xml)
    assert theirs.get_rt_info(["onnx", "producer_name"]).astype(str) == "maker"
    assert theirs.get_rt_info(["onnx", "producer_version"]).astype(str) == "1.2"
    assert theirs.get_rt_info(["onnx", "model_version"]).astype(str) == "7"
    assert theirs.get_rt_info(["onnx", "opset_import", "ai.onnx"]).astype(str) == "17"
    assert theirs.get_rt_info(["onnx", "metadata_props", "author name"]).astype(str) == '<"me" & you>'
    assert ir_runtime.read_model(xml, weights).name == "the graph"


@pytest.mark.parametrize("name", ["a,b", "scope/x:0", "ünï", "with space", 'q"<&>', "back\\slash,comma"])
def test_tensor_and_node_names_survive(name: str) -> None:
    node = helper.make_node("Relu", [name], [f"{name}/out"], name=f"{name}/node")
    ir = converted(model([node], [name], [f"{name}/out"]))
    x = np.array([-1, 2], np.float32)
    for result in (run_numpy(ir, {name: x}), run_openvino(ir, {name: x})):
        assert result[0].tolist() == [0, 2]
    theirs = core().read_model(*ir) if ir[1] else core().read_model(ir[0])
    assert theirs.outputs[0].get_names() == {f"{name}/out"}
    assert f"{name}/node" in {op.get_friendly_name() for op in theirs.get_ops()}
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir))
    assert compiled.input_names == [name]
    assert compiled({name: x})[f"{name}/out"].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([helper.make_node("Identity", ["x"], ["y"])], ["y"]),
        ([], ["x"]),
        ([helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["x"], ["z"])], ["y", "z", "x"]),
        ([helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Identity", ["y"], ["z"])], ["z", "y"]),
        ([helper.make_node("Dropout", ["x"], ["y"])], ["y"]),
        ([helper.make_node("Neg", ["x"], ["y"])], ["y", "y"]),
    ],
)
def test_tensors_of_several_names(nodes: list[onnx.NodeProto], outputs: list[str]) -> None:
    """Inputs that are outputs, outputs that are one tensor: every name leads to the right value."""
    ir = converted(model(nodes, ["x"], outputs))
    x = np.array([-1, 2], np.float32)
    negated = any(node.op_type == "Neg" for node in nodes)
    expected = {name: (-x if negated and name != "x" else x).tolist() for name in outputs}
    assert [value.tolist() for value in run_numpy(ir, {"x": x})] == [expected[name] for name in outputs]
    assert [value.tolist() for value in run_openvino(ir, {"x": x})] == [expected[name] for name in outputs]
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir))
    assert compiled.output_names == outputs
    if "x" not in outputs and len(set(outputs)) == len(outputs):
        theirs = core().read_model(*ir) if ir[1] else core().read_model(ir[0])
        for port, name in zip(theirs.outputs, outputs):
            assert name in port.get_names()


def test_unnamed_and_equally_named_nodes_get_layers_of_their_own() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Abs", ["a"], ["b"], name="n"),
        helper.make_node("Relu", ["b"], ["y"], name="n"),
    ]
    names = [node.name for node in converter.convert_model(model(nodes, ["x"], ["y"])).nodes()]
    assert names == ["x", "a", "n", "n_1", "y/result"]


def test_layers_in_functions_are_named_by_the_calls() -> None:
    proto = next(row.model for row in functions.ROWS if row.name == "nested")
    names = {node.name for node in converter.convert_model(proto).nodes()}
    assert {"call/first/inner", "call/second/inner"} <= names
