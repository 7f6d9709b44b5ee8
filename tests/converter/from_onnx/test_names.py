"""What users look things up by: tensor names, layer names, metadata; here and in the real OpenVINO."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import converter
import ir_runtime
from tests.converter.optimization.models import parse
from tests.engines import converted, core, run_numpy, run_openvino
from tests.rows.onnx import functions


def model(nodes: str = "y = Relu (x)", outputs: str = "y") -> onnx.ModelProto:
    results = ", ".join(f"float[2] {name}" for name in outputs.split())
    made = parse(f"g (float[2] x) => ({results}) {{ {nodes} }}")
    made.graph.name = "the graph"
    return made


def test_metadata_goes_to_runtime_info() -> None:
    proto = model()
    proto.producer_name, proto.producer_version, proto.model_version = "maker", "1.2", 7
    proto.metadata_props.add(key="author name", value='<"me" & you>')
    xml, weights = converted(proto)
    theirs = core().read_model(xml)
    for path, value in (
        ("producer_name", "maker"), ("producer_version", "1.2"), ("model_version", "7"), ("opset_import/ai.onnx", "17"),
        ("metadata_props/author name", '<"me" & you>'),
    ):  # fmt: skip
        assert theirs.get_rt_info(["onnx", *path.split("/")]).astype(str) == value
    assert ir_runtime.read_model(xml, weights).name == "the graph"


@pytest.mark.parametrize("name", ["a,b", "scope/x:0", "ünï", "with space", 'q"<&>', "back\\slash,comma"])
def test_tensor_and_node_names_survive(name: str) -> None:
    proto = model()
    proto.graph.input[0].name = proto.graph.node[0].input[0] = name
    proto.graph.output[0].name = proto.graph.node[0].output[0] = f"{name}/out"
    proto.graph.node[0].name = f"{name}/node"
    ir = converted(proto)
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
        ("y = Identity (x)", "y"), ("", "x"), ("y = Identity (x) z = Identity (x)", "y z x"),
        ("y = Neg (x) z = Identity (y)", "z y"), ("y = Dropout (x)", "y"), ("y = Neg (x)", "y y"),
    ],
)  # fmt: skip
def test_tensors_of_several_names(nodes: str, outputs: str) -> None:
    """Inputs that are outputs, outputs that are one tensor: every name leads to the right value."""
    ir, names = converted(model(nodes, outputs)), outputs.split()
    x = np.array([-1, 2], np.float32)
    expected = [(-x if "Neg" in nodes and name != "x" else x).tolist() for name in names]
    for run in (run_numpy, run_openvino):
        assert [value.tolist() for value in run(ir, {"x": x})] == expected
    compiled = ir_runtime.compile_model(ir_runtime.read_model(*ir))
    assert compiled.output_names == names
    if "x" not in names and len(set(names)) == len(names):
        theirs = core().read_model(*ir) if ir[1] else core().read_model(ir[0])
        for port, name in zip(theirs.outputs, names):
            assert name in port.get_names()


def test_unnamed_and_equally_named_nodes_get_layers_of_their_own() -> None:
    proto = model("a = Neg (x) [n] b = Abs (a) [n] y = Relu (b)")
    proto.graph.node[0].name = ""
    names = [node.name for node in converter.convert_model(proto).nodes()]
    assert names == ["x", "a", "n", "n_1", "y/result"]


def test_layers_in_functions_are_named_by_the_calls() -> None:
    proto = next(row.model for row in functions.ROWS if row.name == "nested")
    names = {node.name for node in converter.convert_model(proto).nodes()}
    assert {"call/first/inner", "call/second/inner"} <= names
