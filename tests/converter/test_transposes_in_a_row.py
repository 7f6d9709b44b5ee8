"""Transposes in a row become one, and one that moves no axis disappears."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import converter
import ir_runtime
from converter.passes.registry import passes
from ir_runtime import Model
from ir_runtime.graph.element_types import i64
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.inputs_outputs import Parameter1
from ir_runtime.operations.movement import Transpose1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.trace import Trace
from tests.engines import ENGINES, check_node, run
from tests.ir_runtime.test_rewrite import model_of, parameter
from tests.targets.probes.rows import numbers, several

LEFT, RIGHT, SAME, SWAP = [1, 2, 0], [2, 0, 1], [0, 1, 2], [0, 2, 1]
REVERSE = None
X = numbers(2, 3, 4)
SHAPES = [[2, 3, 4], ["n", 3, 4], [None, None, None]]


def transpose(data: str, result: str, order: Sequence[int] | None) -> onnx.NodeProto:
    return helper.make_node("Transpose", [data], [result], **({} if order is None else {"perm": order}))


def chain(*orders: Sequence[int] | None) -> list[onnx.NodeProto]:
    """Transposes of x, whose results are t1, t2 ..., and y for the last."""
    names = ["x", *(f"t{number}" for number in range(1, len(orders))), "y"]
    return [transpose(names[i], names[i + 1], order) for i, order in enumerate(orders)]


def orders_of(model: Model) -> list[list[int]]:
    """The orders of all Transposes, those in bodies too."""
    return [
        node.inputs[1].type.constant.tolist()
        for part in model.all_models()
        for node in part.nodes()
        if isinstance(node.op, Transpose1)
    ]


def check(model: onnx.ModelProto, feeds: Mapping[str, Any], left: Sequence[Sequence[int]]) -> None:
    """The orders that are left, and the numbers."""
    assert orders_of(converter.convert_model(model, target="any")) == left
    check_node(model, feeds)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("orders", "left"),
    [
        ([LEFT], [LEFT]),
        ([SAME], []),
        ([LEFT, SWAP], [[1, 0, 2]]),
        ([SWAP, LEFT], [[2, 1, 0]]),
        ([LEFT, RIGHT], []),
        ([REVERSE, REVERSE], []),
        ([REVERSE, LEFT], [[1, 0, 2]]),
        ([LEFT, SAME], [LEFT]),
        ([SAME, LEFT], [LEFT]),
        ([SAME, SAME], []),
        ([LEFT, LEFT, LEFT], []),
        ([LEFT, LEFT, SWAP], [[2, 1, 0]]),
        ([LEFT, RIGHT, SWAP], [SWAP]),
        ([LEFT, LEFT, LEFT, LEFT, LEFT], [RIGHT]),
    ],
    ids=str,
)
def test_chains(orders: Sequence[Sequence[int] | None], left: list[list[int]], shape: list[Any]) -> None:
    check(*several(chain(*orders), {"x": X}, {}, {"x": shape}), left)


@pytest.mark.parametrize(
    ("shape", "orders", "left"),
    [
        ((), [REVERSE], []),
        ((5,), [REVERSE], []),
        ((2, 1, 3, 1, 2), [[4, 0, 1, 2, 3], [0, 2, 1, 4, 3]], [[4, 1, 0, 3, 2]]),
        ((0, 3), [[1, 0], [1, 0]], []),
    ],
    ids=str,
)
def test_other_ranks(shape: tuple[int, ...], orders: Sequence[Sequence[int] | None], left: list[list[int]]) -> None:
    check(*several(chain(*orders), {"x": numbers(*shape)}, {}, {"x": shape}), left)


@pytest.mark.parametrize(
    ("orders", "left"),
    [
        ([SAME], [SAME]),  # without it nothing tells the rank
        ([LEFT, RIGHT], [SAME]),
        ([LEFT, LEFT, SWAP], [[2, 1, 0]]),
        ([REVERSE], [[]]),
        ([REVERSE, REVERSE], []),
        ([REVERSE, LEFT], [[1, 0, 2]]),
        ([LEFT, REVERSE], [[0, 2, 1]]),
    ],
    ids=str,
)
def test_data_of_unknown_rank(orders: Sequence[Sequence[int] | None], left: list[list[int]]) -> None:
    model, feeds = several(chain(*orders), {"x": X}, {}, {"x": SHAPES[0]})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert orders_of(converter.convert_model(model, target="any")) == left
    check_node(model, feeds, engines=("numpy",))  # the CPU plug-in refuses inputs of unknown rank


def test_orders_of_no_dimensions() -> None:
    """Nothing tells before the call that they do not fit."""
    model, _ = several(chain(REVERSE, [1, 5, 0]), {"x": X}, {}, {"x": SHAPES[0]})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert orders_of(converter.convert_model(model, target="any")) == [[], [1, 5, 0]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("orders", "left"), [([LEFT, SWAP], [[1, 0, 2], LEFT]), ([LEFT, RIGHT], [LEFT]), ([SAME, SAME], [])], ids=str
)
def test_an_inner_value_that_is_returned(orders: list[list[int]], left: list[list[int]], shape: list[Any]) -> None:
    model, feeds = several(chain(*orders), {"x": X}, {}, {"x": shape})
    model.graph.output.append(onnx.ValueInfoProto(name="t1"))
    check(model, feeds, left)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("second", [SWAP, RIGHT], ids=str)
def test_an_inner_value_that_another_layer_reads(second: list[int], shape: list[Any]) -> None:
    nodes = [*chain(LEFT, second), helper.make_node("Relu", ["t1"], ["r"]), helper.make_node("Neg", ["r"], ["z"])]
    model, feeds = several(nodes, {"x": X - 9}, {}, {"x": shape})
    model.graph.output.append(onnx.ValueInfoProto(name="y"))
    check(model, feeds, [LEFT, [1, 0, 2]] if second == SWAP else [LEFT])


def test_two_that_read_one() -> None:
    nodes = [
        transpose("x", "t", LEFT),
        transpose("t", "a", SWAP),
        transpose("t", "b", LEFT),
        helper.make_node("Shape", ["b"], ["s"]),
        helper.make_node("Reshape", ["a", "s"], ["c"]),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    check(*several(nodes, {"x": X}, {}, {"x": ["n", 3, 4]}), [RIGHT, [1, 0, 2]])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_in_the_branches_of_an_if(shape: list[Any]) -> None:
    then, other = (
        helper.make_graph(
            [transpose("x", f"{name}1", LEFT), transpose(f"{name}1", f"{name}2", second)],
            name,
            [],
            [onnx.ValueInfoProto(name=f"{name}2")],
        )
        for name, second in (("a", SWAP), ("b", RIGHT))
    )
    nodes = [helper.make_node("If", ["go"], ["y"], then_branch=then, else_branch=other)]
    for go in (True, False):
        model, feeds = several(nodes, {"x": X, "go": np.array(go)}, {}, {"x": shape, "go": []})
        check(model, feeds, [[1, 0, 2]])


@pytest.mark.parametrize("shape", [[3, 3, 3], ["n", "n", "n"], [None, None, None]], ids=str)
def test_in_the_body_of_a_loop(shape: list[Any]) -> None:
    body = helper.make_graph(
        [
            *(transpose(a, b, order) for a, b, order in (("s", "a", LEFT), ("a", "b", SWAP), ("b", "c", SAME))),
            helper.make_node("Add", ["c", "c"], ["next"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, shape),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, shape),
        ],
    )
    nodes = [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)]
    check(*several(nodes, {"x": numbers(3, 3, 3)}, {"trips": np.array(3)}, {"x": shape}), [[1, 0, 2]])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", ["2,3,4", "?,3,?"])
@pytest.mark.parametrize(
    ("first", "second", "count", "left"),
    [
        (LEFT, None, 0, "t1"),
        (None, LEFT, 0, "t0"),
        (None, SAME, 1, "t0"),
    ],
    ids=str,
)
def test_orders_that_are_not_constant(
    first: list[int] | None, second: list[int] | None, count: int, left: str, shape: str, engine: str
) -> None:
    """ONNX has no such orders, other files of the IR do."""
    x = parameter("x", shape)
    given = make_node(Parameter1(shape=PartialShape.parse("3"), element_type=i64), (), "order")
    given.outputs[0].add_name("order")
    value = x.outputs[0]
    for number, order in enumerate((first, second)):
        axes = given.outputs[0] if order is None else Builder().constant(order)
        (value,) = make_node(Transpose1(), [value, axes], f"t{number}").outputs
    value.add_name("y")
    model, trace = model_of([x, given], value), Trace()
    assert sum(passes.run(model, trace=trace).values()) == count
    assert left in trace.of("transposes_in_a_row").reasons[f"input 1 of layer '{left}' is not constant"]
    (found,) = run(engine, ir_runtime.model_to_bytes(model), {"x": X, "order": np.array(SWAP)}, ["y"])
    np.testing.assert_array_equal(found, X.transpose(first or SWAP).transpose(second or SWAP))


@pytest.mark.parametrize(
    "shape", [[5, 1, 2, 3], [1, 5, 2, 3], ["n", 1, 2, 3], [1, "n", 2, 3], ["n", 1, "m", 3]], ids=str
)
@pytest.mark.parametrize("static", [True, False], ids=["static", "dynamic"])
def test_a_reshape_takes_over_dimensions_that_a_transpose_moves(shape: Sequence[int | str], static: bool) -> None:
    """A 0 in a shape means the dimension at its own place."""
    nodes = [helper.make_node("Reshape", ["x", "target"], ["r"]), transpose("r", "y", [1, 0, 2])]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", shape), ("y", None))]
    constant = helper.make_tensor("target", TensorProto.INT64, [3], [0, 0, -1])
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x = numbers(*(5 if size == "n" else 2 if size == "m" else size for size in shape))
    result = ir_runtime.compile_model(converter.convert_model(model, target="any", static=static))({"x": x})
    assert np.array_equal(result["y"], x.reshape(*x.shape[:2], 6).transpose(1, 0, 2))
