"""GatherBlockQuantized against onnxruntime, and against NumPy where onnxruntime refuses or reads other numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model
from tests.random_data import generator

RNG = generator(17)


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Numbers along the last dimension in bytes, the first in the lowest bits."""
    per = 8 // bits
    longer = np.zeros((*values.shape[:-1], -(-values.shape[-1] // per) * per), np.uint8)
    longer[..., : values.shape[-1]] = values
    parts = longer.reshape(*longer.shape[:-1], -1, per) << (np.arange(per) * bits).astype(np.uint8)
    return np.bitwise_or.reduce(parts, -1)


def expected(data: Any, scales: Any, zero: Any, indices: Any, size: int, axis: int, quantized: int) -> np.ndarray:
    real = data.astype(np.float32)
    blocks = np.arange(data.shape[quantized]) // size
    if np.ndim(zero):
        zero = np.take(zero.astype(np.float32), blocks, quantized)
    table = (real - zero) * np.take(scales.astype(np.float32), blocks, quantized)
    return np.take(table, indices, axis)


KINDS = {"int4": (ml_dtypes.int4, -8, 8), "uint4": (ml_dtypes.uint4, 0, 16), "uint8": (np.uint8, 0, 256)}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("with_zero", [False, True])
@pytest.mark.parametrize("scale_type", [np.float32, np.float16, ml_dtypes.bfloat16], ids=["f32", "f16", "bf16"])
def test_whole_numbers(kind: str, with_zero: bool, scale_type: Any) -> None:
    dtype, low, high = KINDS[kind]
    data, zero = (RNG.integers(low, high, shape) for shape in ((6, 48), (6, 3)))
    scales = RNG.uniform(0.1, 1, (6, 3)).astype(scale_type)
    indices = np.array([[1, 5], [-2, 0]], np.int64)
    middle = 128 if kind == "uint8" else 0
    wanted = expected(data, scales, zero if with_zero else middle, indices, 16, 0, 1).astype(scale_type)
    constants = {"data": data.astype(dtype), "scales": scales} | ({"zero": zero.astype(dtype)} if with_zero else {})
    model = node_model(
        "GatherBlockQuantized",
        {"indices": indices},
        constants=constants,
        order=["data", "indices", "scales", *(["zero"] if with_zero else [])],
        attributes={"block_size": 16, "bits": 8 if kind == "uint8" else 4},
        opset=1,
        domain="com.microsoft",
        shapes={"indices": ["n", None]},
    )
    check_node(model, {"indices": indices}, [wanted])


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("with_zero", [False, True])
def test_packed_bytes(bits: int, with_zero: bool) -> None:
    data, zero = (RNG.integers(0, 1 << bits, shape) for shape in ((6, 48), (6, 3)))
    scales = RNG.uniform(0.1, 1, (6, 3)).astype(np.float32)
    indices = np.array([4, -1, 0], np.int32)
    wanted = expected(data, scales, zero if with_zero else 1 << (bits - 1), indices, 16, 0, 1)
    constants = {"data": packed(data, bits), "scales": scales} | ({"zero": packed(zero, bits)} if with_zero else {})
    model = node_model(
        "GatherBlockQuantized",
        {"indices": indices},
        constants=constants,
        order=["data", "indices", "scales", *(["zero"] if with_zero else [])],
        attributes={"block_size": 16, "bits": bits},
        opset=1,
        domain="com.microsoft",
    )
    check_node(model, {"indices": indices}, [wanted])
    check_node(model, {"indices": indices})


@pytest.mark.parametrize(
    ("axis", "quantized", "shape"), [(1, 0, (20, 5)), (-1, 1, (3, 32, 4)), (0, -2, (5, 32, 3)), (2, 0, (16, 2, 7))]
)
@pytest.mark.parametrize("indices", [np.array(1), np.array([0, -1]), np.array([[1], [0]])], ids=lambda i: str(i.ndim))
def test_axes(axis: int, quantized: int, shape: tuple[int, ...], indices: np.ndarray) -> None:
    data = RNG.integers(-8, 8, shape)
    blocks = list(shape)
    blocks[quantized] = -(-blocks[quantized] // 16)
    scales = RNG.uniform(0.1, 1, blocks).astype(np.float32)
    wanted = expected(data, scales, 0, indices, 16, axis, quantized)
    model = node_model(
        "GatherBlockQuantized",
        {"indices": indices},
        constants={"data": data.astype(ml_dtypes.int4), "scales": scales},
        order=["data", "indices", "scales"],
        attributes={"block_size": 16, "gather_axis": axis, "quantize_axis": quantized},
        opset=1,
        domain="com.microsoft",
    )
    check_node(model, {"indices": indices}, [wanted])
    check_node(model, {"indices": indices})


@pytest.mark.parametrize("shape", [(6, 2), (1, 2)], ids=["each", "shared"])
def test_real_data(shape: tuple[int, int]) -> None:
    data = RNG.standard_normal((6, 32)).astype(ml_dtypes.float8_e4m3fn)
    scales = RNG.uniform(0.1, 1, shape).astype(np.float32)
    indices = np.array([[2, 5]])
    wanted = expected(data, np.broadcast_to(scales, (6, 2)), 0, indices, 16, 0, 1)
    model = node_model(
        "GatherBlockQuantized",
        {"indices": indices},
        constants={"data": data, "scales": scales},
        order=["data", "indices", "scales"],
        attributes={"block_size": 16},
        opset=1,
        domain="com.microsoft",
    )
    check_node(model, {"indices": indices}, [wanted])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"gather_axis": 1}, "must differ"),
        ({"block_size": 0}, "block_size must be positive"),
        ({"block_size": 32}, r"scales must have the shape \[6, 1\]"),
    ],
)
def test_contradictions(attributes: dict[str, Any], message: str) -> None:
    model = node_model(
        "GatherBlockQuantized",
        {"indices": np.array([0])},
        constants={"data": np.zeros((6, 32), ml_dtypes.int4), "scales": np.ones((6, 2), np.float32)},
        order=["data", "indices", "scales"],
        attributes={"block_size": 16, **attributes},
        opset=1,
        domain="com.microsoft",
    )
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)


