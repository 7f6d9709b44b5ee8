"""verify of an IR whose inputs and outputs have other names than those of the ONNX model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
from ir_runtime import Model
from tests.engines import ENGINES


def network(folder: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Sub", ["product", "z"], ["first"]),
        helper.make_node("Tanh", ["first"], ["second"]),
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("x", "z")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("first", "second")]
    weight = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(weight, "w")])
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def renamed(path: Path, inputs: dict[str, str], outputs: dict[str, str]) -> Model:
    """The IR, with other names and without a record, as that of another program."""
    model = converter.convert_model(path)
    for node in (*model.parameters, *model.results):
        value = (node.inputs or node.outputs)[0]
        names = inputs if node.op.role == "parameter" else outputs
        value.names = [names.get(name, name) for name in value.names]
        node.output_names = [names.get(name, name) for name in node.output_names]
    return model


@pytest.mark.parametrize("engine", ENGINES)
def test_ends_of_other_names_are_paired_in_their_order(engine: str, tmp_path: Path) -> None:
    path = network(tmp_path)
    model = renamed(path, {"x": "hidden", "z": "offset"}, {"second": "state"})
    found = converter.verify(path, model, engine=engine)
    assert found.passed
    assert (
        "inputs have other names, and were paired in their order: 'hidden' with 'x', 'offset' with 'z'" in found.notes
    )
    assert "outputs have other names, and were paired in their order: 'state' with 'second'" in found.notes
    assert [node.end_names for node in model.results] == [["first"], ["state"]]


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_renamed_onnx_model_is_paired_in_its_order(is_saved: bool, tmp_path: Path) -> None:
    path = network(tmp_path)
    model = onnx.load(path)
    other_names = {"x": "hidden", "z": "offset", "second": "state"}
    for names in [field for node in model.graph.node for field in (node.input, node.output)]:
        names[:] = [other_names.get(name, name) for name in names]
    for value in (*model.graph.input, *model.graph.output):
        value.name = other_names.get(value.name, value.name)
    if is_saved:
        onnx.save(model, tmp_path / "renamed.onnx")
    found = converter.verify(path, str(tmp_path / "renamed.onnx") if is_saved else model)
    assert found.verdict == "equal"
    pairs = "'hidden' with 'x', 'offset' with 'z'"
    assert f"inputs have other names, and were paired in their order: {pairs}" in found.notes
    assert "outputs have other names, and were paired in their order: 'state' with 'second'" in found.notes


def test_another_order_is_a_difference(tmp_path: Path) -> None:
    path = network(tmp_path)
    model = renamed(path, {}, {"first": "one", "second": "other"})
    model.results = model.results[::-1]
    assert converter.verify(path, model).verdict == "different"


def test_other_numbers_of_ends_are_not_paired(tmp_path: Path) -> None:
    path = network(tmp_path)
    model = renamed(path, {}, {"first": "one", "second": "other"})
    model.results = model.results[:1]
    with pytest.raises(converter.VerificationError, match="the IR has no outputs"):
        converter.verify(path, model)


def test_a_name_of_another_tensor_is_not_taken(tmp_path: Path) -> None:
    path = network(tmp_path)
    model = renamed(path, {}, {"second": "state"})
    model.parameters[0].outputs[0].add_name("second")
    with pytest.raises(converter.VerificationError, match="the IR has no outputs"):
        converter.verify(path, model)
