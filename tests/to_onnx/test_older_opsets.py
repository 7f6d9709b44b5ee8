"""What later opsets have operators for, said in opset 13."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from ir_runtime import Model, compile_model
from ir_runtime.graph import element_types
from ir_runtime.graph.model import InputMap, Output, OutputMap, SubGraph
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.operations.control_flow import If8
from ir_runtime.operations.inputs_outputs import Result1
from tests.to_onnx.graphs import check, constant, layer, model, op, operators, parameter, run

INTEGERS = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]


def exactly(ir: Model, feeds: dict[str, Any], opset: int) -> None:
    """The exported model gives every element of what the IR gives."""
    found, expected = run(converter.export_model(ir, opset=opset), feeds), compile_model(ir)(feeds)
    for name, value in found.items():
        assert value.shape == expected[name].shape
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("opset", [13, 17, 18])
@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("name", ["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
def test_bits(name: str, kind: str, opset: int) -> None:
    element = element_types.element_type(kind)
    least, most = element.limits
    values = np.array([least, most, 0, 1, most // 3, most - 1], element.dtype)
    sources = [parameter("a", None, 1, kind=kind), parameter("b", None, kind=kind)][: 1 if name == "BitwiseNot" else 2]
    ir = model(sources, {"y": layer(op(name, 13), *sources, name="bits")})
    exactly(ir, {"a": values[:, None], "b": values} if len(sources) > 1 else {"a": values[:, None]}, opset)


@pytest.mark.parametrize("opset", [13, 16, 18])
@pytest.mark.parametrize("kind", ["i32", "i64", "i8", "f16", "boolean"])
@pytest.mark.parametrize("own", [True, False], ids=["with the data", "without"])
@pytest.mark.parametrize("reduction", ["sum", "prod", "min", "max", "mean"])
@pytest.mark.parametrize("axis", [0, -1])
def test_elements_that_are_updated_several_times(axis: int, reduction: str, own: bool, kind: str, opset: int) -> None:
    if kind == "boolean" and reduction == "mean":
        pytest.skip("booleans have no mean")
    dtype = element_types.element_type(kind).dtype
    random = np.random.default_rng(0)
    x, places, changes = (parameter(name, None, None, kind=one) for name, one in zip("xiu", (kind, "i64", kind)))
    operation = op("ScatterElementsUpdate", 12, reduction=reduction, use_init_val=own)
    ir = model([x, places, changes], {"y": layer(operation, x, places, changes, constant(axis, "i64"), name="scatter")})
    high = 2 if kind == "boolean" else 5
    for shape in ((3, 4), (5, 6), (0, 6)):
        feeds = {
            "x": random.integers(0, high, (6, 7)).astype(dtype),
            "i": random.integers(-3, 3, shape),
            "u": random.integers(0, high, shape).astype(dtype),
        }
        exactly(ir, feeds, opset)


@pytest.mark.parametrize("opset", [13, 16, 18])
@pytest.mark.parametrize("kind", ["f32", "f16", "u8"])
@pytest.mark.parametrize("reduction", ["sum", "sub", "prod", "min", "max"])
@pytest.mark.parametrize("shape", [(4, 1), (2, 3, 2), (2, 3), (0, 2), (3,)], ids=str)
def test_rows_that_are_updated_several_times(shape: tuple[int, ...], reduction: str, kind: str, opset: int) -> None:
    random, dtype = np.random.default_rng(0), element_types.element_type(kind).dtype
    x = parameter("x", None, None, 2, kind=kind)
    changes = parameter("u", *[None] * (len(shape) + 2 - shape[-1]), kind=kind)
    places = parameter("i", *[None] * (len(shape) - 1), shape[-1], kind="i64")
    operation = op("ScatterNDUpdate", 15, reduction=reduction)
    ir = model([x, places, changes], {"y": layer(operation, x, places, changes, name="scatter")})
    data = random.integers(0, 5, (3, 4, 2)).astype(dtype)
    indices = random.integers(0, 2, shape)
    updates = random.integers(0, 5, (*shape[:-1], *data.shape[shape[-1] :])).astype(dtype)
    exactly(ir, {"x": data, "i": indices, "u": updates}, opset)


@pytest.mark.parametrize("opset", [13, 14])
@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((2, 6), [3, 4]),
        ((2, 6), [12]),
        ((2, 6), [3, -1]),
        ((3, 0), [0, 0]),
        ((3, 0), [0, 3]),
        ((0, 3), [5, 0]),
        ((3, 0), [2, 0, 7]),
        ((0, 3), [0]),
        ((2, 0), [0, 1, 0, 4]),
    ],
)
def test_a_shape_that_may_have_zeros(shape: tuple[int, ...], target: list[int], opset: int) -> None:
    x, sizes = parameter("x", *[None] * len(shape)), parameter("shape", len(target), kind="i64")
    ir = model([x, sizes], {"y": layer(op("Reshape", 1, special_zero=False), x, sizes, name="reshape")})
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    exactly(ir, {"x": values, "shape": np.array(target)}, opset)


@pytest.mark.parametrize("kind", ["f32", "i64", "boolean"])
def test_a_constant_shape_with_a_zero(kind: str) -> None:
    x = parameter("x", None, None, kind=kind)
    reshaped = layer(op("Reshape", 1, special_zero=False), x, constant([0, 4], "i64"), name="reshape")
    exactly(model([x], {"y": reshaped}), {"x": np.zeros((3, 0), x.element_type.dtype)}, 13)


def test_a_shape_whose_zeros_are_those_of_the_data_is_plain() -> None:
    x = parameter("x", None, None, 6)
    shape = layer(op("ShapeOf", 3, output_type="i64"), x, name="shape")
    lead = layer(op("Gather", 8), shape, constant([0, 1], "i64"), constant(0, "i64"), name="lead")
    target = layer(op("Concat", 1, axis=0), lead, constant([2, 3], "i64"), name="target")
    ir = model([x], {"y": layer(op("Reshape", 1, special_zero=False), x, target, name="reshape")})
    for lengths in ((2, 3), (0, 3), (2, 0)):
        values = np.arange(np.prod(lengths) * 6, dtype=np.float32).reshape(*lengths, 6)
        exactly(ir, {"x": values}, 13)
    assert operators(converter.export_model(ir, opset=13)).count("Reshape") == 1


def branch(flat: bool) -> SubGraph:
    inside: Output = parameter("inside", None, None)
    result = layer(op("ReLU"), inside, name="relu")
    if flat:
        result = layer(op("Reshape", 1, special_zero=False), inside, constant([-1], "i64"), name="flat")
    body = Model("branch", [inside.node], [make_node(Result1(), [result])])
    return SubGraph(body, (InputMap(1, 0),), (OutputMap(0, 0),))


@pytest.mark.parametrize("opset", [13, None])
def test_branches_of_two_ranks(opset: int | None) -> None:
    x, condition = parameter("x", None, None), parameter("condition", kind="boolean")
    chosen = make_node(If8(bodies=(branch(False), branch(True))), [condition, x], "chosen").outputs[0]
    assert not chosen.shape.has_rank
    whole = layer(op("Reshape", 1, special_zero=False), chosen, constant([2, -1], "i64"), name="whole")
    shape = layer(op("ShapeOf", 3, output_type="i64"), chosen, name="shape")
    ir = model([x, condition], {"y": whole, "shape": shape})
    for holds in (True, False):
        check(ir, {"x": np.ones((4, 3), np.float32), "condition": np.array(holds)}, opset=opset)
