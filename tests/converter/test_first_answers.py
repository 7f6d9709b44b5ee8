"""The messages of a first conversion: each once, with all that is needed, and with what to type."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
from tests.commands import onnx2ir


def chain(count: int, batch: int = 1) -> onnx.ModelProto:
    """Layers one after the other, and every tensor between them declared."""
    nodes = [helper.make_node("Relu" if i % 2 else "Abs", [f"h{i}"], [f"h{i + 1}"]) for i in range(count)]
    infos = [helper.make_tensor_value_info(f"h{i}", TensorProto.FLOAT, [batch, 4]) for i in range(count + 1)]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[-1:], value_info=infos[1:-1])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("static", [False, True])
def test_another_batch_contradicts_every_declaration_in_one_line(
    static: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "converter"):
        converter.convert_model(chain(100), input={"h0": [8, 4]}, static=static)
    assert caplog.messages == [
        "g: the model declares 'h1' as [1,4], but its shape is [8,4]; 99 more tensors have other shapes than declared"
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "converter"):
        converter.convert_model(chain(1), input={"h0": [8, 4]}, static=static)
    assert caplog.messages == ["g: the model declares 'h1' as [1,4], but its shape is [8,4]"]


@pytest.mark.parametrize(("domain", "hint"), [("acme", True), ("", True), ("com.microsoft", False)])
def test_an_operator_of_ones_own_names_the_way_to_add_it(domain: str, hint: bool) -> None:
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MyOwn", ["x"], ["y"], domain=domain)], "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    with pytest.raises(converter.UnsupportedModelError) as caught:
        converter.convert_model(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    assert ("--extension FILE.py" in str(caught.value)) == hint


def ranks_by_value_and_shape(by_value: bool) -> onnx.ModelProto:
    """An If whose branches differ in rank, decided by a value or by a dimension."""
    branches = []
    for name, axes in (("then", [0]), ("else", [0, 1])):
        inner = helper.make_node("ReduceSum", ["x", f"axes_{name}"], [f"{name}_out"], keepdims=0)
        out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        constant = onnx.numpy_helper.from_array(np.array(axes), f"axes_{name}")
        branches.append(helper.make_graph([inner], name, [], [out], [constant]))
    nodes = []
    if by_value:
        nodes.append(helper.make_node("Identity", ["rate"], ["number"]))
    else:
        nodes += [
            helper.make_node("Shape", ["x"], ["shape"]),
            helper.make_node("Gather", ["shape", "zero"], ["number"]),
        ]
    nodes += [
        helper.make_node("Equal", ["number", "three"], ["is_three"]),
        helper.make_node("If", ["is_three"], ["y"], name="choice", then_branch=branches[0], else_branch=branches[1]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])]
    if by_value:
        inputs.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    constants = [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in (("zero", 0), ("three", 3))]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("by_value", "typed"), [(True, "rate=VALUE"), (False, "x[N,N]")])
def test_the_message_of_an_undecided_branch_has_the_command(by_value: bool, typed: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(ranks_by_value_and_shape(by_value), path)
    code, _, messages = onnx2ir("convert", str(path))
    assert code == 1
    found = re.search(r'write onnx2ir convert MODEL --input "([^"]+)"', messages)
    assert found is not None
    assert found[1] == typed
    # With numbers for the words, the command of the message converts the model.
    filled = found[1].replace("VALUE", "3").replace("N", "3")
    assert onnx2ir("convert", str(path), "--input", filled)[0] == 0
