"""ONNX's AffineGrid and GridSample through both engines, against onnxruntime and a float64 computation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import converter
from tests.engines import check_node, node_model, schema_types
from tests.random_data import generator

RNG = generator(2)
X = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32)
GRID = RNG.uniform(-1.7, 1.7, (2, 7, 4, 2)).astype(np.float32)
GRID[0, 0] = [[-1, -1], [1, 1], [0, 0], [-1, 1]]
VOLUME = RNG.standard_normal((2, 3, 4, 5, 6)).astype(np.float32)
PLACES = RNG.uniform(-1.7, 1.7, (2, 3, 2, 4, 3)).astype(np.float32)
PADDINGS = ["zeros", "border", "reflection"]


def element(data: np.ndarray, index: tuple[int, ...], padding: str, align: bool) -> Any:
    """One element of ``[C, ...]``, or what padding puts in its place."""
    place = []
    for i, n in zip(index, data.shape[1:]):
        if padding == "zeros" and not 0 <= i < n:
            return np.zeros(len(data))
        if padding == "reflection":
            line = [*range(n), *range(n - 2, 0, -1)] if align else [*range(n), *range(n - 1, -1, -1)]
            i = line[i % len(line)]
        place.append(min(max(i, 0), n - 1))
    return data[(slice(None), *place)].astype(np.float64)


def weights(share: float, mode: str) -> list[tuple[int, float]]:
    if mode == "linear":
        return [(0, 1 - share), (1, share)]
    found = []
    for step in (-1, 0, 1, 2):
        d, a = abs(step - share), -0.75
        inner = (a + 2) * d**3 - (a + 3) * d**2 + 1
        found.append((step, inner if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4)))
    return found


def sampled(data: np.ndarray, grid: np.ndarray, mode: str, padding: str, align: bool) -> np.ndarray:
    """Place by place in float64."""
    out = np.zeros((*data.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        spots = []
        for value, n in zip(grid[at][::-1].astype(np.float64), data.shape[2:]):
            spots.append((value + 1) / 2 * (n - 1) if align else ((value + 1) * n - 1) / 2)
        if mode == "nearest":
            choices = [[(round(s), 1.0)] for s in spots]
        else:
            choices = [[(int(np.floor(s)) + i, w) for i, w in weights(s - np.floor(s), mode)] for s in spots]
        for taps in itertools.product(*choices):
            scale = np.prod([w for _, w in taps])
            out[(at[0], slice(None), *at[1:])] += scale * element(
                data[at[0]], tuple(i for i, _ in taps), padding, align
            )
    return out.astype(data.dtype)


@pytest.mark.parametrize("opset", [16, 20, 22])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("align", [0, 1])
def test_images(opset: int, mode: str, padding: str, align: int) -> None:
    spelled = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode) if opset == 16 else mode
    attributes = {"mode": spelled, "padding_mode": padding, "align_corners": align}
    feeds = {"x": X, "grid": GRID}
    check_node(node_model("GridSample", feeds, attributes=attributes, opset=opset), feeds)


@pytest.mark.parametrize("opset", [16, 20])
def test_defaults(opset: int) -> None:
    shapes = {"x": ["n", "c", "h", "w"], "grid": ["n", "a", "b", 2]}
    feeds = {"x": X, "grid": GRID}
    check_node(node_model("GridSample", feeds, opset=opset, shapes=shapes), feeds)


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("shapes", [None, {"x": ["n", 3, "d", "h", "w"], "grid": ["n", "a", "b", "c", 3]}], ids=str)
def test_volumes(mode: str, padding: str, align: int, shapes: Any) -> None:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": align}
    feeds = {"x": VOLUME, "grid": PLACES}
    expected = sampled(VOLUME, PLACES, mode, padding, bool(align))
    check_node(node_model("GridSample", feeds, attributes=attributes, opset=22, shapes=shapes), feeds, [expected])


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_lists(mode: str, padding: str) -> None:
    feeds = {"x": X[:, :, 0], "grid": GRID[..., 0, :1]}
    expected = sampled(feeds["x"], feeds["grid"], mode, padding, False)
    attributes = {"mode": mode, "padding_mode": padding}
    check_node(node_model("GridSample", feeds, attributes=attributes, opset=20), feeds, [expected])


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
def test_single_elements(align: int, padding: str) -> None:
    attributes = {"padding_mode": padding, "align_corners": align}
    feeds = {"x": VOLUME[:, :, :1, :, :1], "grid": PLACES}
    expected = sampled(feeds["x"], PLACES, "linear", padding, bool(align))
    check_node(node_model("GridSample", feeds, attributes=attributes, opset=22), feeds, [expected])


@pytest.mark.parametrize("dtype", schema_types("GridSample", 22, "T1"), ids=str)
@pytest.mark.parametrize("volume", [True, False])
def test_types_of_data(dtype: np.dtype[Any], volume: bool) -> None:
    x, grid = (VOLUME, PLACES) if volume else (X, GRID)
    feeds = {"x": np.abs(x * 50).astype(dtype), "grid": grid}
    expected = sampled(feeds["x"], grid, "nearest", "border", False)
    attributes = {"mode": "nearest", "padding_mode": "border"}
    check_node(node_model("GridSample", feeds, attributes=attributes, opset=22), feeds, [expected])


@pytest.mark.parametrize("dtype", schema_types("GridSample", 22, "T2"), ids=str)
@pytest.mark.parametrize("volume", [True, False])
def test_types_of_interpolation(dtype: np.dtype[Any], volume: bool) -> None:
    x, grid = (VOLUME, PLACES) if volume else (X, GRID)
    feeds = {"x": x.astype(dtype), "grid": grid.astype(dtype)}
    expected = sampled(feeds["x"].astype(np.float64), feeds["grid"], "linear", "zeros", False).astype(dtype)
    check_node(node_model("GridSample", feeds, opset=22), feeds, [expected])


@pytest.mark.parametrize(
    ("changed", "attributes", "opset", "message"),
    [
        ({}, {"mode": "linear"}, 16, "mode must be one of bilinear"),
        ({}, {"mode": "bilinear"}, 20, "mode must be one of linear"),
        ({}, {"padding_mode": "wrap"}, 20, "padding_mode must be"),
        ({"x": VOLUME, "grid": PLACES}, {}, 16, "four dimensions in opset 16"),
        ({"grid": GRID[..., :1]}, {}, 20, "two coordinates"),
        ({"grid": GRID[:1]}, {}, 20, "different batches"),
        ({"x": X.astype(np.int32)}, {}, 20, "not defined"),
    ],
)
def test_refusals(changed: dict[str, Any], attributes: dict[str, Any], opset: int, message: str) -> None:
    feeds = {"x": X, "grid": GRID, **changed}
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(node_model("GridSample", feeds, attributes=attributes, opset=opset))


THETAS = {
    4: RNG.standard_normal((2, 2, 3)).astype(np.float32),
    5: RNG.standard_normal((2, 3, 4)).astype(np.float32),
}


@pytest.mark.parametrize("size", [[2, 3, 5, 6], [2, 3, 4, 5, 6]], ids=str)
@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("dynamic", [True, False])
def test_affine_grid(size: list[int], align: int, constant: bool, dynamic: bool) -> None:
    theta = THETAS[len(size)]
    given = {"size": np.array(size)}
    inputs, constants = ({"theta": theta}, given) if constant else ({"theta": theta, **given}, {})
    shapes = {"theta": [None, None, None]} if dynamic else None
    attributes = {"align_corners": align}
    model = node_model("AffineGrid", inputs, constants=constants, attributes=attributes, opset=20, shapes=shapes)
    check_node(model, inputs)


@pytest.mark.parametrize(
    ("theta", "size", "message"),
    [(THETAS[4], [2, 3, 5], "4 or 5 dimensions"), (THETAS[4], [2, 3, 4, 5, 6], "theta must be")],
)
def test_contradictions_of_affine_grid(theta: np.ndarray, size: list[int], message: str) -> None:
    model = node_model("AffineGrid", {"theta": theta}, constants={"size": np.array(size)}, opset=20)
    with pytest.raises(converter.ConversionError, match=message):
        converter.convert_model(model)
