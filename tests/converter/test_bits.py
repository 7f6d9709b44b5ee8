"""ONNX's BitCast through both engines, against NumPy's view of the same bytes."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import converter
from tests.engines import check_node, converted, element_type_of, node_model, run
from tests.random_data import generator

INTEGERS = np.array([[0, 1, 127], [128, 254, 255]])
RNG = generator(10)


def onnx_number(dtype: np.dtype[Any]) -> int:
    return next(n for n in range(1, 25) if n not in (8, 14, 15, 18, 20) and element_type_of(n).dtype == dtype)


def check_bit_cast(x: np.ndarray, to: Any, constant: bool = False, **more: Any) -> None:
    inputs, constants = ({}, {"x": x}) if constant else ({"x": x}, {})
    attributes = {"to": onnx_number(np.dtype(to))}
    model = node_model("BitCast", inputs, constants=constants, attributes=attributes, opset=26, **more)
    check_node(model, inputs, [x.view(to)])


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("constant", [True, False])
def test_bits_of_integers(bits: int, signed: bool, constant: bool) -> None:
    unsigned = (INTEGERS if bits == 8 else INTEGERS * 257).astype(f"uint{bits}")
    x = unsigned.view(f"int{bits}") if signed else unsigned
    check_bit_cast(x, f"uint{bits}" if signed else f"int{bits}", constant)


@pytest.mark.parametrize("signed", [True, False])
def test_bits_of_wide_integers(signed: bool) -> None:
    x = np.array([0, 1, (1 << 24) + 1, (1 << 31) - 1, 1 << 31, (1 << 31) + (1 << 24) + 1, (1 << 32) - 1], np.uint32)
    check_bit_cast(x.view(np.int32) if signed else x, np.uint32 if signed else np.int32)
    # What lies beyond 32 bits is beyond the plug-in, too.
    y = np.array([0, 1, -1, -5, (1 << 31) - 1, -(1 << 31)])
    check_bit_cast(y if signed else y.view(np.uint64), np.uint64 if signed else np.int64)


@pytest.mark.parametrize("constant", [True, False])
def test_bits_of_booleans(constant: bool) -> None:
    check_bit_cast(np.array([True, False]), np.uint8, constant)


@pytest.mark.parametrize(
    ("given", "to"), [("float32", "int32"), ("int64", "float64"), ("uint32", "float32"), ("float16", "uint16")]
)
def test_bits_of_constants(given: str, to: str) -> None:
    check_bit_cast(np.array([0, 1, 2, 3], given), to, True)


EVERY = np.arange(1 << 16, dtype=np.uint16)
WORDS = np.concatenate(
    [
        np.array([0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x3F800000, 0x3F7FFFFF], np.uint32),
        np.array([0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32),
        (np.arange(1, 255, dtype=np.uint32) << 23) | RNG.integers(0, 1 << 23, 254, dtype=np.uint32),
        RNG.integers(0, 1 << 23, 50, dtype=np.uint32),
    ]
)


@pytest.mark.parametrize("to", [np.int16, np.uint16])
@pytest.mark.parametrize("given", [np.float16, ml_dtypes.bfloat16])
def test_bits_of_every_small_float(given: Any, to: Any) -> None:
    x = EVERY.view(given)
    with np.errstate(invalid="ignore"):
        check_bit_cast(x[~np.isnan(x)], to)


@pytest.mark.parametrize("given", [np.int16, np.uint16])
@pytest.mark.parametrize("to", [np.float16, ml_dtypes.bfloat16])
def test_every_small_float_of_its_bits(given: Any, to: Any) -> None:
    x = EVERY.view(given)
    model = node_model("BitCast", {"x": x}, attributes={"to": onnx_number(np.dtype(to))}, opset=26)
    ir = converted(model)
    wanted = x.view(to)
    for engine in ("numpy", "openvino"):
        (found,) = run(engine, ir, {"x": x})
        with np.errstate(invalid="ignore"):
            number = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.isnan(found), ~number)
        if engine == "openvino" and to is ml_dtypes.bfloat16:
            # Without AVX-512 the plug-in converts by float32, where small ones are denormal: they become 0, as does -0.
            number &= np.abs(wanted.astype(np.float32)) >= np.finfo(np.float32).tiny
        # Zeros differ in their bits alone.
        np.testing.assert_array_equal(found.view(np.uint16)[number], EVERY[number])


BYTES = np.arange(256, dtype=np.uint8)
SMALL_FLOATS = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu]


@pytest.mark.parametrize("whole", [np.uint8, np.int8])
@pytest.mark.parametrize("kind", SMALL_FLOATS)
def test_floats_of_8_bits(kind: Any, whole: Any) -> None:
    x = BYTES.view(kind)
    is_number = ~np.isnan(x.astype(np.float32))
    check_bit_cast(x[is_number], whole)
    check_bit_cast(BYTES[is_number].view(whole), kind)


def test_from_float_to_float() -> None:
    check_bit_cast(np.arange(-60, 60, dtype=np.int8).view(ml_dtypes.float8_e4m3fn), ml_dtypes.float8_e5m2)
    check_bit_cast(EVERY[:31000:7].view(np.float16), ml_dtypes.bfloat16)
    check_bit_cast(EVERY[:31000:7].view(ml_dtypes.bfloat16), np.float16)


NIBBLES = np.arange(16, dtype=np.uint8)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("given", "to"), list(itertools.permutations(["uint4", "int4", "float4_e2m1fn"], 2)))
def test_four_bits(given: str, to: str, constant: bool) -> None:
    of = {
        "uint4": NIBBLES.astype(ml_dtypes.uint4),
        "int4": ((NIBBLES.astype(np.int8) ^ 8) - 8).astype(ml_dtypes.int4),
        "float4_e2m1fn": NIBBLES.view(ml_dtypes.float4_e2m1fn),
    }
    x, wanted = of[given], of[to]
    inputs, constants = ({}, {"x": x}) if constant else ({"x": x}, {})
    attributes = {"to": onnx_number(wanted.dtype)}
    model = node_model("BitCast", inputs, constants=constants, attributes=attributes, opset=26)
    check_node(model, inputs, [wanted])


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_bytes_as_booleans(kind: Any) -> None:
    x = np.array([0, 1, 2, 100], kind)
    model = node_model("BitCast", {"x": x}, attributes={"to": onnx_number(np.dtype(bool))}, opset=26)
    check_node(model, {"x": x}, [x != 0])


@pytest.mark.parametrize("sign", [0, 1 << 31])
@pytest.mark.parametrize("kind", [np.int32, np.uint32])
def test_bits_of_float32(kind: Any, sign: int) -> None:
    words = WORDS | np.uint32(sign)
    numbers = words[~np.isnan(words.view(np.float32))]
    check_bit_cast(numbers.view(np.float32), kind)
    model = node_model("BitCast", {"x": words.view(kind)}, attributes={"to": 1}, opset=26)
    ir = converted(model)
    for engine in ("numpy", "openvino"):
        (found,) = run(engine, ir, {"x": words.view(kind)})
        np.testing.assert_array_equal(np.isnan(found), np.isnan(words.view(np.float32)))
        is_number = ~np.isnan(found)
        np.testing.assert_array_equal(found.view(np.uint32)[is_number], words[is_number])


@pytest.mark.parametrize(("given", "to"), [("float32", "int32"), ("float16", "int16"), ("float32", "uint32")])
def test_nan_has_the_bits_of_the_usual_one(given: str, to: str) -> None:
    check_bit_cast(np.array([np.nan, 1.0], given), to)


@pytest.mark.parametrize(("given", "to"), [("float32", "int32"), ("int32", "float32"), ("float16", "uint16")])
@pytest.mark.parametrize("shape", [(), (2, 1, 3), (0, 4)])
def test_shapes(given: str, to: str, shape: tuple[int, ...]) -> None:
    x = RNG.integers(-100, 100, shape).astype(given)
    check_bit_cast(x, to)
    check_bit_cast(x, to, shapes={"x": [None] * len(shape)})


@pytest.mark.parametrize(
    ("given", "to", "message"),
    [
        ("float64", "int64", "computes with 32 bits"),
        ("int64", "float64", "computes with 32 bits"),
        ("float32", "int64", "f32 has 32 bits, but i64 has 64"),
    ],
)
def test_refusals(given: str, to: str, message: str) -> None:
    x = np.ones(3, np.dtype(given))
    model = node_model("BitCast", {"x": x}, attributes={"to": onnx_number(np.dtype(to))}, opset=26)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)
