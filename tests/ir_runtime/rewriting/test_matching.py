"""Patterns of layers and why they do not match; layers written as formulas."""

from __future__ import annotations

import numpy as np
import pytest

from ir_runtime import Node, Output, compile_model
from ir_runtime.operations.activation import ReLU1, Sigmoid1
from ir_runtime.operations.elementwise import Abs1, Add1, Divide1, Multiply1, Subtract1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting import Builder, Match, NotMatched, anything, constant, layer, number
from ir_runtime.rewriting.caches import variable_behind
from ir_runtime.rewriting.expressions import Expression, concat, loop
from tests.converter.to_onnx import graphs
from tests.ir_runtime.rewriting.models import model_of, parameter


def matched(pattern: object, value: Output) -> Match:
    found = pattern.match(value)  # type: ignore[attr-defined]
    assert isinstance(found, Match), found
    return found


def reason(pattern: object, value: Output) -> str:
    found = pattern.match(value)  # type: ignore[attr-defined]
    assert isinstance(found, NotMatched)
    return found.reason


@pytest.fixture
def x() -> Output:
    return parameter("x", "2,3").outputs[0]


def test_an_order_that_misleads_an_outer_layer_is_given_up(x: Output) -> None:
    """(a + b) - b: which of the sum's inputs is b turns out only outside of the sum."""
    build = Builder()
    y = build.emit(Abs1(), x)
    a, b = anything("a"), anything("b")
    pattern = layer(Subtract1, layer(Add1, a, b), b)
    for inputs in ((x, y), (y, x)):
        found = matched(pattern, build.emit(Subtract1(), build.emit(Add1(), *inputs), y))
        assert (found["a"], found["b"]) == (x, y)


def test_constants_and_numbers(x: Output) -> None:
    build = Builder()
    half = build.emit(Multiply1(), x, build.constant(0.5, "f32"))
    shifted = build.emit(Add1(), half, build.constant(np.arange(3), "f32"))
    pattern = layer(Add1, layer(Multiply1, anything("x"), number(0.5), name="half"), constant("shift"))
    found = matched(pattern, shifted)
    np.testing.assert_array_equal(found.array("shift"), [0, 1, 2])
    assert found.node("half") is half.node
    assert "shift" in found
    assert "other" not in found
    with pytest.raises(KeyError):
        found["other"]
    with pytest.raises(KeyError, match="'half' is not constant"):
        found.array("half")


def test_every_reason_names_the_layer_and_what_was_wanted(x: Output) -> None:
    build = Builder()
    named = build.emit(Divide1(), build.emit(ReLU1(), x), build.constant(3, "f32"))
    named.node.name = "quotient"
    named.node.inputs[0].node.name = "relu"
    same = anything("same")
    rows = [
        (layer(Add1, anything(), anything()), "layer 'quotient' is made by Divide, not by Add"),
        (layer((Add1, Multiply1), anything()), "layer 'quotient' is made by Divide, not by Add or Multiply"),
        (layer(Divide1, layer(Abs1, anything())), "input 0 of layer 'quotient' is made by ReLU, not by Abs"),
        (layer(Divide1, constant()), "input 0 of layer 'quotient' is not constant"),
        (layer(Divide1, anything(), number(2)), "input 1 of layer 'quotient' is 3, not 2"),
        (layer(Divide1, same, same), "input 1 of layer 'quotient' is not the same value as same"),
        (layer(Divide1, anything(), anything(), anything()), "layer 'quotient' has 2 inputs, not 3"),
        (layer(Divide1, anything(check=lambda value: "has rank 2")), "input 0 of layer 'quotient' has rank 2"),
        (layer(Divide1, check=lambda value: "divides"), "layer 'quotient' divides"),
        (layer(Divide1, output=1), "layer 'quotient' is output 0 of 'quotient', not output 1"),
    ]
    for pattern, expected in rows:
        assert reason(pattern, named) == expected


def test_the_reason_is_that_of_the_attempt_that_got_furthest(x: Output) -> None:
    build = Builder()
    value = build.emit(Add1(), build.emit(Abs1(), build.emit(ReLU1(), x)), x)
    value.node.inputs[0].node.name = "abs"
    deep = layer(Add1, layer(Abs1, layer(Sigmoid1, anything())), anything())
    assert reason(deep, value) == "input 0 of layer 'abs' is made by ReLU, not by Sigmoid"


