"""ONNX's generators, running sums and random numbers through both engines, against NumPy and onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

import converter
from tests.engines import ENGINES, check_node, converted, node_model, run, schema_types

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
SHAPES: list[Any] = [None, {"x": ["a", "b"]}]


def split(values: dict[str, Any], known: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """(graph inputs, initializers)"""
    return ({}, values) if known else (values, {})


@pytest.mark.parametrize("opset", [11, 27])
@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 5, 1), (2, 11, 3), (10, 1, -4), (3, 3, 1), (5, 0, 1), (-3, 4, 2)]
)
@pytest.mark.parametrize("dtype", schema_types("Range", 11), ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_range(opset: int, start: int, limit: int, delta: int, dtype: np.dtype[Any], known: bool) -> None:
    values = {"start": np.array(start, dtype), "limit": np.array(limit, dtype), "delta": np.array(delta, dtype)}
    feeds, constants = split(values, known)
    model = node_model("Range", feeds, constants=constants, opset=opset)
    check_node(model, feeds, [np.arange(start, limit, delta).astype(dtype)])


@pytest.mark.parametrize("known", [True, False])
def test_range_of_fractions(known: bool) -> None:
    values = {name: np.array(value, np.float32) for name, value in (("a", 1.0), ("b", 2.05), ("c", 0.1))}
    feeds, constants = split(values, known)
    check_node(node_model("Range", feeds, constants=constants, opset=11), feeds)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("stash", [TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("known", [True, False])
def test_range_of_small_floats(dtype: Any, stash: int, known: bool) -> None:
    values = {name: np.array(value, dtype) for name, value in (("a", 1.0), ("b", 40.0), ("c", 0.75))}
    feeds, constants = split(values, known)
    model = node_model("Range", feeds, constants=constants, attributes={"stash_type": stash}, opset=27)
    check_node(model, feeds, [np.arange(1, 40, 0.75).astype(dtype)])


@pytest.mark.parametrize("opset", [9, 22])
@pytest.mark.parametrize("k", [0, 1, -2, 9])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [None, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.FLOAT16])
def test_eye_like(opset: int, k: int, shapes: Any, dtype: int | None) -> None:
    attributes = {"k": k, **({} if dtype is None else {"dtype": dtype})}
    kind = np.float32 if dtype is None else helper.tensor_dtype_to_np_dtype(dtype)
    model = node_model("EyeLike", {"x": X}, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, {"x": X}, [np.eye(3, 4, k, dtype=kind)])


def test_eye_like_of_unknown_rank() -> None:
    """It can be a matrix only. The CPU plug-in takes no inputs of unknown rank."""
    model = node_model("EyeLike", {"x": X}, attributes={"k": 1}, opset=9, shapes={"x": None})
    check_node(model, {"x": X}, engines=["numpy"])


@pytest.mark.parametrize("opset", [11, 14])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("known", [True, False])
def test_cum_sum(opset: int, axis: int, exclusive: int, reverse: int, known: bool) -> None:
    attributes = {"exclusive": exclusive, "reverse": reverse}
    feeds, constants = split({"axis": np.array(axis, np.int32)}, known)
    feeds = {"x": X, **feeds}
    for shapes in SHAPES:
        model = node_model("CumSum", feeds, constants=constants, attributes=attributes, opset=opset, shapes=shapes)
        check_node(model, feeds)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_cum_prod(axis: int, exclusive: int, reverse: int, known: bool, shapes: Any) -> None:
    x = X[:, ::-1] if reverse else X
    expected = np.cumprod(x, axis)
    flip = (slice(None, None, -1), slice(None)) if axis == 0 else (slice(None), slice(None, None, -1))
    if reverse:
        expected = np.cumprod(x[flip], axis)
    if exclusive:
        source = x[flip] if reverse else x
        expected = expected / source
    if reverse:
        expected = expected[flip]
    attributes = {"exclusive": exclusive, "reverse": reverse}
    feeds, constants = split({"axis": np.array(axis, np.int64)}, known)
    feeds = {"x": x, **feeds}
    model = node_model("CumProd", feeds, constants=constants, attributes=attributes, opset=26, shapes=shapes)
    check_node(model, feeds, [expected])


@pytest.mark.parametrize("opset", [10, 28])
@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_reverse_sequence(opset: int, time: int, known: bool, shapes: Any) -> None:
    lengths = np.array([1, 3, 2, 2] if time == 0 else [4, 1, 3])
    expected = X.copy()
    for batch, length in enumerate(lengths):
        place = (slice(length), batch) if time == 0 else (batch, slice(length))
        expected[place] = expected[place][::-1]
    feeds, constants = split({"lengths": lengths}, known)
    feeds = {"x": X, **feeds}
    attributes = {"time_axis": time, "batch_axis": 1 - time}
    model = node_model("ReverseSequence", feeds, constants=constants, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, feeds, [expected])


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("dtype", [None, TensorProto.DOUBLE, TensorProto.FLOAT16])
@pytest.mark.parametrize("known", [True, False])
def test_windows(op_type: str, periodic: int, dtype: int | None, known: bool) -> None:
    attributes = {"periodic": periodic, **({} if dtype is None else {"output_datatype": dtype})}
    kind = np.float32 if dtype is None else helper.tensor_dtype_to_np_dtype(dtype)
    turn = 2 * np.pi * np.arange(10) / (10 if periodic else 9)
    whole, once, twice = {
        "HannWindow": (0.5, 0.5, 0.0),
        "HammingWindow": (25 / 46, 21 / 46, 0.0),
        "BlackmanWindow": (0.42, 0.5, 0.08),
    }[op_type]
    expected = whole - once * np.cos(turn) + twice * np.cos(2 * turn)
    feeds, constants = split({"size": np.array(10, np.int32)}, known)
    model = node_model(op_type, feeds, constants=constants, attributes=attributes, opset=17)
    check_node(model, feeds, [expected.astype(kind)])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("mels", [4, 20])
def test_mel_weights(known: bool, mels: int) -> None:
    values = {
        "mels": np.array(mels, np.int64),
        "length": np.array(64, np.int64),
        "rate": np.array(16000, np.int64),
        "low": np.array(20, np.float32),
        "high": np.array(7600, np.float32),
    }
    feeds, constants = split(values, known)
    check_node(node_model("MelWeightMatrix", feeds, constants=constants, opset=17), feeds)


# --- random numbers: what counts is their distribution ---


def samples(op_type: str, attributes: dict[str, Any], feeds: dict[str, Any], opset: int, shapes: Any = None) -> Any:
    ir = converted(node_model(op_type, feeds, attributes=attributes, opset=opset, shapes=shapes))
    for engine in ENGINES:
        yield run(engine, ir, feeds)[0]


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("seed", [None, 7.5])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_random_uniform(opset: int, seed: float | None, dtype: int) -> None:
    attributes: dict[str, Any] = {"low": -2.0, "high": 6.0, "dtype": dtype, "shape": [50, 400]}
    if seed is not None:
        attributes["seed"] = seed
    for value in samples("RandomUniform", attributes, {}, opset):
        assert value.shape == (50, 400)
        assert value.dtype == helper.tensor_dtype_to_np_dtype(dtype)
        assert value.min() >= -2
        assert value.max() <= 6
        assert abs(value.astype(np.float64).mean() - 2) < 0.1
        assert abs(value.astype(np.float64).std() - 8 / np.sqrt(12)) < 0.1


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("seed", [None, 7.5])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_random_normal(opset: int, seed: float | None, dtype: int) -> None:
    attributes: dict[str, Any] = {"mean": -2.0, "scale": 3.0, "dtype": dtype, "shape": [50, 400]}
    if seed is not None:
        attributes["seed"] = seed
    for value in samples("RandomNormal", attributes, {}, opset):
        assert value.dtype == helper.tensor_dtype_to_np_dtype(dtype)
        assert np.isfinite(value).all()
        wide = (value.astype(np.float64) + 2) / 3
        assert abs(wide.mean()) < 0.05
        assert abs(wide.std() - 1) < 0.05
        assert abs((wide**4).mean() - 3) < 0.4
        assert abs((np.abs(wide) > 2).mean() - 0.0455) < 0.01


@pytest.mark.parametrize("op_type", ["RandomUniformLike", "RandomNormalLike"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [None, TensorProto.FLOAT])
def test_random_like(op_type: str, shapes: Any, dtype: int | None) -> None:
    x = np.zeros((30, 40), np.float64)
    attributes = {} if dtype is None else {"dtype": dtype}
    for value in samples(op_type, attributes, {"x": x}, 22, shapes):
        assert value.shape == x.shape
        assert value.dtype == (np.float64 if dtype is None else np.float32)
        assert len(np.unique(value)) > 1100


@pytest.mark.parametrize("opset", [15, 22])
@pytest.mark.parametrize("dtype", [None, TensorProto.BOOL, TensorProto.INT32])
def test_bernoulli(opset: int, dtype: int | None) -> None:
    x = np.tile(np.array([0.0, 0.25, 1.0], np.float32), (4000, 1))
    attributes = {} if dtype is None else {"dtype": dtype}
    for value in samples("Bernoulli", attributes, {"x": x}, opset):
        assert value.dtype == (np.float32 if dtype is None else helper.tensor_dtype_to_np_dtype(dtype))
        np.testing.assert_allclose(value.astype(np.float64).mean(axis=0), [0, 0.25, 1], atol=0.04)


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.INT64])
@pytest.mark.parametrize("offset", [0, 500])
def test_multinomial(opset: int, dtype: int, offset: float) -> None:
    x = np.log(np.array([[1, 2, 5], [1, 1, 1]], np.float32)) + np.float32(offset)
    for value in samples("Multinomial", {"dtype": dtype, "sample_size": 6000}, {"x": x}, opset):
        assert value.shape == (2, 6000)
        assert value.dtype == helper.tensor_dtype_to_np_dtype(dtype)
        shares = [np.bincount(row, minlength=3) / 6000 for row in value]
        np.testing.assert_allclose(shares, [[0.125, 0.25, 0.625], [1 / 3] * 3], atol=0.04)


def test_a_seed_gives_the_same_numbers_in_both_engines_and_none_gives_new_ones() -> None:
    attributes = {"shape": [64], "seed": 3.0}
    first, second = samples("RandomUniform", attributes, {}, 22)
    np.testing.assert_array_equal(first, second)
    first, second = samples("RandomUniform", {"shape": [64]}, {}, 22)
    assert (first != second).any()


@pytest.mark.parametrize(
    ("op_type", "opset", "arguments", "message"),
    [
        ("EyeLike", 9, {"shapes": {"x": [12]}}, "must be a matrix"),
        ("CumSum", 14, {"constants": {"axis": np.array(2)}}, "axis 2 lies outside"),
        ("CumProd", 26, {"constants": {"axis": np.array(2)}}, "axis 2 lies outside"),
        ("ReverseSequence", 10, {"constants": {"n": np.array([1, 1])}}, "2\\] lengths are given for 4"),
        ("Multinomial", 7, {"attributes": {"sample_size": 0}}, "must be positive"),
    ],
)
def test_contradictions(op_type: str, opset: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model(op_type, {"x": X}, opset=opset, **arguments))


def test_a_range_never_stands_still() -> None:
    constants = {name: np.array(value) for name, value in (("a", 0), ("b", 1), ("c", 0))}
    with pytest.raises(converter.ConversionError, match="must not be 0"):
        converter.convert_model(node_model("Range", {}, constants=constants, opset=11))
