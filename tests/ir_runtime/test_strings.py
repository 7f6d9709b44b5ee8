"""The IR's operations on strings against OpenVINO."""

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
from ir_runtime.operations.strings import StringTensorPack15, StringTensorUnpack15
from tests.ir_runtime.peers import check_inference, check_peers

STRING = openvino.Type.string
BYTES = np.frombuffer("aç€ z".encode(), np.uint8)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("begins", "ends"),
    [([0, 3], [3, 8]), ([0, 1, 1, 3], [1, 1, 3, 6]), ([0, 1], [3, 6]), ([[0], [6]], [[1], [7]]), (1, 3)],
)
def test_pack(kind: Any, begins: Any, ends: Any) -> None:
    places = [np.array(begins, kind), np.array(ends, kind)]
    nodes = [ops.parameter([-1] * places[0].ndim, kind) for _ in places] + [ops.parameter([-1], np.uint8)]
    check_peers([ops.string_tensor_pack(*nodes)], nodes, [*places, BYTES])


@pytest.mark.parametrize("texts", [["ab", "", "ç€"], [["x"], ["yz"]], [["", ""]]])
def test_unpack(texts: Any) -> None:
    array = np.array(texts, np.str_)
    x = ops.parameter([-1] * array.ndim, STRING)
    check_peers(list(ops.string_tensor_unpack(x).outputs()), [x], [array])


def test_no_texts() -> None:
    """OpenVINO's plug-in fails on those."""
    begins, ends, symbols = StringTensorUnpack15().evaluate(np.empty((0, 2), np.object_))
    assert begins.shape == ends.shape == (0, 2)
    assert symbols.shape == (0,)
    assert StringTensorPack15().evaluate(begins, ends, symbols).shape == (0, 2)


@pytest.mark.parametrize("shape", ["[2,3]", "[?,3]", "[...]", "[]", "[2..5]"])
def test_shapes_of_unpack(shape: str) -> None:
    x = ops.parameter(openvino.PartialShape(shape), STRING)
    check_inference(list(ops.string_tensor_unpack(x).outputs()), [x])


@pytest.mark.parametrize(
    "shapes",
    [
        ("[2,3]", "[2,3]", "[10]"),
        ("[?,3]", "[2,3]", "[?]"),
        ("[...]", "[2,3]", "[?]"),
        ("[...]", "[...]", "[...]"),
        ("[2..5]", "[3..8]", "[3]"),
    ],
)
def test_shapes_of_pack(shapes: Sequence[str]) -> None:
    kinds = [np.int32, np.int32, np.uint8]
    nodes = [ops.parameter(openvino.PartialShape(shape), kind) for shape, kind in zip(shapes, kinds)]
    check_inference([ops.string_tensor_pack(*nodes)], nodes)


@pytest.mark.parametrize(
    ("begins", "ends", "symbols", "message"),
    [
        ("i32[2]", "i32[3]", "u8[9]", "one shape"),
        ("i32[2]", "i64[2]", "u8[9]", "one element type"),
        ("f32[2]", "f32[2]", "u8[9]", "i32 or i64"),
        ("i32[2]", "i32[2]", "i8[9]", "must be u8"),
        ("i32[2]", "i32[2]", "u8[3,3]", "1 dimensions"),
    ],
)
def test_contradictions(begins: str, ends: str, symbols: str, message: str) -> None:
    types = []
    for spelled in (begins, ends, symbols):
        kind, shape = spelled.split("[")
        types.append(TensorType(element_type(kind), PartialShape.parse("[" + shape)))
    with pytest.raises(ir_runtime.ModelError, match=message):
        StringTensorPack15().infer(types)


def test_numbers_are_no_texts() -> None:
    with pytest.raises(ir_runtime.ModelError, match="must hold texts"):
        StringTensorUnpack15().infer([TensorType(element_type("f32"), PartialShape([2]))])


@pytest.mark.parametrize(("begins", "ends"), [([0], [9]), ([-1], [2]), ([2], [1]), ([6, 0], [7, 1]), ([0, 1], [3, 2])])
def test_places_that_cannot_be(begins: list[int], ends: list[int]) -> None:
    with pytest.raises(ir_runtime.ModelError, match="ascending order"):
        StringTensorPack15().evaluate(np.array(begins), np.array(ends), BYTES)
