"""ONNX's Det and BitCast through both engines, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, element_type_of, node_model, schema_types

RNG = np.random.default_rng(9)
SINGULAR = np.array([[[1, 2, 3], [2, 4, 6], [1, 1, 1]], [[0, 1, 0], [0, 0, 3], [2, 0, 0]]], np.float32)


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (2, 2), (5, 5), (2, 3, 3), (2, 1, 4, 4), (0, 3, 3)], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
def test_det(opset: int, shape: tuple[int, ...], dynamic: bool) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    shapes = {"x": [None] * (len(shape) - 1) + [shape[-1]]} if dynamic else None
    expected = np.asarray(np.linalg.det(x.astype(np.float64)), np.float32)
    check_node(node_model("Det", {"x": x}, opset=opset, shapes=shapes), {"x": x}, [expected])


def test_pivots_of_zero() -> None:
    check_node(node_model("Det", {"x": SINGULAR}, opset=11), {"x": SINGULAR}, [np.array([0, 6], np.float32)])


@pytest.mark.parametrize("dtype", schema_types("Det", 22), ids=str)
def test_types_of_det(dtype: np.dtype[Any]) -> None:
    x = RNG.standard_normal((2, 3, 3)).astype(dtype)
    expected = np.linalg.det(x.astype(np.float64)).astype(dtype)
    check_node(node_model("Det", {"x": x}, opset=22), {"x": x}, [expected])


@pytest.mark.parametrize(
    ("x", "shape", "message"),
    [
        (SINGULAR[0, 0], None, "must be square"),
        (SINGULAR[:, :2], None, "must be square"),
        (SINGULAR, [None, None, None], "must be known while converting"),
    ],
)
def test_refusals(x: np.ndarray, shape: Any, message: str) -> None:
    shapes = None if shape is None else {"x": shape}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("Det", {"x": x}, opset=11, shapes=shapes))


INTEGERS = np.array([0, 1, 2, 126, 127, 128, 129, 254, 255])


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_bits_of_integers(bits: int, signed: bool, constant: bool) -> None:
    unsigned = (INTEGERS if bits == 8 else INTEGERS * 257).astype(f"uint{bits}")
    x = unsigned.view(f"int{bits}") if signed else unsigned
    to = np.dtype(f"uint{bits}" if signed else f"int{bits}")
    check_bit_cast(x, to, constant)


@pytest.mark.parametrize("constant", [True, False])
def test_bits_of_booleans(constant: bool) -> None:
    check_bit_cast(np.array([True, False]), np.dtype(np.uint8), constant)


@pytest.mark.parametrize(
    ("given", "to"), [("float32", "int32"), ("int64", "float64"), ("uint32", "float32"), ("float16", "uint16")]
)
def test_bits_of_constants(given: str, to: str) -> None:
    check_bit_cast(np.array([0, 1, 2, 3], given), np.dtype(to), True)


def check_bit_cast(x: np.ndarray, to: np.dtype[Any], constant: bool) -> None:
    inputs, constants = ({}, {"x": x}) if constant else ({"x": x}, {})
    check_node(
        node_model("BitCast", inputs, constants=constants, attributes={"to": onnx_number(to)}, opset=26),
        inputs,
        [x.view(to)],
    )


def onnx_number(dtype: np.dtype[Any]) -> int:
    return next(n for n in range(1, 14) if n not in (8,) and element_type_of(n).dtype == dtype)


@pytest.mark.parametrize(
    ("given", "to", "message"),
    [("float32", "int32", "computed at execution"), ("float32", "int64", "f32 has 32 bits, but i64 has 64")],
)
def test_refusals_of_bit_cast(given: str, to: str, message: str) -> None:
    x = np.ones(3, given)
    model = node_model("BitCast", {"x": x}, attributes={"to": onnx_number(np.dtype(to))}, opset=26)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)
