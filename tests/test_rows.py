"""Each row and each layer in its runtimes; random numbers by their distribution."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.engines import ENGINES, converted, node_model, run
from tests.rows.layer import Layer
from tests.rows.row import Row
from tests.rows.table import layer_table, table
from tests.runtimes.check import BATCHES, check, check_layer, known

# --- every row and every layer of ``tests/rows`` in every runtime ---


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_row(row: Row) -> None:
    check(row)


@pytest.mark.batches(BATCHES)
@pytest.mark.parametrize("row", layer_table(), ids=lambda row: row.name)
def test_layer(row: Layer) -> None:
    check_layer(row)


def test_what_is_known_is_known_of_rows() -> None:
    names = [row.name for row in (*table(), *layer_table())]
    patterns = {pattern for of_runtime in known().values() for pattern in of_runtime}
    gone = {pattern for pattern in patterns if not fnmatch.filter(names, pattern)}
    assert not gone, f"known.toml has patterns that are of no row: {gone}"


# --- random numbers of ONNX's operators in both engines: what counts is their distribution ---

FLOATS = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16]


def samples(op_type: str, opset: int, feeds: dict[str, Any], outputs: int = 1, **more: Any) -> Iterator[list[Any]]:
    """Yield the outputs of each engine; attributes may be None."""
    attributes = {name: value for name, value in more.pop("attributes", {}).items() if value is not None}
    ir = converted(node_model(op_type, feeds, opset=opset, outputs=outputs, attributes=attributes, **more))
    for engine in ENGINES:
        yield run(engine, ir, feeds)


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("seed", [None, 7.5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_random_numbers(opset: int, seed: float | None, dtype: int) -> None:
    uniform, normal = (
        list(samples(op_type, opset, {}, attributes={"dtype": dtype, "shape": [50, 400], "seed": seed, **limits}))
        for op_type, limits in (
            ("RandomUniform", {"low": -2.0, "high": 6.0}),
            ("RandomNormal", {"mean": -2.0, "scale": 3.0}),
        )
    )
    for (value,) in uniform + normal:
        assert (value.shape, value.dtype) == ((50, 400), helper.tensor_dtype_to_np_dtype(dtype))
    for (value,) in uniform:
        assert -2 <= value.min() <= value.max() <= 6
        wide = value.astype(np.float64)
        np.testing.assert_allclose([wide.mean(), wide.std()], [2, 8 / np.sqrt(12)], rtol=0, atol=0.1)
    for (value,) in normal:
        assert np.isfinite(value).all()
        wide = (value.astype(np.float64) + 2) / 3
        np.testing.assert_allclose([wide.mean(), wide.std()], [0, 1], rtol=0, atol=0.05)
        assert abs((wide**4).mean() - 3) < 0.4
        assert abs((np.abs(wide) > 2).mean() - 0.0455) < 0.01


@pytest.mark.parametrize("op_type", ["RandomUniformLike", "RandomNormalLike"])
@pytest.mark.parametrize("shapes", [None, {"x": ["a", "b"]}], ids=str)
@pytest.mark.parametrize("dtype", [None, TensorProto.FLOAT])
def test_random_like(op_type: str, shapes: Any, dtype: int | None) -> None:
    x = np.zeros((30, 40), np.float64)
    for (value,) in samples(op_type, 22, {"x": x}, attributes={"dtype": dtype}, shapes=shapes):
        assert value.shape == x.shape
        assert value.dtype == (np.float64 if dtype is None else np.float32)
        assert len(np.unique(value)) > 1100


@pytest.mark.parametrize("opset", [15, 22])
@pytest.mark.parametrize("dtype", [None, TensorProto.BOOL, TensorProto.INT32])
def test_bernoulli(opset: int, dtype: int | None) -> None:
    x = np.tile(np.array([0.0, 0.25, 1.0], np.float32), (4000, 1))
    for (value,) in samples("Bernoulli", opset, {"x": x}, attributes={"dtype": dtype}):
        assert value.dtype == helper.tensor_dtype_to_np_dtype(dtype or TensorProto.FLOAT)
        np.testing.assert_allclose(value.astype(np.float64).mean(axis=0), [0, 0.25, 1], atol=0.04)


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("dtype", [TensorProto.INT32, TensorProto.INT64])
@pytest.mark.parametrize("offset", [0, 500])
def test_multinomial(opset: int, dtype: int, offset: float) -> None:
    x = np.log(np.array([[1, 2, 5], [1, 1, 1]], np.float32)) + np.float32(offset)
    for (value,) in samples("Multinomial", opset, {"x": x}, attributes={"dtype": dtype, "sample_size": 6000}):
        assert value.shape == (2, 6000)
        assert value.dtype == helper.tensor_dtype_to_np_dtype(dtype)
        shares = [np.bincount(row, minlength=3) / 6000 for row in value]
        np.testing.assert_allclose(shares, [[0.125, 0.25, 0.625], [1 / 3] * 3], atol=0.04)


def test_a_seed_gives_the_same_numbers_in_both_engines_and_none_gives_new_ones() -> None:
    (first,), (second,) = samples("RandomUniform", 22, {}, attributes={"shape": [64], "seed": 3.0})
    np.testing.assert_array_equal(first, second)
    (first,), (second,) = samples("RandomUniform", 22, {}, attributes={"shape": [64]})
    assert (first != second).any()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.float64])
def test_training_drops_at_random_and_scales_the_rest(training: bool, stored: bool, kind: Any) -> None:
    x = np.random.default_rng(5).random((100, 200)).astype(np.float32) + 1
    more = {"ratio": np.array(0.3, np.float32), "training": np.array(training)}
    feeds = {"x": x.astype(kind)} | ({} if stored else more)
    for values, mask in samples("Dropout", 13, feeds, 2, constants=more if stored else {}, attributes={"seed": 7}):
        assert (values.dtype, mask.dtype) == (kind, np.bool_)
        if not training:
            assert mask.all()
            np.testing.assert_array_equal(values, x.astype(kind))
            continue
        assert abs(mask.mean() - 0.7) < 0.016  # five standard deviations of 20,000 numbers
        assert not values[~mask].any()
        np.testing.assert_allclose(values[mask], (x / 0.7)[mask], rtol=2e-3)