BYTES = {0: 128, 1: 64, 30: 64, 2: 18, 6: 22, 8: 34, 20: 18}
"""Formats of GGML -> the bytes of 32 numbers."""


def table(packed_type: int, blocks: int) -> np.ndarray:
    """Five rows of numbers in one of the formats."""
    if packed_type in (0, 1, 30):
        dtype = {0: np.dtype("<f4"), 1: np.dtype("<f2"), 30: np.dtype(ml_dtypes.bfloat16)}[packed_type]
        return RNG.standard_normal((5, 32 * blocks)).astype(dtype).view(np.uint8)
    rows = RNG.integers(0, 256, (5, blocks, BYTES[packed_type])).astype(np.uint8)
    rows[..., :2] = RNG.uniform(0.01, 1, (5, blocks)).astype("<f2").view(np.uint8).reshape(5, blocks, 2)
    return rows.reshape(5, -1)


@pytest.mark.parametrize("packed_type", BYTES)
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("output_dtype", [1, 10, 16])
def test_rows_in_formats_of_ggml(packed_type: int, blocks: int, output_dtype: int) -> None:
    feeds = {"indices": np.array([[0, 4, 2], [7, -1, -9]])}
    attributes = {"packed_type": packed_type, "K": 32 * blocks, "output_dtype": output_dtype}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "order": ["data", "indices"]}
    constants = {"data": table(packed_type, blocks)}
    check_node(node_model("GatherPacked", feeds, constants=constants, attributes=attributes, **options), feeds)


@pytest.mark.parametrize(
    ("attributes", "error", "message"),
    [
        ({"packed_type": 12, "K": 32}, converter.UnsupportedModelError, "but is 12"),
        ({"packed_type": 2, "K": 64}, converter.InvalidModelError, r"rows of K = 64 .* the shape \(5, 18\)"),
    ],
)
def test_rows_of_other_formats(attributes: dict[str, int], error: Any, message: str) -> None:
    constants = {"data": table(2, 1)}
    options: dict[str, Any] = {"opset": 1, "domain": "com.microsoft", "order": ["data", "indices"]}
    model = node_model(
        "GatherPacked", {"indices": np.zeros(2, np.int64)}, constants=constants, attributes=attributes, **options
    )
    with pytest.raises(error, match=message):
        converter.convert_model(model)
