"""Compressed weights: which the plug-in keeps, and that scales and zero points of any shape give the right numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ir_runtime
from converter.targets.registry import openvino_cpu
from ir_runtime.graph import element_types
from ir_runtime.graph.model import Model, Output
from ir_runtime.graph.shape_inference import make_node
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.indexing import Gather8
from ir_runtime.operations.inputs_outputs import Parameter1, Result1
from ir_runtime.operations.matmul import MatMul1
from ir_runtime.operations.movement import Reshape1
from ir_runtime.rewriting import layers
from ir_runtime.rewriting.builder import Builder
from tests.engines import assert_close, run_numpy, run_openvino
from tests.random_data import generator

RULE = "scales_of_compressed_weights"
ROWS, COLUMNS = 24, 40
STAY = [
    # stored weights, scale, zero point
    ([ROWS, COLUMNS], [], None),
    ([ROWS, COLUMNS], [1, 1], [1, 1]),
    ([ROWS, COLUMNS], [ROWS, 1], None),
    ([ROWS, COLUMNS], [ROWS, 1], [ROWS, 1]),
    ([ROWS, COLUMNS], [ROWS, 1], [1]),
    ([ROWS, 5, 8], [ROWS, 5, 1], [ROWS, 5, 1]),
    ([ROWS, 5, 8], [ROWS, 5, 1], [1, 1, 1]),
    ([ROWS, 5, 8], [ROWS, 1, 1], None),
    ([ROWS, 20, 2], [ROWS, 20, 1], None),
]
"""What the plug-in reads correctly, for products and tables."""
CHANGE = [
    ([ROWS, COLUMNS], [1, COLUMNS], None),
    ([ROWS, COLUMNS], [COLUMNS], [COLUMNS]),
    ([ROWS, COLUMNS], [ROWS, 1], [1, COLUMNS]),
    ([ROWS, 5, 8], [1, 5, 1], None),
    ([ROWS, 5, 8], [ROWS, 1, 8], None),
    ([ROWS, 5, 8], [ROWS, 5, 1], [1, 5, 1]),
]
PRODUCTS_CHANGE = [
    ([ROWS, COLUMNS], [ROWS, COLUMNS], None),
    ([ROWS, COLUMNS], [ROWS, 1], [ROWS, COLUMNS]),
    ([ROWS, 8, 5], [ROWS, 8, 1], None),
]
"""Scales of tables of these shapes are right."""


def stored(builder: Builder, shape: list[int], transposed: bool) -> Output:
    values = generator(3).integers(0, 16, shape)
    if transposed:
        values = np.moveaxis(values, 0, -1)
    return builder.constant(values.astype(ml_dtypes.uint4), element_types.u4)


def reading(shape: list[int], scale: list[int], zero: list[int] | None, reader: str, transposed: bool = False) -> Model:
    """A product with weights [24, 40], stored by columns where ``transposed``, or a look-up in them."""
    r, builder = generator(4), Builder()
    f32 = element_types.f32

    def factor(dimensions: list[int], values: Any) -> Any:
        rows_first = np.reshape(values, (*[1] * (len(shape) - len(dimensions)), *dimensions)).astype(np.float32)
        return np.moveaxis(rows_first, 0, -1) if transposed else rows_first

    weights = layers.in_type(builder, stored(builder, shape, transposed), f32)
    if zero is not None:
        weights = layers.subtract(builder, weights, builder.constant(factor(zero, r.integers(0, 16, zero)), f32))
    weights = layers.multiply(builder, weights, builder.constant(factor(scale, r.uniform(0.1, 1, scale)), f32))
    if len(shape) == 3:
        flat = [COLUMNS, ROWS] if transposed else [ROWS, COLUMNS]
        weights = builder.emit(Reshape1(special_zero=False), weights, builder.constant(flat))
    if reader == "MatMul":
        op, data = MatMul1(transpose_b=not transposed), Parameter1(element_type=f32, shape=PartialShape([-1, COLUMNS]))
    else:
        op, data = Gather8(), Parameter1(element_type=element_types.i64, shape=PartialShape([-1]))
    x = make_node(data, (), "x")
    x.outputs[0].names = ["x"]
    if reader == "MatMul":
        y = builder.emit(op, x.outputs[0], weights)
    else:
        y = builder.emit(op, weights, x.outputs[0], builder.constant(0))
    y.names = ["y"]
    for place, node in enumerate(builder.emitted):
        node.name = f"layer {place}"
    return Model("m", [x], [make_node(Result1(), [y], "result")])


def check(model: Model, reader: str, changes: bool) -> None:
    feeds = {"x": generator(5).normal(size=(3, COLUMNS)).astype(np.float32) if reader == "MatMul" else np.array([0, 7])}
    (expected,) = run_numpy(ir_runtime.model_to_bytes(model), feeds)
    assert openvino_cpu.run(model).get(RULE, 0) == changes
    (actual,) = run_openvino(ir_runtime.model_to_bytes(model), feeds)
    assert_close(actual, expected)


@pytest.mark.parametrize("reader", ["MatMul", "MatMul by columns", "Gather"])
@pytest.mark.parametrize(("shape", "scale", "zero"), STAY)
def test_usual_scales_stay(shape: list[int], scale: list[int], zero: list[int] | None, reader: str) -> None:
    model = reading(shape, scale, zero, reader.split()[0], reader.endswith("columns"))
    check(model, reader.split()[0], False)


@pytest.mark.parametrize("reader", ["MatMul", "MatMul by columns", "Gather"])
@pytest.mark.parametrize(("shape", "scale", "zero"), CHANGE)
def test_other_scales_change(shape: list[int], scale: list[int], zero: list[int] | None, reader: str) -> None:
    model = reading(shape, scale, zero, reader.split()[0], reader.endswith("columns"))
    check(model, reader.split()[0], True)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("shape", "scale", "zero"), PRODUCTS_CHANGE)
def test_scales_of_products_change(
    shape: list[int], scale: list[int], zero: list[int] | None, transposed: bool
) -> None:
    check(reading(shape, scale, zero, "MatMul", transposed), "MatMul", True)


@pytest.mark.parametrize(("shape", "scale", "zero"), PRODUCTS_CHANGE)
def test_the_same_scales_of_tables_stay(shape: list[int], scale: list[int], zero: list[int] | None) -> None:
    check(reading(shape, scale, zero, "Gather"), "Gather", False)
