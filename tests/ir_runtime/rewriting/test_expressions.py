"""Layers written as formulas, and which may stand between a variable and the attention that reads it as a cache."""

from __future__ import annotations

import numpy as np
import pytest

from ir_runtime import compile_model
from ir_runtime.graph.model import Output
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting.builder import Builder
from ir_runtime.rewriting.caches import variable_behind
from ir_runtime.rewriting.expressions import Expression, concat, loop, positions, where
from tests.converter.to_onnx.graphs import constant, layer, model, op, parameter

X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def of(*shape: int | None, kind: str = "f32") -> Expression:
    return Expression(Builder(), parameter("x", *shape, kind=kind))


def check(x: Expression, result: Expression, expected: np.ndarray, data: np.ndarray = X) -> None:
    value = compile_model(model([x.value], {"y": result.value}))({"x": data})["y"]
    np.testing.assert_array_equal(value, expected)
    assert value.dtype == expected.dtype


@pytest.mark.parametrize("shape", [(3, 4), (None, None)])
def test_operators_and_methods_emit_layers(shape: tuple[int | None, ...]) -> None:
    x = of(*shape)
    expected = np.where(X > 0, 1 - X, np.abs(X) / 2)
    check(x, where(x > 0, 1 - x, abs(x) / 2), expected)


def test_integers_are_divided_downwards_or_truncated() -> None:
    x, data = of(3, 4, kind="i64"), X.astype(np.int64)
    check(x, x // 4 + x % 4, data // 4 + data % 4, data)
    x = of(3, 4, kind="i64")
    check(x, x.truncated(4), np.trunc(data / 4).astype(np.int64), data)


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


def test_positions_count_from_zero() -> None:
    x = of(None, 4)
    check(x, positions(x.size(0)), np.arange(3))


def variable() -> Output:
    read = op("ReadValue", 6, variable_id="past", variable_type="f32", variable_shape=[2, 3, None, 4])
    return layer(read, parameter("start", 2, 3, 5, 4), name="past")


def moved(value: Output, name: str) -> Output:
    """The variable behind one more layer."""
    if name == "Gather":
        return layer(op("Gather", 8), value, constant([1, 0], "i64"), constant(0, "i64"), name="beams")
    if name == "Concat":
        return layer(op("Concat", 1, axis=2), value, parameter("new", 2, 3, 1, 4), name="longer")
    if name == "Slice":
        places = [constant([number], "i64") for number in (1, 5, 1, 2)]
        return layer(op("Slice", 8), value, *places, name="window")
    return layer(op("VariadicSplit", 1), value, constant(2, "i64"), constant([4, -1], "i64"), name="parts")


@pytest.mark.parametrize(
    ("names", "is_whole"),
    [
        (("Gather",), True),
        (("Gather", "Concat"), True),
        (("Slice",), False),
        (("Slice", "Concat"), False),
        (("VariadicSplit",), False),
    ],
)
def test_a_part_of_a_variable_is_no_cache(names: tuple[str, ...], is_whole: bool) -> None:
    past = value = variable()
    for name in names:
        value = moved(value, name)
    assert variable_behind(value) is (past.node if is_whole else None)
