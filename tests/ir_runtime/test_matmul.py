"""The IR's GroupedMatMul. OpenVINO's plug-in cannot run it: each group is multiplied by itself here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16, opset17

import ir_runtime
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.matmul import GroupedMatMul17
from tests.ir_runtime.peers import check_inference
from tests.random_data import generator

RNG = generator(16)


def numbers(kind: Any, *shape: int) -> np.ndarray:
    return (RNG.integers(-9, 10, shape) if np.dtype(kind).kind == "i" else RNG.standard_normal(shape)).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int32])
def test_groups_of_as_many_rows(kind: Any) -> None:
    a, b = numbers(kind, 3, 4, 5), numbers(kind, 3, 2, 5)
    wanted = [
        [[sum(float(x) * float(y) for x, y in zip(row, column)) for column in n] for row in m] for m, n in zip(a, b)
    ]
    found = GroupedMatMul17().evaluate(a, b)
    assert found.dtype == kind
    np.testing.assert_allclose(found, wanted, rtol=2e-3 if kind is np.float16 else 1e-5, atol=2e-3)


@pytest.mark.parametrize("kind", [np.float32, np.int32])
@pytest.mark.parametrize("ends", [[2, 5, 7], [0, 7, 7], [3, 3, 5], [0, 0, 0]])
def test_groups_of_rows(kind: Any, ends: list[int]) -> None:
    a, b = numbers(kind, 7, 5), numbers(kind, 3, 2, 5)
    wanted = np.zeros((7, 2))
    for row in range(7):
        group = sum(end <= row for end in ends)
        if group < 3:
            wanted[row] = [sum(float(x) * float(y) for x, y in zip(a[row], column)) for column in b[group]]
    found = GroupedMatMul17().evaluate(a, b, np.array(ends, np.int32))
    assert found.dtype == kind
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "shapes",
    [
        ("[6,3]", "[2,4,3]", "[2]"),
        ("[?,?]", "[2,4,3]", "[2]"),
        ("[...]", "[2,4,3]", "[2]"),
        ("[6,3]", "[...]", "[2]"),
        ("[6,3]", "[2,?,3]", "[...]"),
        ("[2,5,3]", "[2,4,3]"),
        ("[?,5,3]", "[2,?,?]"),
        ("[2..4,5,3]", "[1..3,?,?]"),
        ("[2,5,3]", "[2,4,3]", "[2]"),
    ],
)
def test_shapes(shapes: Sequence[str]) -> None:
    kinds = [np.float32, np.float32, np.int32]
    nodes = [opset16.parameter(openvino.PartialShape(shape), kind) for shape, kind in zip(shapes, kinds)]
    check_inference([opset17.grouped_matmul(*nodes)], nodes)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (("f32[6,3]", "f32[2,4,3]"), "third input"),
        (("f32[3,6]", "f32[4,6]", "i32[2]"), r"must be \[t, k\]"),
        (("f32[6]", "f32[2,4,3]", "i32[2]"), r"must be \[t, k\]"),
        (("f32[6,3]", "f32[2,4,3]", "i32[2,1]"), "must be a list"),
        (("f32[6,3]", "f32[2,4,3]", "f32[2]"), "i32 or i64"),
        (("f32[6,3]", "f16[2,4,3]", "i32[2]"), "one element type"),
        (("f32[2,5,3]", "f32[3,4,3]"), "as many groups"),
        (("f32[2,5,3]", "f32[2,3,4]"), "last dimension"),
    ],
)
def test_contradictions(types: Sequence[str], message: str) -> None:
    made = []
    for spelled in types:
        kind, shape = spelled.split("[")
        made.append(TensorType(element_type(kind), PartialShape.parse("[" + shape)))
    with pytest.raises(ir_runtime.ModelError, match=message):
        GroupedMatMul17().infer(made)


@pytest.mark.parametrize("ends", [[2, 8], [3, 2], [2], [-1, 3]])
def test_ends_that_cannot_be(ends: list[int]) -> None:
    with pytest.raises(ir_runtime.ModelError, match="cannot end at"):
        GroupedMatMul17().evaluate(numbers(np.float32, 7, 5), numbers(np.float32, 2, 2, 5), np.array(ends))
