"""Dimensions that follow from values with known bounds, against dimensions computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ir_runtime.graph.element_types import f32, i64
from ir_runtime.graph.operation import TensorType, find_operation
from ir_runtime.graph.shape_inference import infer_types
from ir_runtime.graph.shapes import PartialShape
from ir_runtime.graph.tensor import Tensor
from ir_runtime.graph.value_ranges import Bounds

ENDLESS = 2**63 - 1
UNKNOWN = (-ENDLESS - 1, ENDLESS)


def data(shape: str) -> TensorType:
    return TensorType(f32, PartialShape.parse(shape))


def numbers(*ends: tuple[int, int]) -> TensorType:
    lower, upper = np.array(ends, np.int64).reshape(-1, 2).T
    return TensorType(i64, PartialShape([len(ends)]), None, Bounds(lower, upper))


def number(low: int, high: int) -> TensorType:
    return TensorType(i64, PartialShape(()), None, Bounds(np.array(low), np.array(high)))


def known(*values: int) -> TensorType:
    array = np.array(values, np.int64)
    return TensorType(i64, PartialShape(array.shape), Tensor.from_array(array))


def scalar(value: int) -> TensorType:
    return TensorType(i64, PartialShape(()), Tensor.from_array(np.array(value)))


@pytest.mark.parametrize(
    ("name", "opset", "attributes", "inputs", "expected"),
    [
        ("Range", 4, {"output_type": "i64"}, [scalar(0), number(1, 512), scalar(1)], "1..512"),
        ("Range", 4, {"output_type": "f32"}, [number(0, 2), number(4, 9), scalar(2)], "1..5"),
        ("Range", 1, {}, [number(4, 9), number(0, 2), scalar(-2)], "1..5"),
        ("Range", 1, {}, [scalar(3), number(0, ENDLESS), scalar(1)], "?"),
        ("Range", 1, {}, [scalar(3), number(7, ENDLESS), scalar(3)], "2.."),
        ("Range", 1, {}, [number(0, ENDLESS), scalar(10), scalar(2)], "..5"),
        ("Range", 1, {}, [scalar(0), number(*UNKNOWN), scalar(1)], "?"),
        ("Range", 1, {}, [scalar(0), scalar(9), number(1, 2)], "?"),
        ("TopK", 11, {"axis": 1}, [data("2,5..8"), number(3, 7)], "2,3..7"),
        ("TopK", 11, {"axis": 1}, [data("2,5"), number(-4, 7)], "2,..5"),
        ("TopK", 11, {"axis": 1}, [data("2,?"), number(*UNKNOWN)], "2,?"),
        ("VariadicSplit", 1, {}, [data("9,?"), scalar(0), numbers((1, 3), (4, ENDLESS))], "1..3,?"),
        ("VariadicSplit", 1, {}, [data("9,?"), scalar(0), numbers((-1, 3), (4, 9))], "..9,?"),
        ("Reshape", 1, {"special_zero": False}, [data("?,12"), numbers((0, ENDLESS), (3, 3), (4, 4))], "?,3,4"),
        ("Reshape", 1, {"special_zero": False}, [data("2..5,3,4"), known(-1, 6)], "4..10,6"),
        ("Reshape", 1, {"special_zero": True}, [data("7,12"), numbers((0, 3), (-1, -1))], "..7,12..84"),
        ("Reshape", 1, {"special_zero": False}, [data("?,12"), numbers((-1, 5), (6, 6))], "?,6"),
        # With [0, -1] it is [0, 12], with [2, -1] it is [2, 0].
        ("Reshape", 1, {"special_zero": True}, [data("0,12"), numbers((-1, 3), (-1, -1))], "?,?"),
        ("Broadcast", 3, {"mode": "numpy"}, [data("1,3"), numbers((0, ENDLESS), (3, 3))], "?,3"),
        ("Broadcast", 3, {"mode": "bidirectional"}, [data("2..4,1"), numbers((1, 1), (1, 6))], "2..4,1..6"),
        ("Tile", 1, {}, [data("3,2..4"), numbers((0, 2), (2, ENDLESS))], "..6,4.."),
        ("OneHot", 16, {"axis": -1}, [known(1, 2), number(3, 6), scalar(1), scalar(0)], "2,3..6"),
        ("Slice", 8, {}, [data("?,6"), numbers((-3, -2)), known(ENDLESS), known(1), known(0)], "..3,6"),
        ("Slice", 8, {}, [data("?,6"), known(0), numbers((1, 4)), known(1), known(1)], "?,1..4"),
        ("Slice", 8, {}, [data("8,6"), known(0), numbers((-2, ENDLESS)), known(1), known(0)], "..8,6"),
        (
            "StridedSlice",
            1,
            {"begin_mask": [], "end_mask": []},
            [data("3,4,5"), known(0, 0), known(2, 2), numbers(UNKNOWN, UNKNOWN)],
            "..3,..4,5",
        ),
        ("Pad", 12, {}, [data("?,6"), numbers((0, 2), (-1, 1)), numbers((1, 1), (0, ENDLESS))], "1..,5.."),
    ],
)
def test_dimensions(name: str, opset: int, attributes: dict[str, Any], inputs: list[TensorType], expected: str) -> None:
    found = infer_types(find_operation(name, opset)(**attributes), inputs)
    assert found[0].shape == PartialShape.parse(expected)
