"""Grids and boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.engines import schema_types
from tests.rows.row import InOpset, const, each, rows

RNG = np.random.default_rng(2)
X = RNG.standard_normal((2, 3, 5, 6)).astype(np.float32)
GRID = RNG.uniform(-1.7, 1.7, (2, 7, 4, 2)).astype(np.float32)
GRID[0, 0] = [[-1, -1], [1, 1], [0, 0], [-1, 1]]
VOLUME = RNG.standard_normal((2, 3, 4, 5, 6)).astype(np.float32)
PLACES = RNG.uniform(-1.7, 1.7, (2, 3, 2, 4, 3)).astype(np.float32)

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
    # onnx's evaluator computes cubic samples of the border of volumes otherwise.
    *(row for paddings, modes in ((("zeros", "reflection"), ("linear", "nearest", "cubic")), (("border",), ("linear",
        "nearest"))) for row in rows("GridSample", 22, x=VOLUME, grid=PLACES, mode=each(*modes),
        padding_mode=each(*paddings), align_corners=ALIGNED, dims=each(None, OPEN_VOLUME))),
    *rows("GridSample", 20, x=X[:, :, 0], grid=GRID[..., 0, :1], mode=MODES, padding_mode=PADDINGS),
    *rows("GridSample", 22, x=VOLUME[:, :, :1, :, :1], grid=PLACES, padding_mode=PADDINGS, align_corners=ALIGNED),
    *(row for dtype in schema_types("GridSample", 22, "T1") for x, grid in BOTH for row in rows(
        "GridSample", 22, label="data", x=each(np.abs(x * 50).astype(dtype)), grid=grid, mode="nearest",
        padding_mode="border")),
    *(row for dtype in schema_types("GridSample", 22, "T2") for x, grid in BOTH for row in rows(
        "GridSample", 22, label="types", x=each(x.astype(dtype)), grid=grid.astype(dtype))),
    *(row for theta, size in ((THETA, [2, 3, 5, 6]), (THETA_5, [2, 3, 4, 5, 6]))
      for label, s in (("", const(size)), ("at_execution", np.array(size)))
      for row in rows("AffineGrid", 20, label=label, theta=theta, size=s, align_corners=ALIGNED)),
    *rows("Det", each(11, 22), also=each(*({"x": RNG.standard_normal(shape).astype(np.float32),
          "dims": dims} for shape in ((0, 0), (1, 1), (2, 2), (5, 5), (2, 3, 3), (2, 1, 4, 4),
          (0, 3, 3)) for dims in (None, {"x": [*[None] * (len(shape) - 1), shape[-1]]})))),
    *rows("Det", 11, label="pivots_of_zero", x=SINGULAR),
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


def random_boxes(centered: int) -> np.ndarray:
    first, sides = RNG.uniform(0, 10, (2, 30, 2)), RNG.uniform(1, 6, (2, 30, 2))
    return np.concatenate([first, sides if centered else first + sides], -1).astype(np.float32)


BOXES = random_boxes(0)
SCORES = RNG.uniform(-1, 1, (2, 3, 30)).astype(np.float32)
LIMIT, OVERLAP, LEAST = np.array([5]), np.array([0.4], np.float32), np.array([0.1], np.float32)
# A box whose overlap equals the threshold stays; corners come in any order.
CORNERS = np.array([[[0, 0, 2, 2], [2, 2, 0, 0], [0, 1, 2, 3], [0, 0, 2, 1], [2, 0, 0, 0.5], [0, 0, 2, 1.5],
                     [7, 7, 7, 7]]], np.float32)  # fmt: skip
FALLING = np.linspace(0.9, 0.1, 7)[None, None].astype(np.float32)
IMAGE = RNG.standard_normal((2, 3, 9, 11)).astype(np.float32)
ROIS = np.array([[0, 0, 10, 8], [2, 1, 6, 7], [1.3, 2.2, 1.4, 2.3], [-3, -2, 4, 5], [5, 5, 20, 20], [8, 6, 3, 2],
                 [3, 3, 3, 3]], np.float32)  # fmt: skip
BATCHES = np.array([0, 1, 0, 1, 0, 1, 0])
NUMBERED = np.concatenate([BATCHES[:, None], ROIS], 1)
REGIONS: dict[str, Any] = {"x": IMAGE, "rois": ROIS, "batches": BATCHES}
OPEN: Any = {"x": ["n", None, "h", "w"], "rois": ["r", 4], "batches": ["r"]}
BINS = {"output_height": 3, "output_width": 4}
SELECTED: dict[str, Any] = {"boxes": BOXES, "scores": SCORES}
ROWS += [
    *(row for centered in (0, 1) for row in rows(
        "NonMaxSuppression", each(10, 11), label="selection", boxes=random_boxes(centered), scores=SCORES,
        center_point_box=centered, dims=each(None, {"boxes": ["n", "k", 4], "scores": ["n", "c", "k"]}), also=each(
            {"limit": LIMIT, "overlap": OVERLAP, "least": LEAST},
            {"limit": const(LIMIT), "overlap": const(OVERLAP), "least": const(LEAST)}))),
    *rows("NonMaxSuppression", 11, **SELECTED, limit=const(each(*map(np.atleast_1d, (
        0, 1, 30, 2**31 - 1, 2**31, 2**63 - 1)))), overlap=const(OVERLAP), least=const(LEAST)),
    *rows("NonMaxSuppression", 11, **SELECTED, also=each(
        {}, {"limit": const(LIMIT)}, {"limit": const(LIMIT), "overlap": const(OVERLAP)},
        {"limit": const(LIMIT), "overlap": None, "least": const(LEAST)},
        {"limit": None, "overlap": const(OVERLAP), "least": const(LEAST)})),
    *(row for wrap in (np.asarray, const) for row in rows(
        "NonMaxSuppression", 11, label="equal_overlap", boxes=CORNERS, scores=FALLING, limit=wrap(np.array([9])),
        overlap=each(*(wrap(np.array([v], np.float32)) for v in (0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0))))),
    *rows("NonMaxSuppression", 11, label="of_nothing", boxes=np.empty((1, 0, 4), np.float32),
          scores=np.empty((1, 2, 0), np.float32), limit=const(LIMIT)),
    *rows("NonMaxSuppression", 11, label="none", **SELECTED, limit=const(LIMIT), overlap=const(OVERLAP),
          least=const([2], np.float32)),
    *rows("NonMaxSuppression", 11, boxes=BOXES, scores=SCORES[:1], l=LIMIT, refused="number of batches"),
    *rows("NonMaxSuppression", 11, boxes=BOXES, scores=SCORES[..., :7], l=LIMIT, refused="number of boxes"),
    *rows("NonMaxSuppression", 11, boxes=BOXES[..., :3], scores=SCORES, l=LIMIT, refused="coordinates"),
    *rows("NonMaxSuppression", 11, boxes=BOXES[0], scores=SCORES, l=LIMIT, refused="must have 3 dimensions"),
    *rows("NonMaxSuppression", 11, **SELECTED, limit=np.array([1, 2]),
          refused="max_output_boxes_per_class must be a single number"),
    *rows("NonMaxSuppression", 11, **SELECTED, center_point_box=2, refused="center_point_box must be 0 or 1"),
    *rows("RoiAlign", each(10, 16), **REGIONS, **BINS, sampling_ratio=each(0, 1, 2), spatial_scale=each(1.0, 0.4),
          dims=each(None, OPEN)),
    *rows("RoiAlign", 16, **REGIONS, mode=each("avg", "max"), **BINS, sampling_ratio=each(1, 3),
          coordinate_transformation_mode=each("half_pixel", "output_half_pixel"), spatial_scale=each(1.0, 0.4)),
    *(row for dtype in schema_types("RoiAlign", 22, "T1") for opset in (10, 16, 22)
      if opset == 22 or dtype.name != "bfloat16" for row in rows(
          "RoiAlign", opset, label="types", x=IMAGE.astype(dtype), rois=ROIS[:5].round().astype(dtype),
          batches=BATCHES[:5], output_height=2, output_width=2, sampling_ratio=2, expect=InOpset(min(opset, 16)))),
    *rows("RoiAlign", 16, label="one_bin", **REGIONS),
    *(row for dtype in ("float32", "float64", "float16") for row in rows(
        "MaxRoiPool", each(1, 22), label="types", x=IMAGE.astype(dtype), rois=NUMBERED.astype(dtype), pooled_shape=[3, 4],
        dims=each(None, {"x": ["n", None, "h", "w"], "rois": ["r", 5]}), spatial_scale=each(1.0, 0.4),
        expect=InOpset(1))),
    *rows("RoiAlign", 16, **REGIONS, mode="min", refused="mode must be avg or max"),
    *rows("RoiAlign", 16, **REGIONS, mode="max", refused="maxima over a number of points"),
    *rows("RoiAlign", 16, **REGIONS, coordinate_transformation_mode="pixel",
          refused="coordinate_transformation_mode must be"),
    *rows("RoiAlign", 16, **REGIONS, output_height=0, refused="must be positive"),
    *rows("RoiAlign", 16, x=IMAGE, rois=ROIS[:, :3], batches=BATCHES, refused="coordinates"),
    *rows("RoiAlign", 16, x=IMAGE, rois=ROIS, batches=BATCHES[:3], refused="number of regions"),
    *rows("RoiAlign", 16, x=IMAGE[0], rois=ROIS, batches=BATCHES, refused="must have 4 dimensions"),
]  # fmt: skip
