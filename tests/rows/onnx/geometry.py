"""ONNX's GridSample, AffineGrid and Det, against onnxruntime and computations in float64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.engines import schema_types
from tests.rows.row import const, each, rows

RNG = np.random.default_rng(2)
X = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32)
GRID = RNG.uniform(-1.7, 1.7, (2, 7, 4, 2)).astype(np.float32)
GRID[0, 0] = [[-1, -1], [1, 1], [0, 0], [-1, 1]]
VOLUME = RNG.standard_normal((2, 3, 4, 5, 6)).astype(np.float32)
PLACES = RNG.uniform(-1.7, 1.7, (2, 3, 2, 4, 3)).astype(np.float32)


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
    found, a = [], -0.75
    for step in (-1, 0, 1, 2):
        d = abs(step - share)
        inner = (a + 2) * d**3 - (a + 3) * d**2 + 1
        found.append((step, inner if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4)))
    return found


def sampled(
    x: np.ndarray, grid: np.ndarray, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> np.ndarray:
    """Place by place in float64."""
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        spots = [
            (value + 1) / 2 * (n - 1) if align_corners else ((value + 1) * n - 1) / 2
            for value, n in zip(grid[at][::-1].astype(np.float64), x.shape[2:])
        ]
        if mode == "nearest":
            choices = [[(round(s), 1.0)] for s in spots]
        else:
            choices = [[(int(np.floor(s)) + i, w) for i, w in weights(s - np.floor(s), mode)] for s in spots]
        for taps in itertools.product(*choices):
            value = element(x[at[0]], tuple(i for i, _ in taps), padding_mode, bool(align_corners))
            out[(at[0], slice(None), *at[1:])] += np.prod([w for _, w in taps]) * value
    return out.astype(x.dtype)


def determinant(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.det(x.astype(np.float64)), np.float32)


MODES, PADDINGS, ALIGNED = each("linear", "nearest", "cubic"), each("zeros", "border", "reflection"), each(0, 1)
BOTH = ((X, GRID), (VOLUME, PLACES))
OPEN_VOLUME = {"x": ["n", 3, "d", "h", "w"], "grid": ["n", "a", "b", "c", 3]}
THETA, THETA_5 = (RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 2, 3), (2, 3, 4)))
SINGULAR = np.array([[[1, 2, 3], [2, 4, 6], [1, 1, 1]], [[0, 1, 0], [0, 0, 3], [2, 0, 0]]], np.float32)
ROWS = [
    *rows("GridSample", 16, x=X, grid=GRID, mode=each("bilinear", "nearest", "bicubic"), padding_mode=PADDINGS,
          align_corners=ALIGNED),
    *rows("GridSample", each(20, 22), x=X, grid=GRID, mode=MODES, padding_mode=PADDINGS, align_corners=ALIGNED),
    *rows("GridSample", each(16, 20), x=X, grid=GRID, dims={"x": ["n", "c", "h", "w"], "grid": ["n", "a", "b", 2]}),
    *rows("GridSample", 22, x=VOLUME, grid=PLACES, mode=MODES, padding_mode=PADDINGS, align_corners=ALIGNED,
          dims=each(None, OPEN_VOLUME), expect=sampled),
    *rows("GridSample", 20, x=X[:, :, 0], grid=GRID[..., 0, :1], mode=MODES, padding_mode=PADDINGS, expect=sampled),
    *rows("GridSample", 22, x=VOLUME[:, :, :1, :, :1], grid=PLACES, padding_mode=PADDINGS, align_corners=ALIGNED,
          expect=sampled),
    *(row for dtype in schema_types("GridSample", 22, "T1") for x, grid in BOTH for row in rows(
        "GridSample", 22, label="data", x=each(np.abs(x * 50).astype(dtype)), grid=grid, mode="nearest",
        padding_mode="border", expect=sampled)),
    *(row for dtype in schema_types("GridSample", 22, "T2") for x, grid in BOTH for row in rows(
        "GridSample", 22, label="types", x=each(x.astype(dtype)), grid=grid.astype(dtype), expect=sampled)),
    *(row for theta, size in ((THETA, [2, 3, 5, 6]), (THETA_5, [2, 3, 4, 5, 6]))
      for label, s in (("", const(size)), ("at_execution", np.array(size)))
      for row in rows("AffineGrid", 20, label=label, theta=theta, size=s, align_corners=ALIGNED)),
    *rows("Det", each(11, 22), expect=determinant, also=each(*(
        {"x": RNG.standard_normal(shape).astype(np.float32), "dims": dims}
        for shape in ((0, 0), (1, 1), (2, 2), (5, 5), (2, 3, 3), (2, 1, 4, 4), (0, 3, 3))
        for dims in (None, {"x": [*[None] * (len(shape) - 1), shape[-1]]})))),
    *rows("Det", 11, label="pivots_of_zero", x=SINGULAR, expect=np.array([0, 6], np.float32)),
    *rows("GridSample", 16, x=X, grid=GRID, mode="linear", refused="mode must be one of bilinear"),
    *rows("GridSample", 20, x=X, grid=GRID, mode="bilinear", refused="mode must be one of linear"),
    *rows("GridSample", 20, x=X, grid=GRID, padding_mode="wrap", refused="padding_mode must be"),
    *rows("GridSample", 16, x=VOLUME, grid=PLACES, refused="four dimensions in opset 16"),
    *rows("GridSample", 20, x=X, grid=GRID[..., :1], refused="two coordinates"),
    *rows("GridSample", 20, x=X, grid=GRID[:1], refused="different batches"),
    *rows("GridSample", 20, x=X.astype(np.int32), grid=GRID, refused="not defined"),
    *rows("AffineGrid", 20, theta=THETA, size=const([2, 3, 5]), refused="4 or 5 dimensions"),
    *rows("AffineGrid", 20, theta=THETA, size=const([2, 3, 4, 5, 6]), refused="theta must be"),
    *rows("Det", 11, x=each(SINGULAR[0, 0], SINGULAR[:, :2]), refused="must be square"),
    *rows("Det", 11, x=SINGULAR, dims={"x": [None] * 3}, refused="must be known while converting"),
]  # fmt: skip
