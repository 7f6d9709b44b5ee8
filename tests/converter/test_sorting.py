"""ONNX's TopK and Unique through both engines, against NumPy and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, schema_types
from tests.random_data import generator

X = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3]], np.float32)
SHAPES: list[Any] = [None, {"x": ["a", "b"]}]


def best(x: np.ndarray, k: int, axis: int, largest: bool) -> list[np.ndarray]:
    """The k best in order; of equal ones the first."""
    keys = x.astype(np.float64)
    order = np.take(np.argsort(-keys if largest else keys, axis=axis, kind="stable"), range(k), axis)
    return [np.take_along_axis(x, order, axis), order]


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize(("opset", "largest"), [(1, 1), (10, 1), (11, 0), (11, 1), (24, 0), (24, 1)])
def test_top_k(axis: int, k: int, shapes: Any, opset: int, largest: int) -> None:
    attributes: dict[str, int] = {"axis": axis}
    if opset >= 11:
        attributes["largest"] = largest
    constants = {"k": np.array([k])} if opset > 1 else {}
    if opset == 1:
        attributes["k"] = k
    model = node_model(
        "TopK", {"x": X}, outputs=2, constants=constants, attributes=attributes, opset=opset, shapes=shapes
    )
    check_node(model, {"x": X}, best(X, k, axis, bool(largest)))


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_top_k_at_execution(shapes: Any) -> None:
    feeds = {"x": X, "k": np.array([2])}
    check_node(node_model("TopK", feeds, outputs=2, opset=11, shapes=shapes), feeds, best(X, 2, -1, True))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", schema_types("TopK", 24), ids=str)
def test_types_of_top_k(dtype: np.dtype[Any], largest: int) -> None:
    x = X.astype(dtype)
    model = node_model(
        "TopK", {"x": x}, outputs=2, constants={"k": np.array([3])}, attributes={"largest": largest}, opset=24
    )
    check_node(model, {"x": x}, best(x, 3, -1, bool(largest)))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_top_k_of_equal_elements(k: int, largest: int, shapes: Any) -> None:
    """Equal elements come in their own order."""
    x = np.array([[2, 1, 2, 1, 2, 1], [0, 0, 0, 0, 0, 0], [3, 3, 1, 1, 3, 1]], np.float32)
    options: dict[str, Any] = {"constants": {"k": np.array([k])}, "attributes": {"largest": largest}, "shapes": shapes}
    check_node(node_model("TopK", {"x": x}, outputs=2, opset=11, **options), {"x": x})


def test_top_k_of_large_integers() -> None:
    x = np.array([2**24, 2**24 + 1, -(2**31), 2**31 - 1], np.int64)
    model = node_model("TopK", {"x": x}, outputs=2, constants={"k": np.array([4])}, opset=11)
    check_node(model, {"x": x})


REPEATED = np.array([[2, 1, 2, 0], [2, 1, 2, 0], [1, 1, 1, 0]], np.float32)


@pytest.mark.parametrize("sorted_", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_unique(sorted_: int, axis: int | None, shapes: Any) -> None:
    attributes = {"sorted": sorted_, **({} if axis is None else {"axis": axis})}
    model = node_model("Unique", {"x": REPEATED}, outputs=4, attributes=attributes, opset=11, shapes=shapes)
    check_node(model, {"x": REPEATED})


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("sorted_", [0, 1])
def test_unique_slices_among_many_equal_ones(seed: int, sorted_: int) -> None:
    r = generator(seed)
    shape = r.integers(1, 6, r.integers(1, 4))
    axis = int(r.integers(-len(shape), len(shape)))
    few = np.repeat(r.integers(0, 2, shape), 2, axis)
    x = np.take(few, r.permutation(few.shape[axis]), axis).astype(np.float32)
    attributes = {"axis": axis, "sorted": sorted_}
    check_node(node_model("Unique", {"x": x}, outputs=4, attributes=attributes, opset=11), {"x": x})


def test_unique_28() -> None:
    values, first, inverse, counts = np.unique(REPEATED, return_index=True, return_inverse=True, return_counts=True)
    model = node_model("Unique", {"x": REPEATED}, outputs=4, opset=28)
    check_node(model, {"x": REPEATED}, [values, first, inverse.reshape(-1), counts])


@pytest.mark.parametrize(
    ("op_type", "arguments", "message"),
    [
        ("TopK", {"constants": {"k": np.array([7])}, "outputs": 2}, "k is 7, but axis"),
        ("TopK", {"constants": {"k": np.array([-1])}, "outputs": 2}, "k is -1, but axis"),
        ("TopK", {"constants": {"k": np.array([1, 2])}, "outputs": 2}, "must be a single number"),
        ("TopK", {"constants": {"k": np.array([1])}, "outputs": 2, "attributes": {"axis": 2}}, "axis 2 lies outside"),
        ("Unique", {"attributes": {"axis": 2}}, "axis 2 lies outside"),
    ],
)
def test_contradictions(op_type: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model(op_type, {"x": X}, opset=11, **arguments))
