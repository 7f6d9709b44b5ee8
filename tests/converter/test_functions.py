"""Functions: a model's own, nested, with attributes and defaults; and those of ONNX's schemas."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, TensorProto, helper

import converter
from tests.engines import check_node, node_model

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("acme", 1)]


def function(
    name: str, inputs: list[str], outputs: list[str], nodes: list[onnx.NodeProto], **more: object
) -> FunctionProto:
    return helper.make_function("acme", name, inputs, outputs, nodes, OPSETS, **more)  # type: ignore[arg-type]


def referring(node: onnx.NodeProto, attribute: str, source: str, kind: int) -> onnx.NodeProto:
    """The node with an attribute that the function's caller gives."""
    node.attribute.append(onnx.AttributeProto(name=attribute, ref_attr_name=source, type=kind))
    return node


def model(nodes: list[onnx.NodeProto], functions: list[FunctionProto], outputs: list[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=9, functions=functions)


X = np.array([[-1, 0.5, 2], [3, -4, 0]], np.float32)


def test_a_function_called_twice_within_another() -> None:
    leaky = function(
        "Leak",
        ["a"],
        ["b"],
        [
            referring(
                helper.make_node("LeakyRelu", ["a"], ["b"], name="inner"), "alpha", "slope", onnx.AttributeProto.FLOAT
            )
        ],
        attributes=["slope"],
    )
    twice = function(
        "Twice",
        ["a"],
        ["b"],
        [
            helper.make_node("Leak", ["a"], ["t"], domain="acme", name="first", slope=0.5),
            helper.make_node("Leak", ["t"], ["b"], domain="acme", name="second", slope=0.1),
        ],
    )
    proto = model([helper.make_node("Twice", ["x"], ["y"], domain="acme", name="call")], [twice, leaky], ["y"])
    check_node(proto, {"x": X})
    names = [node.name for node in converter.convert_model(proto).nodes()]
    assert "call/first/inner" in names
    assert "call/second/inner" in names


def test_attribute_defaults_of_a_function() -> None:
    default = helper.make_attribute("slope", 0.25)
    leaky = function(
        "Leak",
        ["a"],
        ["b"],
        [referring(helper.make_node("LeakyRelu", ["a"], ["b"]), "alpha", "slope", onnx.AttributeProto.FLOAT)],
        attribute_protos=[default],
    )
    check_node(model([helper.make_node("Leak", ["x"], ["y"], domain="acme")], [leaky], ["y"]), {"x": X})


def test_an_output_that_is_not_asked_for_does_not_shift_the_others() -> None:
    both = function(
        "Both",
        ["a"],
        ["neg", "none", "abs"],
        [helper.make_node("Neg", ["a"], ["neg"]), helper.make_node("Abs", ["a"], ["abs"])],
    )
    proto = model([helper.make_node("Both", ["x"], ["n", "", "p"], domain="acme")], [both], ["n", "p"])
    check_node(proto, {"x": X}, [-X, np.abs(X)])


def test_a_function_that_calls_itself_is_refused() -> None:
    loop = function("Loop", ["a"], ["b"], [helper.make_node("Loop", ["a"], ["b"], domain="acme")])
    with pytest.raises(converter.ConversionError, match="deep"):
        converter.convert_model(model([helper.make_node("Loop", ["x"], ["y"], domain="acme")], [loop], ["y"]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (helper.make_node("Leak", ["x", "x"], ["y"], domain="acme", name="call"), "takes 1 inputs"),
        (helper.make_node("Leak", ["x"], ["y"], domain="acme", name="call", alpha=1.0), "has no attribute 'alpha'"),
    ],
)
def test_wrong_calls_name_the_node(call: onnx.NodeProto, message: str) -> None:
    leaky = function("Leak", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], attributes=["slope"])
    with pytest.raises(converter.ConversionError, match="node 'call'") as caught:
        converter.convert_model(model([call], [leaky], ["y"]))
    assert message in str(caught.value)


def test_problems_inside_a_function_name_the_inner_node() -> None:
    bad = function("Bad", ["a"], ["b"], [helper.make_node("NoSuchOp", ["a"], ["b"], name="inner")])
    with pytest.raises(converter.ConversionError, match="node 'inner' \\(NoSuchOp"):
        converter.convert_model(
            model([helper.make_node("Bad", ["x"], ["y"], domain="acme", name="call")], [bad], ["y"])
        )


@pytest.mark.parametrize(
    ("op_type", "opset", "attributes"),
    [
        ("Celu", 12, {"alpha": 2.0}),
        ("Shrink", 9, {"lambd": 1.0, "bias": 0.5}),
        ("MeanVarianceNormalization", 13, {"axes": [1]}),
    ],
)
def test_operators_made_of_others(op_type: str, opset: int, attributes: dict) -> None:
    check_node(node_model(op_type, {"x": X}, opset=opset, attributes=attributes), {"x": X})


@pytest.mark.parametrize("inputs", [["x"], ["x", ""], ["x", "", ""], ["x", "low"], ["x", "", "high"]], ids=str)
def test_a_call_may_leave_inputs_out(inputs: list[str]) -> None:
    """They are missing within the function, in a nested call and in a body of If, too."""
    limit = function("Limit", ["a", "low", "high"], ["b"], [helper.make_node("Clip", ["a", "low", "high"], ["b"])])
    then = helper.make_graph(
        [helper.make_node("Clip", ["a", "low", "high"], ["c"])],
        "then",
        [],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)],
    )
    outer = function(
        "Outer",
        ["a", "low", "high"],
        ["b"],
        [
            helper.make_node("Limit", ["a", "low", "high"], ["l"], domain="acme"),
            helper.make_node("ReduceSum", ["a"], ["total"], keepdims=0),
            helper.make_node("Greater", ["total", "total"], ["no"]),
            helper.make_node("If", ["no"], ["i"], then_branch=then, else_branch=then),
            helper.make_node("Add", ["l", "i"], ["b"]),
        ],
    )
    made = model([helper.make_node("Outer", inputs, ["y"], domain="acme")], [limit, outer], ["y"])
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    for name, value in (("low", -0.75), ("high", 1.5)):
        made.graph.initializer.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
    check_node(made, {"x": X})
