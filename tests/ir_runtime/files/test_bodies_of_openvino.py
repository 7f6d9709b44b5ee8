"""If, Loop and TensorIterator: files that OpenVINO wrote, and its results."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino.opset16 as ops
import pytest
from openvino import Model, Type

import ir_runtime
from ir_runtime import PartialShape
from tests.engines import assert_close, run_numpy, run_openvino, written
from tests.random_data import generator

RNG = generator(17)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(outputs: list[Any], parameters: list[Any], feeds: list[np.ndarray]) -> tuple[bytes, bytes]:
    """Read what OpenVINO wrote, write it again, and compare both engines; return OpenVINO's file."""
    theirs = written(outputs, parameters)
    ours = ir_runtime.model_to_bytes(ir_runtime.read_model(*theirs))
    named: Any = dict(enumerate(feeds))
    expected = run_openvino(theirs, named)
    for actual in (run_numpy(theirs, named), run_numpy(ours, named), run_openvino(ours, named)):
        for value, want in zip(actual, expected, strict=True):
            assert_close(value, want)
    return theirs


def conditional(then_shape: list[int], else_shape: list[int]) -> tuple[list[Any], list[Any]]:
    c = ops.parameter([], Type.boolean)
    x, y = ops.parameter(then_shape, Type.f32), ops.parameter(else_shape, Type.f32)
    tx, ex = ops.parameter(then_shape, Type.f32), ops.parameter(else_shape, Type.f32)
    then_result, else_result = ops.result(ops.negative(tx)), ops.result(ops.exp(ex))
    node = ops.if_op(c.output(0))
    node.set_then_body(Model([then_result], [tx], "then"))
    node.set_else_body(Model([else_result], [ex], "else"))
    node.set_input(x.output(0), tx, None)
    node.set_input(y.output(0), None, ex)
    return [node.set_output(then_result, else_result)], [c, x, y]


@pytest.mark.parametrize("condition", [True, False])
@pytest.mark.parametrize("shapes", [([2, 3], [2, 3]), ([2, 3], [4, 3]), ([-1, 3], [2, -1])])
def test_if(condition: bool, shapes: tuple[list[int], list[int]]) -> None:
    outputs, parameters = conditional(*shapes)
    sizes = [[abs(n) if n > 0 else 2 for n in shape] for shape in shapes]
    check(outputs, parameters, [np.array(condition), normal(*sizes[0]), normal(*sizes[1])])


def loop(
    trips: int | None, limit: float, join: bool, part: int = 1, shape: tuple[int, ...] = (1, 2)
) -> tuple[list[Any], list[Any]]:
    """v doubles and gains the counter, while its greatest element is below ``limit``.

    Parameters: v, the condition to start with, and the trip count unless ``trips`` is it.
    """
    start = ops.parameter([], Type.boolean)
    x = ops.parameter(list(shape), Type.f32)
    count = ops.parameter([], Type.i64) if trips is None else ops.constant(np.array(trips))
    i, v = ops.parameter([], Type.i64), ops.parameter(list(shape), Type.f32)
    step = ops.add(ops.add(v, v), ops.convert(i, "f32"))
    going = ops.less(ops.reduce_max(step, np.array([0, 1]), False), np.float32(limit))
    state, condition = ops.result(step), ops.result(going)
    node = ops.loop(count.output(0), start.output(0))
    node.set_function(Model([condition, state], [i, v], "body"))
    node.set_special_body_ports([0, 0])
    node.set_merged_input(v, x.output(0), state.output(0))
    outputs = [node.get_iter_value(state.output(0), -1)]
    if join:
        outputs.append(node.get_concatenated_slices(state.output(0), 0, 1, part, -1, 0))
    return outputs, [x, start] if trips is not None else [x, start, count]


@pytest.mark.parametrize("trips", [0, 1, 4, -1])
@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("limit", [40.0, 1e9])
def test_loop(trips: int, start: bool, limit: float) -> None:
    limit = min(limit, 1e4) if trips < 0 else limit
    check(*loop(trips, limit, join=True), [np.array([[1.0, 3.0]], np.float32), np.array(start)])


def test_loop_whose_trips_are_given() -> None:
    outputs, parameters = loop(None, 1e9, join=True)
    check(outputs, parameters, [normal(1, 2), np.array(True), np.array(3)])


def test_loop_over_slices_with_an_invariant() -> None:
    x, k = ops.parameter([3, 2], Type.f32), ops.parameter([1, 2], Type.f32)
    row, factor = ops.parameter([1, 2], Type.f32), ops.parameter([1, 2], Type.f32)
    made = ops.result(ops.multiply(row, factor))
    condition = ops.result(ops.constant(np.array(True)))
    node = ops.loop(ops.constant(np.array(3)).output(0), ops.constant(np.array(True)).output(0))
    node.set_function(Model([condition, made], [row, factor], "body"))
    node.set_special_body_ports([-1, 0])
    node.set_sliced_input(row, x.output(0), 0, 1, 1, -1, 0)
    node.set_invariant_input(factor, k.output(0))
    check([node.get_concatenated_slices(made.output(0), 0, 1, 1, -1, 0)], [x, k], [normal(3, 2), normal(1, 2)])


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("static", [True, False])
def test_tensor_iterator(backwards: bool, part: int, static: bool) -> None:
    x, s = ops.parameter([2, 6 if static else -1, 3], Type.f32), ops.parameter([2, part, 3], Type.f32)
    piece, state = ops.parameter([2, part, 3], Type.f32), ops.parameter([2, part, 3], Type.f32)
    total = ops.result(ops.add(ops.multiply(state, np.float32(0.5)), piece))
    stride, start, end = (-part, -1, 0) if backwards else (part, 0, -1)
    node = ops.tensor_iterator()
    node.set_function(Model([total], [piece, state], "body"))
    node.set_sliced_input(piece, x.output(0), start, stride, part, end, 1)
    node.set_merged_input(state, s.output(0), total.output(0))
    outputs = [
        node.get_iter_value(total.output(0), -1),
        node.get_concatenated_slices(total.output(0), start, stride, part, end, 1),
    ]
    model = ir_runtime.read_model(*check(outputs, [x, s], [normal(2, 6, 3), normal(2, part, 3)]))
    for found, wanted in zip(model.outputs, outputs, strict=True):
        assert str(found.element_type) == wanted.get_element_type().get_type_name()
        assert found.shape == PartialShape.parse(str(wanted.get_partial_shape()))


def test_nested_bodies() -> None:
    """A Loop within a branch of an If."""
    c, x = ops.parameter([], Type.boolean), ops.parameter([1, 2], Type.f32)
    inner, parameters = loop(3, 1e9, join=False)
    then_result = ops.result(inner[0])
    ex = ops.parameter([1, 2], Type.f32)
    else_result = ops.result(ops.sqrt(ops.abs(ex)))
    node = ops.if_op(c.output(0))
    node.set_then_body(Model([then_result], parameters, "then"))
    node.set_else_body(Model([else_result], [ex], "else"))
    node.set_input(x.output(0), parameters[0], ex)
    node.set_input(c.output(0), parameters[1], None)
    out = node.set_output(then_result, else_result)
    for condition in (True, False):
        check([out], [c, x], [np.array(condition), normal(1, 2)])


def test_errors_name_the_layer_in_the_body() -> None:
    theirs = written(*conditional([2, 3], [2, 3]))
    broken = theirs[0].replace(b'external_port_id="2"', b'external_port_id="9"', 1)
    with pytest.raises(ir_runtime.ModelError, match="names input 9 of 3"):
        ir_runtime.read_model(broken, theirs[1])