def test_inner_values_that_others_read(x: Output) -> None:
    build = Builder()
    inner = build.emit(Abs1(), x)
    outer = build.emit(ReLU1(), inner)
    inner.node.name, outer.node.name = "inner", "outer"
    pattern = layer(ReLU1, layer(Abs1, anything()))
    found = matched(pattern, outer)
    model_of([x.node], outer)
    found.check_private()
    model_of([x.node], outer, inner)
    with pytest.raises(NotMatched, match="layer 'inner' inside the pattern is also read by 'r1'"):
        found.check_private()


def test_nodes_of_a_failed_attempt_are_forgotten(x: Output) -> None:
    """Alternatives leave nothing behind: the same pattern object matches again."""
    build = Builder()
    value = build.emit(Add1(), build.emit(Abs1(), x), x)
    pattern = layer(Add1, layer(Abs1, anything("x")), anything("y"))
    first, second = matched(pattern, value), matched(pattern, value)
    assert first.nodes == second.nodes
    assert isinstance(first.node("x"), Node)


# --- formulas ---


X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def of(*shape: int | None, kind: str = "f32") -> Expression:
    return Expression(Builder(), graphs.parameter("x", *shape, kind=kind))


def check(x: Expression, result: Expression, expected: np.ndarray, data: np.ndarray = X) -> None:
    value = compile_model(graphs.model([x.value], {"y": result.value}))({"x": data})["y"]
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == expected.dtype


def test_sizes_are_constants_where_a_dimension_is_static() -> None:
    assert (of(3, None).size(0) * 2 + 1).elements() == [7]
    assert of(3, None).size(1).elements() is None


def test_a_single_unknown_size_follows_from_the_others() -> None:
    x = of(None, 4)
    reshaped = x.reshape(2, x.size(0), 2)
    assert isinstance(reshaped.value.node.op, Reshape1)
    constant = reshaped.value.node.inputs[1].type.constant
    assert constant is not None
    assert constant.tolist() == [2, -1, 2]


@pytest.mark.parametrize("output", [0, 1])
def test_a_loop_reads_values_and_constants_from_outside(output: int) -> None:
    x = of(None, 4)

    def step(number: Expression, total: Expression) -> list[Expression]:
        row = x.gather(number)
        return [total + row * 2, concat([row, total], 0)]

    before = 2 * np.cumsum(np.vstack([np.zeros((1, 4), X.dtype), X[:-1]]), 0)
    expected = (2 * X.sum(0), np.hstack([X, before]))[output]
    check(x, loop(x.size(0), [x.of(0).broadcast(4)], step)[output], expected)


def variable() -> Output:
    read = graphs.op("ReadValue", 6, variable_id="past", variable_type="f32", variable_shape=[2, 3, None, 4])
    return graphs.layer(read, graphs.parameter("start", 2, 3, 5, 4), name="past")


def moved(value: Output, name: str) -> Output:
    """The variable behind one more layer."""
    if name == "Gather":
        return graphs.layer(
            graphs.op("Gather", 8), value, graphs.constant([1, 0], "i64"), graphs.constant(0, "i64"), name="beams"
        )
    if name == "Concat":
        return graphs.layer(graphs.op("Concat", 1, axis=2), value, graphs.parameter("new", 2, 3, 1, 4), name="longer")
    if name == "Slice":
        places = [graphs.constant([number], "i64") for number in (1, 5, 1, 2)]
        return graphs.layer(graphs.op("Slice", 8), value, *places, name="window")
    return graphs.layer(
        graphs.op("VariadicSplit", 1), value, graphs.constant(2, "i64"), graphs.constant([4, -1], "i64"), name="parts"
    )


@pytest.mark.parametrize(
    ("names", "is_whole"),
    [
        (("Gather",), True), (("Gather", "Concat"), True), (("Slice",), False), (("Slice", "Concat"), False),
        (("VariadicSplit",), False),
    ],
)  # fmt: skip
def test_a_part_of_a_variable_is_no_cache(names: tuple[str, ...], is_whole: bool) -> None:
    past = value = variable()
    for name in names:
        value = moved(value, name)
    assert variable_behind(value) is (past.node if is_whole else None)
