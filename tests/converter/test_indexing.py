"""ONNX's indexing operators through both engines, against NumPy and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SHAPES: list[Any] = [None, {"x": ["a", None, "c"]}]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def small(dtype: np.dtype[Any], *shape: int) -> np.ndarray:
    """Small numbers, as far as the type has them."""
    return (np.arange(int(np.prod(shape))) % 5).reshape(shape).astype(dtype)


@pytest.mark.parametrize("opset", [1, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [np.array(1), ints(1, -2, 0), np.array([[0], [1]], np.int32)], ids=str)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_gather(opset: int, axis: int, indices: np.ndarray, shapes: Any, known: bool) -> None:
    feeds: dict[str, Any] = {"x": X}
    constants = {"i": indices}
    if not known:
        feeds, constants = {**feeds, **constants}, {}
    model = node_model("Gather", feeds, constants=constants, attributes={"axis": axis}, opset=opset, shapes=shapes)
    check_node(model, feeds, [np.take(X, indices, axis)])


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize(
    ("axis", "indices"),
    [
        (0, np.array([[[1, 0, -1, -2]] * 3])),
        (1, np.array([[[2, 0, 1, -1]] * 2, [[0, 0, -3, 1]] * 2])),
        (-1, np.array([[[3], [-1], [0]], [[1], [2], [-4]]])),
        (2, np.array([[[3, 1], [-1, 2]]], np.int32)),
    ],
)
@pytest.mark.parametrize("shapes", [None, {"x": ["a", "b", "c"], "i": ["d", "e", "f"]}], ids=str)
def test_gather_elements(opset: int, axis: int, indices: np.ndarray, shapes: Any) -> None:
    feeds = {"x": X, "i": indices}
    model = node_model("GatherElements", feeds, attributes={"axis": axis}, opset=opset, shapes=shapes)
    part = [slice(n) for n in indices.shape]
    part[axis] = slice(None)
    check_node(model, feeds, [np.take_along_axis(X[tuple(part)], indices.astype(np.int64), axis)])


@pytest.mark.parametrize(
    ("opset", "batch", "indices"),
    [
        (11, 0, np.array([[1, 2, 3], [0, -1, 0]])),
        (11, 0, np.array([[[1]], [[-2]]])),
        (12, 0, np.array([[1, 2]])),
        (12, 1, np.array([[2], [-1]])),
        (12, 1, np.array([[[2, 0], [1, 1]], [[0, 3], [-1, -1]]])),
        (13, 2, np.array([[[0], [1], [-1]], [[3], [2], [1]]])),
    ],
    ids=str,
)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_gather_nd(opset: int, batch: int, indices: np.ndarray, shapes: Any) -> None:
    attributes = {"batch_dims": batch} if batch else {}
    feeds = {"x": X, "i": indices}
    check_node(node_model("GatherND", feeds, attributes=attributes, opset=opset, shapes=shapes), feeds)


@pytest.mark.parametrize(("op_type", "opset"), [("Scatter", 9), ("ScatterElements", 11), ("ScatterElements", 18)])
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_scatter_elements(op_type: str, opset: int, axis: int, shapes: Any) -> None:
    indices = np.array([[[1, 0, -1, 0]]]) if axis == 0 else np.array([[[3, 1], [-4, 2]]])
    feeds = {"x": X, "i": indices, "u": -small(np.dtype(np.float32), *indices.shape)}
    if axis == 0:
        feeds["i"] = np.array([[[1, 0, -1, 0]]])
    model = node_model(op_type, feeds, attributes={"axis": axis}, opset=opset, shapes=shapes)
    expected = X.copy()
    np.put_along_axis(expected[tuple(scattered(indices, axis))], indices, feeds["u"], axis)
    check_node(model, feeds, [expected])


def scattered(indices: np.ndarray, axis: int) -> list[slice]:
    """The part of the data that indices of that shape reach."""
    part = [slice(n) for n in indices.shape]
    part[axis] = slice(None)
    return part


REDUCED = [("add", np.add, 16), ("mul", np.multiply, 16), ("max", np.maximum, 18), ("min", np.minimum, 18)]


@pytest.mark.parametrize(("reduction", "ufunc", "opset"), REDUCED)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int32, np.int8, np.uint8], ids=str)
def test_reductions_of_scatters(reduction: str, ufunc: Any, opset: int, dtype: Any) -> None:
    x, updates = small(np.dtype(dtype), 5) + dtype(2), np.array([3, 2, 1, 4], dtype)
    indices = ints(0, 0, -1, 2)
    feeds = {"x": x, "i": indices, "u": updates}
    expected = x.copy()
    ufunc.at(expected, indices, updates)
    attributes = {"reduction": reduction}
    check_node(node_model("ScatterElements", feeds, attributes=attributes, opset=opset), feeds, [expected])
    feeds["i"] = indices[:, None]
    check_node(node_model("ScatterND", feeds, attributes=attributes, opset=opset), feeds, [expected])


@pytest.mark.parametrize("reduction", ["add", "max", "min"])
def test_reductions_of_large_integers_are_exact(reduction: str) -> None:
    feeds = {"x": ints(2**24 + 1, 5), "i": ints(0, 0), "u": ints(2**24 + 3, 2**24 + 5)}
    check_node(node_model("ScatterElements", feeds, attributes={"reduction": reduction}, opset=18), feeds)


@pytest.mark.parametrize("opset", [11, 13, 16, 18])
@pytest.mark.parametrize(
    "indices", [np.array([[1], [-2]]), np.array([[0, 1], [1, -1]]), np.array([[[0, 1, 2]], [[1, 2, 3]]])], ids=str
)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_scatter_nd(opset: int, indices: np.ndarray, shapes: Any) -> None:
    places = tuple(np.moveaxis(indices, -1, 0))
    updates = -1 - small(np.dtype(np.float32), *X[places].shape)
    feeds = {"x": X, "i": indices, "u": updates}
    expected = X.copy()
    expected[places] = updates
    check_node(node_model("ScatterND", feeds, opset=opset, shapes=shapes), feeds, [expected])


@pytest.mark.parametrize("opset", [9, 11, 28])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32, np.uint8], ids=str)
@pytest.mark.parametrize("values", [np.array([2, 7], np.float32), ints(0, 1), np.array([False, True])], ids=str)
def test_one_hot(opset: int, axis: int, kind: Any, values: np.ndarray) -> None:
    raw = np.array([[0, 3, 1], [2, 9, 4]])
    if np.dtype(kind).kind != "u":
        raw[0] = [-1, 0, -7]
    marks = np.where(raw < 0, raw + 4, raw) if opset > 9 else raw
    expected = np.where(
        np.expand_dims(marks, axis) == np.arange(4).reshape([4 if i == axis % 3 else 1 for i in range(3)]),
        values[1],
        values[0],
    )
    feeds = {"i": raw.astype(kind)}
    attributes = {"axis": axis}
    constants = {"d": np.array(4, np.int64), "v": values}
    model = node_model("OneHot", feeds, constants=constants, attributes=attributes, opset=opset)
    check_node(model, feeds, [expected])
    feeds["d"] = np.array([4], np.int64)
    shapes: dict[str, Any] = {"i": ["n", "m"], "d": [1]}
    constants = {"v": values}
    model = node_model("OneHot", feeds, constants=constants, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, feeds, [expected])


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("x", [X % 3, X[0, 0], X * 0, np.array([[0, -0.0, np.nan]], np.float32)], ids=str)
@pytest.mark.parametrize("unknown", [False, True])
def test_non_zero(opset: int, x: np.ndarray, unknown: bool) -> None:
    shapes = {"x": [f"d{i}" for i in range(x.ndim)]} if unknown else None
    check_node(node_model("NonZero", {"x": x}, opset=opset, shapes=shapes), {"x": x}, [np.array(np.nonzero(x))])


@pytest.mark.parametrize("value", [0, 5])
def test_non_zero_of_a_scalar_has_no_rows(value: float) -> None:
    x = np.array(value, np.float32)
    check_node(node_model("NonZero", {"x": x}, opset=13), {"x": x}, [np.zeros((0, int(value != 0)), np.int64)])


@pytest.mark.parametrize("opset", [9, 11, 28])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_compress(opset: int, axis: int | None, shapes: Any, known: bool) -> None:
    condition = np.array([True, False] if axis is not None else [False, True, True, False, False, True])
    feeds: dict[str, Any] = {"x": X}
    constants = {"c": condition}
    if not known:
        feeds, constants = {**feeds, **constants}, {}
    attributes = {} if axis is None else {"axis": axis}
    model = node_model("Compress", feeds, constants=constants, attributes=attributes, opset=opset, shapes=shapes)
    check_node(model, feeds, [np.compress(condition, X, axis)])


@pytest.mark.parametrize(("axis", "kept"), [(None, [1, 4]), (0, [0]), (1, [1, 2])])
def test_compress_with_a_longer_condition(axis: int | None, kept: list[int]) -> None:
    """onnxruntime ignores the condition beyond the data; OpenVINO's Gather would give zeros."""
    dimension = X.size if axis is None else X.shape[axis]
    feeds = {"x": X, "c": np.isin(np.arange(dimension + 3), [*kept, dimension, dimension + 2])}
    attributes = {} if axis is None else {"axis": axis}
    for shapes in SHAPES:
        model = node_model("Compress", feeds, attributes=attributes, opset=11, shapes=shapes)
        check_node(model, feeds, [np.take(X, kept, axis)])


