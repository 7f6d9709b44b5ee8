"""Layers without a counterpart in ONNX are calls of functions that the model holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino

import converter
from ir_runtime import compile_model, read_model
from ir_runtime.graph.model import Output
from tests.commands import onnx2ir
from tests.rows.table import layer_table
from tests.to_onnx.graphs import check, constant, layer, model, op, operators, parameter, run
from tests.to_onnx.single_layers import model_of_branches

IMAGE = np.linspace(-2, 2, 2 * 4 * 6 * 6, dtype=np.float32).reshape(2, 4, 6, 6)


def reorg(x: Output, name: str, stride: int = 2) -> Output:
    return layer(op("ReorgYolo", 2, stride=[stride]), x, name=name)


def test_a_layer_is_one_node_and_layers_of_equal_functions_share_one() -> None:
    x = parameter("x", 2, 4, 6, 6)
    shuffled = layer(op("ShuffleChannels", 1, axis=1, group=2), x, name="shuffle")
    again = layer(op("ShuffleChannels", 1, axis=1, group=2), shuffled, name="shuffle_again")
    other = layer(op("ShuffleChannels", 1, axis=1, group=4), again, name="shuffle_by_4")
    exported = check(model([x], {"y": reorg(other, "reorg"), "z": again}), {"x": IMAGE})
    assert [(node.name, node.domain, node.op_type) for node in exported.graph.node] == [
        ("shuffle", "onnx2ir", "ShuffleChannels"),
        ("shuffle_again", "onnx2ir", "ShuffleChannels"),
        ("shuffle_by_4", "onnx2ir", "ShuffleChannels_1"),
        ("reorg", "onnx2ir", "ReorgYolo"),
    ]
    assert [function.name for function in exported.functions] == ["ShuffleChannels", "ShuffleChannels_1", "ReorgYolo"]
    assert exported.functions[0].doc_string == "ShuffleChannels of OpenVINO's opset1: axis=1, group=2"
    assert list(exported.functions[0].input) == ["x"]
    assert exported.ir_version >= 8


def test_without_functions_their_nodes_stand_in_the_graph_which_openvino_reads(tmp_path: Path) -> None:
    x = parameter("x", 2, 4, 6, 6)
    ir = model([x], {"y": reorg(x, "reorg")})
    exported = check(ir, {"x": IMAGE}, inline_functions=True)
    assert not exported.functions
    assert operators(exported) == ["Reshape", "Transpose", "Reshape"]
    assert [one.domain for one in exported.opset_import] == [""]
    read = openvino.Core().read_model(exported.SerializeToString())
    np.testing.assert_array_equal(
        openvino.compile_model(read, "CPU")([IMAGE])["y"], compile_model(ir)({"x": IMAGE})["y"]
    )


def test_large_constants_are_inputs_of_the_function() -> None:
    """Data has one place, which other layers read, too."""
    x = parameter("x", 3)
    table = np.sort(np.random.default_rng(0).normal(size=1000)).astype(np.float32)
    edges = constant(table, name="edges")
    found = layer(op("Bucketize", 3), x, edges, name="bucketize")
    exported = check(
        model([x], {"y": found, "z": layer(op("ReduceSum", 1), edges, constant([0], "i64"), name="sum")}),
        {"x": np.array([-1, 0, 1], np.float32)},
    )
    assert [list(node.input) for node in exported.graph.node if node.domain] == [["x", "edges"]]
    assert [one.name for one in exported.graph.initializer].count("edges") == 1
    assert max(len(function.SerializeToString()) for function in exported.functions) < 2000


def test_what_a_layer_knows_is_a_constant_and_no_function() -> None:
    sizes = [constant([6, 6], "i64", "layer"), constant([300, 300], "i64", "image")]
    x = parameter("x", 1)
    priors = layer(op("PriorBoxClustered", 1, width=[30.0], height=[20.0], offset=0.5), *sizes, name="priors")
    exported = check(model([x], {"y": priors, "z": layer(op("ReLU"), x, name="relu")}), {"x": IMAGE.reshape(-1)[:1]})
    assert not exported.functions
    assert sorted(operators(exported)) == ["Identity", "Relu"]


def test_a_layer_in_a_body_calls_a_function_of_the_model() -> None:
    call = next(call for call in layer_table() if call.op.type == "ShuffleChannels")
    ir, feeds = model_of_branches(call)
    exported = check(ir, feeds)
    (chosen,) = exported.graph.node
    branches = [one.g for one in chosen.attribute]
    assert [[node.op_type for node in branch.node if node.domain] for branch in branches] == [["ShuffleChannels"]] * 2
    assert len(exported.functions) == 1


def test_a_large_model_in_a_file_keeps_its_functions(tmp_path: Path) -> None:
    x = parameter("x", 2, 4, 6, 6)
    ir = model([x], {"y": reorg(x, "reorg")})
    for external in (False, True):
        path = tmp_path / f"{external}.onnx"
        converter.save_onnx(ir, path, external_data=external)
        assert [function.name for function in onnx.load(path).functions] == ["ReorgYolo"]
        assert run(onnx.load(path), {"x": IMAGE})["y"].shape == (2, 16, 3, 3)


def test_the_way_back_and_the_second_pass(tmp_path: Path) -> None:
    x = parameter("x", 2, 4, 6, 6)
    ir = model([x], {"y": reorg(layer(op("ShuffleChannels", 1, axis=1, group=2), x, name="shuffle"), "reorg")})
    converter.save_model(ir, tmp_path / "m.xml")
    trip = converter.round_trip(tmp_path / "m.xml")
    assert trip.passed, trip
    assert trip.settled == 2
    code, out, messages = onnx2ir("export", str(tmp_path / "m.xml"), "--inline-functions", "--verify")
    assert code == 0, out + messages
    assert not onnx.load(tmp_path / "m.onnx").functions
    assert read_model(tmp_path / "m.xml").outputs[0].shape == ir.outputs[0].shape
