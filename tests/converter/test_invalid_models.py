"""What bad input gets: every root cause at once, each with its node, and nothing written."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import converter
import ir_runtime
from tests.engines import node_model


def graph_model(
    nodes: list[onnx.NodeProto],
    *,
    opset: int = 17,
    inputs: dict[str, list] | None = None,
    outputs: list[str] | None = None,
    initializers: dict[str, np.ndarray] | None = None,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (inputs or {"x": [2, 3]}).items()],
        [onnx.ValueInfoProto(name=n) for n in outputs or ["y"]],
        [numpy_helper.from_array(v, n) for n, v in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def node(op_type: str, inputs: list[str], outputs: list[str], name: str = "n", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, outputs, name=name, **attributes)


def refusal(model: onnx.ModelProto) -> converter.ConversionError:
    with pytest.raises(converter.ConversionError) as caught:
        converter.convert_model(model)
    return caught.value


def test_every_unsupported_node_is_listed_with_its_reason() -> None:
    model = graph_model(
        [
            node("Foo", ["x"], ["a"], "first", domain="acme"),
            node("NoSuchOp", ["x"], ["b"], "second"),
            node("StringConcat", ["x", "x"], ["c"], "third"),
            node("Add", ["a", "b"], ["y"], "sum"),
        ],
        domains=("acme",),
    )
    error = refusal(model)
    assert isinstance(error, converter.UnsupportedModelError)
    assert [(p.node, p.op_type, p.domain, p.opset) for p in error.problems] == [
        ("first", "Foo", "acme", 1),
        ("second", "NoSuchOp", "", 17),
        ("third", "StringConcat", "", 17),
    ]
    text = str(error)
    assert "node 'first' (acme.Foo, opset 1): the operator is not supported" in text
    assert "node 'second' (NoSuchOp, opset 17): ONNX has no operator of that name" in text
    assert "node 'third' (StringConcat, opset 17)" in text


def test_only_root_causes_are_listed() -> None:
    model = graph_model(
        [
            node("Reshape", ["x", "bad"], ["a"], "reshape"),
            node("Relu", ["a"], ["b"], "relu"),
            node("ReduceMean", ["x"], ["c"], "mean", axes=[7]),
            node("Add", ["b", "c"], ["y"], "sum"),
        ],
        initializers={"bad": np.array([5], np.int64)},
    )
    assert [problem.node for problem in refusal(model).problems] == ["reshape", "mean"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: graph_model([node("Add", ["x", "b"], ["a"], "p"), node("Relu", ["a"], ["b"], "q")], outputs=["a"]), "is part of a cycle"),
        (lambda: graph_model([node("Relu", ["b"], ["c"], "behind"), node("Relu", ["b"], ["b"], "around")], outputs=["c"]), "node 'around' (Relu) is part of a cycle"),
        (lambda: graph_model([node("Relu", ["nowhere"], ["y"])]), "node 'n' (Relu, opset 17): its input 'nowhere' is computed by no node"),
        (lambda: graph_model([node("Relu", ["x"], ["z"])]), "output 'y' is computed by no node"),
        (lambda: graph_model([node("Relu", ["x"], ["y"], "p"), node("Relu", ["x"], ["y"], "q")]), "node 'q' (Relu) writes the tensor 'y', which already has a value"),
        (lambda: graph_model([node("Relu", ["x"], ["x"], "p")], outputs=["x"]), "node 'p' (Relu) writes the tensor 'x'"),
        (lambda: graph_model([node("Relu", ["x", "x"], ["y"])]), "takes 1 inputs, but got 2"),
        (lambda: graph_model([node("Add", ["x"], ["y"])]), "takes 2 inputs, but got 1"),
        (lambda: graph_model([node("Add", ["x", ""], ["y"])]), "input 1 is required, but missing"),
        (lambda: graph_model([node("Concat", ["x", ""], ["y"], axis=0)]), "input 1 is required, but missing"),
        (lambda: graph_model([node("Add", ["x", "w"], ["y"])], initializers={"w": np.zeros((4, 4), np.float32)}), "node 'n' (Add, opset 17)"),
        (lambda: graph_model([node("Add", ["x", "w"], ["y"])], initializers={"w": np.zeros(3)}), "must have the same type, but are f32 and f64"),
        (lambda: graph_model([node("Relu", ["x"], ["y"], beta=1.0)]), "has no attribute 'beta'"),
        (lambda: graph_model([node("Transpose", ["x"], ["y"], perm=[0, 0])]), "node 'n' (Transpose, opset 17)"),
        (lambda: graph_model([node("Softmax", ["x"], ["y"], axis=5)]), "node 'n' (Softmax, opset 17)"),
        (lambda: graph_model([node("Cast", ["x"], ["y"])]), "attribute 'to' is required, but missing"),
        (lambda: graph_model([node("Relu", ["x"], ["y"])], opset=0), "opset 0 is out of range"),
        (lambda: graph_model([node("Relu", ["x"], ["y"])], opset=99), "opset 99 is out of range"),
        (lambda: graph_model([node("Relu", ["x"], ["y"], domain="acme")]), "does not import the domain 'acme'"),
    ],
)  # fmt: skip
def test_invalid_graphs_are_named(build: Callable[[], onnx.ModelProto], message: str) -> None:
    assert message in str(refusal(build()))


def test_an_input_without_an_element_type() -> None:
    model = graph_model([node("Relu", ["x"], ["y"])])
    model.graph.input[0].type.tensor_type.ClearField("elem_type")
    assert "input 'x': the IR has no element type for ONNX's UNDEFINED" in str(refusal(model))


def test_two_inputs_or_initializers_of_one_name() -> None:
    model = graph_model([node("Relu", ["x"], ["y"])])
    model.graph.input.append(model.graph.input[0])
    assert "two inputs of the graph are called 'x'" in str(refusal(model))
    model = graph_model([node("Relu", ["x"], ["y"])], initializers={"w": np.zeros(3)})
    model.graph.initializer.append(model.graph.initializer[0])
    assert "two initializers are called 'w'" in str(refusal(model))


def test_inputs_that_are_no_tensors() -> None:
    model = graph_model([node("Relu", ["x"], ["y"])])
    model.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None))
    assert "input 'x' is not a tensor" in str(refusal(model))


def test_nodes_out_of_order_are_sorted() -> None:
    model = graph_model([node("Relu", ["a"], ["y"], "second"), node("Neg", ["x"], ["a"], "first")])
    assert [n.name for n in converter.convert_model(model).nodes()] == ["x", "first", "second", "y/result"]


def test_nothing_is_written_where_conversion_fails(tmp_path) -> None:
    from click.testing import CliRunner

    from converter.command_line import main

    (tmp_path / "m.onnx").write_bytes(graph_model([node("Foo", ["x"], ["y"])]).SerializeToString())
    result = CliRunner().invoke(main, ["convert", str(tmp_path / "m.onnx")])
    assert result.exit_code == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_bounds_of_many_dimensions_are_not_looked_for() -> None:
    """NumPy has at most 64 dimensions, some of its functions 32."""
    ones = np.ones((1,) * 50, np.int64)
    model = node_model("Div", {"x": ones}, constants={"y": ones}, opset=14)
    converted = converter.convert_model(model, target="any")
    np.testing.assert_array_equal(ir_runtime.compile_model(converted)([ones])[0], ones)


@pytest.mark.parametrize("static", [False, True])
def test_constants_that_contradict_a_shape_are_the_models_fault(static: bool) -> None:
    """Only the pass that folds the computed target meets the contradiction, which holds for every batch."""
    nodes = [
        node("Shape", ["x"], ["dims"]),
        node("Gather", ["dims", "first"], ["batch"]),
        node("Concat", ["batch", "rest"], ["target"], "join", axis=0),
        node("Reshape", ["x", "target"], ["y"], "windows"),
    ]
    model = graph_model(nodes)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 70, 64, 774]))
    for name, values in {"first": [0], "rest": [5, 14, 5, 14, 768]}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(values), name))
    with pytest.raises(converter.InvalidModelError, match=r"'windows' of Reshape: the elements of \[\?,70,64,774\]"):
        converter.convert_model(model, static=static)


@pytest.mark.parametrize(
    ("mode", "message"),
    [("edge", "array is too big"), ("reflect", "does not fit into memory"), ("wrap", "array is too big")],
)
def test_pads_beyond_memory_are_refused(mode: str, message: str) -> None:
    """Types are inferred without making the positions; what needs them is an error of the model."""
    x, pads = np.zeros((1, 2), np.float32), np.array([0, 0, 0, 1 << 61])
    model = node_model("Pad", {"x": x}, opset=19, constants={"p": pads}, attributes={"mode": mode})
    with pytest.raises(ir_runtime.ModelError, match=message):
        ir_runtime.compile_model(converter.convert_model(model))({"x": x})