@pytest.mark.parametrize("axis", [None, 1])
def test_compress_with_a_condition_of_the_shape_of_the_data(axis: int | None) -> None:
    """Not valid by the specification; onnxruntime takes the condition for a list."""
    feeds, attributes = {"x": X, "c": np.median(X) < X}, {} if axis is None else {"axis": axis}
    for shapes in SHAPES:
        model = node_model("Compress", feeds, attributes=attributes, opset=11, shapes=shapes)
        check_node(model, feeds)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, 1, -2, 10, -10])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_trilu(upper: int, k: int | None, shapes: Any) -> None:
    expected = (np.triu if upper else np.tril)(X, k or 0)
    constants = {} if k is None else {"k": np.array(k, np.int64)}
    attributes = {"upper": upper}
    model = node_model("Trilu", {"x": X}, constants=constants, attributes=attributes, opset=14, shapes=shapes)
    check_node(model, {"x": X}, [expected])
    if k is not None:
        feeds = {"x": X, **constants}
        check_node(node_model("Trilu", feeds, attributes=attributes, opset=14, shapes=shapes), feeds, [expected])


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("shapes", [None, {"cache": ["b", 2, "m", 3], "update": ["b", 2, "s", 3]}], ids=str)
@pytest.mark.parametrize("axis", [-2, 2])
@pytest.mark.parametrize("starts", [None, [1, 3], [0, 4]], ids=str)
def test_tensor_scatter(mode: str, shapes: Any, axis: int, starts: list[int] | None) -> None:
    cache, update = np.zeros((2, 2, 5, 3), np.float32), 1 + np.arange(24, dtype=np.float32).reshape(2, 2, 2, 3)
    if starts == [0, 4] and mode == "linear":
        starts = [0, 2]
    feeds = {"cache": cache, "update": update}
    if starts is not None:
        feeds["starts"] = ints(*starts)
    expected = cache.copy()
    for batch, start in enumerate(starts or [0, 0]):
        for step in range(2):
            expected[batch, :, (start + step) % 5] = update[batch, :, step]
    model = node_model("TensorScatter", feeds, attributes={"mode": mode, "axis": axis}, opset=24, shapes=shapes)
    check_node(model, feeds, [expected])


@pytest.mark.parametrize(
    ("op_type", "opset", "arguments", "message"),
    [
        ("Gather", 13, {"constants": {"i": ints(2)}}, "lie outside dimension 0"),
        ("Gather", 13, {"constants": {"i": ints(0)}, "attributes": {"axis": 3}}, "axis 3 lies outside"),
        ("GatherElements", 13, {"constants": {"i": ints(0)}}, "must have one rank"),
        ("GatherND", 13, {"constants": {"i": np.array([[0, 0, 0, 0]])}}, "indices name 4 dimensions"),
        (
            "ScatterElements",
            16,
            {"constants": {"i": X.astype(np.int64), "u": X}, "attributes": {"reduction": "mean"}},
            "reduction must be one of none, add, mul",
        ),
        ("ScatterND", 13, {"constants": {"i": np.array([[0]]), "u": X}}, "updates must have the shape"),
        ("TensorScatter", 24, {"constants": {"u": X}, "attributes": {"axis": 0}}, "axis must not be 0"),
    ],
)
def test_contradictions(op_type: str, opset: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model(op_type, {"x": X}, opset=opset, **arguments))
