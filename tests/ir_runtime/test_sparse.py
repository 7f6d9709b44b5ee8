"""The IR's operation on sparse tensors against OpenVINO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset16 as ops

import ir_runtime
from ir_runtime.graph.element_types import element_type
from ir_runtime.graph.operation import TensorType
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.operations.sparse import SparseFillEmptyRows16
from tests.ir_runtime.peers import check_inference, check_peers

PLACES = [[3, 1], [0, 3], [3, 0], [0, 1]]


@pytest.mark.parametrize("whole", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.float32, np.int32, np.float16])
@pytest.mark.parametrize(("dimensions", "places"), [([5, 6], PLACES), ([4, 4], PLACES), ([2, 2], [[0, 0], [1, 1]])])
def test_fill_empty_rows(kind: Any, whole: Any, dimensions: list[int], places: list[list[int]]) -> None:
    values = np.arange(1, len(places) + 1).astype(kind)
    nodes = [ops.parameter([-1], kind), ops.parameter([2], whole), ops.parameter([-1, 2], whole)]
    nodes.append(ops.parameter([], kind))
    feeds = [values, np.array(dimensions, whole), np.array(places, whole), np.array(9, kind)]
    check_peers(list(ops.sparse_fill_empty_rows(*nodes).outputs()), nodes, feeds)


def test_a_matrix_without_values() -> None:
    """OpenVINO's plug-in fails on that."""
    nothing = np.zeros((0, 2), np.int64)
    places, values, empty = SparseFillEmptyRows16().evaluate(
        np.zeros(0, np.float32), np.array([2, 3]), nothing, np.float32(7)[...]
    )
    assert places.tolist() == [[0, 0], [1, 0]]
    assert values.tolist() == [7, 7]
    assert empty.tolist() == [True, True]


@pytest.mark.parametrize(
    ("values", "dimensions", "places"),
    [
        ("[4]", [5, 6], "[4,2]"),
        ("[?]", [5, 6], "[4,2]"),
        ("[4]", None, "[4,2]"),
        ("[...]", [5, 6], "[...]"),
        ("[4]", [5, 6], PLACES),
        ("[4]", None, PLACES),
        ("[?]", [5, 6], PLACES),
        ("[0]", [3, 6], np.zeros((0, 2))),
        ("[0]", [0, 6], "[?,2]"),
    ],
)
def test_shapes(values: str, dimensions: list[int] | None, places: Any) -> None:
    nodes = [ops.parameter(openvino.PartialShape(values), np.float32), ops.parameter([], np.float32)]
    given = ops.parameter([2], np.int64) if dimensions is None else ops.constant(np.array(dimensions))
    if isinstance(places, str):
        where = ops.parameter(openvino.PartialShape(places), np.int64)
    else:
        where = ops.constant(np.array(places, np.int64))
    node = ops.sparse_fill_empty_rows(nodes[0], given, where, nodes[1])
    parameters = [*nodes, *(extra for extra in (given, where) if extra.get_type_name() == "Parameter")]
    check_inference(list(node.outputs()), parameters)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        (("f32[4]", "i64[2]", "i64[3,2]", "f32[]"), "number of values must agree"),
        (("f32[4]", "i64[2]", "i64[4,3]", "f32[]"), "number of dimensions must agree"),
        (("f32[4]", "i64[3]", "i64[4,2]", "f32[]"), "number of dimensions must agree"),
        (("f32[4]", "i64[2]", "i64[4,2]", "f32[1]"), "0 dimensions"),
        (("f32[4]", "i32[2]", "i64[4,2]", "f32[]"), "one element type"),
        (("f32[4]", "f32[2]", "f32[4,2]", "f32[]"), "must be integers"),
    ],
)
def test_contradictions(types: Sequence[str], message: str) -> None:
    made = []
    for spelled in types:
        kind, shape = spelled.split("[")
        made.append(TensorType(element_type(kind), PartialShape.parse("[" + shape)))
    with pytest.raises(ir_runtime.ModelError, match=message):
        SparseFillEmptyRows16().infer(made)


@pytest.mark.parametrize("dimensions", [[3, 6], [5, 3]])
def test_places_outside(dimensions: list[int]) -> None:
    with pytest.raises(ir_runtime.ModelError, match="outside a matrix"):
        SparseFillEmptyRows16().evaluate(np.ones(4), np.array(dimensions), np.array(PLACES), np.ones(()))
