"""Dimensions that the file declares are dynamic while translating, or stay static behind a layer that refuses others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from converter import conversion
from converter.command_line import main
from ir_runtime import InferenceError
from tests.engines import check_node, core, node_model, run_numpy, run_onnxruntime, run_openvino
from tests.suite.reshape import check_reshaped


def layers(model: ir_runtime.Model) -> list[str]:
    return [node.op.type for node in model.nodes() if node.op.role not in ("constant", "parameter", "result")]


def flattened_by_shape() -> onnx.ModelProto:
    """Shape -> Gather -> Concat -> Reshape, as exporters write a flatten."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 12])],
        [numpy_helper.from_array(np.array([0]), "zero"), numpy_helper.from_array(np.array([-1]), "rest")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_dimensions_stay_dynamic() -> None:
    plain = converter.convert_model(flattened_by_shape(), fuse=False)
    assert layers(plain) == ["ShapeOf", "Gather", "Concat", "Reshape"]
    model = converter.convert_model(flattened_by_shape())
    assert layers(model) == ["Reshape"]
    assert str(model.outputs[0].shape) == "[2,12]"
    xml, weights = ir_runtime.model_to_bytes(model)
    theirs = core().read_model(xml, weights)
    theirs.reshape(openvino.PartialShape([5, 2, 7]))
    assert list(theirs.outputs[0].get_shape()) == [5, 14]
    model.reshape([5, 2, 7])
    assert str(model.outputs[0].shape) == "[5,14]"


def test_static_decides_it_now(tmp_path: Path) -> None:
    assert layers(converter.convert_model(flattened_by_shape(), static=True)) == ["Reshape"]
    onnx.save(flattened_by_shape(), tmp_path / "m.onnx")
    command = ["--quiet", "convert", str(tmp_path / "m.onnx"), "--static"]
    main(command, standalone_mode=False)
    assert layers(ir_runtime.read_model(tmp_path / "m.xml")) == ["Reshape"]


def squeezed_if_single() -> onnx.ModelProto:
    """If the second dimension is 1, Squeeze, else nothing: how an exporter writes ``x.squeeze(1)``."""
    then = helper.make_graph(
        [helper.make_node("Squeeze", ["x", "one"], ["t"])],
        "then",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
    )
    otherwise = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["e"])],
        "else",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["n"]),
        helper.make_node("Equal", ["n", "one"], ["single"]),
        helper.make_node("If", ["single"], ["z"], then_branch=then, else_branch=otherwise, name="choice"),
        helper.make_node("Transpose", ["z"], ["y"], perm=[1, 0]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([1]), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_dimension_that_decides_a_rank_is_kept_and_others_are_refused() -> None:
    proto = squeezed_if_single()
    ir = ir_runtime.model_to_bytes(converter.convert_model(proto))
    x = np.arange(8, dtype=np.float32).reshape(2, 1, 4)
    for run in (run_numpy, run_openvino):
        np.testing.assert_array_equal(run(ir, {"x": x})[0], run_onnxruntime(proto, {"x": x})[0])
    model = ir_runtime.read_model(*ir)
    model.reshape([5, 1, 3])  # the other dimensions are free
    assert str(model.outputs[0].shape) == "[3,5]"
    theirs = core().read_model(*ir)
    theirs.reshape(openvino.PartialShape([5, 1, 3]))
    assert list(theirs.outputs[0].get_shape()) == [3, 5]
    with pytest.raises(InferenceError, match="dimension_1"):
        model.reshape([5, 2, 3])
    with pytest.raises(RuntimeError, match="dimension_1"):
        theirs.reshape(openvino.PartialShape([5, 2, 3]))


def with_rank_of_length(*lengths: int) -> onnx.ModelProto:
    """For each length an input of that length, whose rank after an If depends on its having that length."""
    nodes, inputs, outputs, stored = [], [], [], []
    for n in lengths:
        then = helper.make_graph(
            [helper.make_node("Unsqueeze", [f"x{n}", "zero"], [f"t{n}"])],
            f"then{n}",
            [],
            [helper.make_tensor_value_info(f"t{n}", TensorProto.FLOAT, None)],
        )
        otherwise = helper.make_graph(
            [helper.make_node("Identity", [f"x{n}"], [f"e{n}"])],
            f"else{n}",
            [],
            [helper.make_tensor_value_info(f"e{n}", TensorProto.FLOAT, None)],
        )
        nodes += [
            helper.make_node("Shape", [f"x{n}"], [f"s{n}"]),
            helper.make_node("Equal", [f"s{n}", f"n{n}"], [f"b{n}"]),
            helper.make_node("If", [f"b{n}"], [f"z{n}"], then_branch=then, else_branch=otherwise),
            helper.make_node("Transpose", [f"z{n}"], [f"y{n}"], perm=[1, 0]),
        ]
        inputs.append(helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [n]))
        outputs.append(helper.make_tensor_value_info(f"y{n}", TensorProto.FLOAT, None))
        stored.append(numpy_helper.from_array(np.array([n]), f"n{n}"))
    stored.append(numpy_helper.from_array(np.array([0]), "zero"))
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (flattened_by_shape(), 1),  # all dynamic
        # All dynamic, all static, and one translation a group: of [2,1,4] the batch, the 1 and the 4.
        (squeezed_if_single(), 2 + 3),
        (with_rank_of_length(2), 2 + 0),  # the only group alone is all dynamic, which has been tried
        (with_rank_of_length(2, 3, 4), 2 + 3),
        (with_rank_of_length(*range(2, 30)), 2 + 12),  # no more than twelve groups are tried
    ],
    ids=["none", "one of three", "one of one", "three of three", "28 of 28"],
)
def test_a_model_is_translated_few_times(monkeypatch: pytest.MonkeyPatch, model: onnx.ModelProto, most: int) -> None:
    translate, count = conversion.translate_model, 0

    def counting(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return translate(*arguments)

    monkeypatch.setattr(conversion, "translate_model", counting)
    made = converter.convert_model(model)
    assert count <= most
    assert [str(output.shape) for output in made.outputs] == [
        str(output.shape) for output in converter.convert_model(model, static=True).outputs
    ]


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_dimension_of_one_is_no_promise(dimension: int, keepdims: int) -> None:
    """A reduction and a sum that broadcasts, converted for 1 and run for more, in both engines."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[1], keepdims=keepdims),
        helper.make_node("Add", ["m", "k"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.arange(4, dtype=np.float32), "k")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    ir = ir_runtime.model_to_bytes(converter.convert_model(proto))
    x = np.random.default_rng(dimension).random((2, dimension, 4), np.float32)
    expected = x.mean(1, keepdims=bool(keepdims)) + np.arange(4, dtype=np.float32)
    model = ir_runtime.read_model(*ir)
    model.reshape(list(x.shape))
    np.testing.assert_allclose(ir_runtime.compile_model(model)(x)[0], expected, rtol=1e-6)
    theirs = core().read_model(*ir)
    theirs.reshape(openvino.PartialShape(list(x.shape)))
    np.testing.assert_allclose(core().compile_model(theirs, "CPU")(x)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("keep", [-1, -2, -5])
@pytest.mark.parametrize("dimension", [1, 3, 7])
def test_the_last_elements_of_an_open_dimension(keep: int, dimension: int) -> None:
    """``x[:, k:]``: not an empty tensor, whatever the bound of the dimension."""
    nodes = [
        helper.make_node("Slice", ["x", "start", "end", "axis"], ["part"]),
        helper.make_node("ReduceMean", ["part"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Size", ["part"], ["numel"]),
    ]
    stored = {"start": [keep], "end": [2**63 - 1], "axis": [1]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, None])],
        [
            helper.make_tensor_value_info("mean", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("numel", TensorProto.INT64, None),
        ],
        [numpy_helper.from_array(np.array(value), name) for name, value in stored.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    check_node(proto, {"x": np.random.default_rng(7).random((2, dimension), np.float32)})


EMPTY = [
    ("ReduceMax", 13, {"axes": [1]}),
    ("ReduceSum", 11, {"axes": [1], "keepdims": 0}),
    ("ReduceProd", 13, {"axes": [0, 1]}),
    ("ReduceL2", 13, {"axes": [2]}),
    ("Softmax", 13, {"axis": 2}),
    ("Transpose", 13, {"perm": [2, 0, 1]}),
    ("Flatten", 13, {}),
    ("Trilu", 14, {}),
    ("ArgMax", 13, {"axis": 2}),
]


@pytest.mark.parametrize(("op_type", "opset", "attributes"), EMPTY, ids=[row[0] for row in EMPTY])
def test_an_input_declared_empty_can_be_reshaped(op_type: str, opset: int, attributes: dict[str, object]) -> None:
    data = np.random.default_rng(opset).random((3, 5, 4), np.float32)
    model = node_model(op_type, {"x": data[:2, :0]}, opset=opset, attributes=attributes)
    check_reshaped(model, {"x": data[:2, :0]}, {"x": data[:, :0]}, {"x": data[:2, :1]}, {"x": data})


def test_bit_cast_of_an_empty_input_refuses_other_dimensions() -> None:
    """Looking something up for no elements kills the plug-in; elsewhere a table is needed."""
    model = node_model("BitCast", {"x": np.zeros((2, 0), np.float16)}, opset=26, attributes={"to": TensorProto.UINT16})
    made = converter.convert_model(model)
    assert layers(made) == ["VariadicSplit", "VariadicSplit", "Convert"]
    with pytest.raises(InferenceError, match="dimension_1"):
        made.reshape([2, 3])


def test_a_cache_that_is_declared_empty_grows() -> None:
    nodes = [
        helper.make_node("Concat", ["past", "k"], ["keys"], axis=2),
        helper.make_node("Transpose", ["keys"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "keys"], ["y"]),
    ]
    shapes = {"past": (1, 2, 0, 4), "k": (1, 2, 1, 4), "q": (1, 2, 1, 4)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "keys")],
    )
    generator = np.random.default_rng(11)
    feeds = {name: generator.random(shape, np.float32) for name, shape in shapes.items()}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check_reshaped(model, feeds, {**feeds, "past": generator.random((1, 2, 6, 4), np.float32)})


def test_contradictions_of_the_declared_dimensions_are_errors_of_the_node() -> None:
    model = node_model(
        "Concat",
        {"a": np.zeros((2, 3), np.float32), "b": np.zeros((4, 3), np.float32)},
        opset=13,
        attributes={"axis": 1},
    )
    with pytest.raises(converter.ConversionError, match=r"node 'node' \(Concat, opset 13\)"):
        converter.convert_model(model)
